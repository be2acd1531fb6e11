"""Guidelines and locks, looked at and changed by hand; guidelines and their checks as people read them."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.options import Name
from memalign.cli.output import counted, facts, label_text, listed, table
from memalign.cli.session import DONE, Session, version_line
from memalign.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from memalign.judge import Judge
    from memalign.memory import Memory
    from memalign.registry import Saved
    from memalign.types import Check, Guideline


def guideline(
    session: Session,
    name: Name,
    guideline_id: Annotated[
        str | None, typer.Argument(metavar="GID", help="A guideline, for example G2. Without it, all are listed.")
    ] = None,
    *,
    text: Annotated[str | None, typer.Option(metavar="T", help="Replace the text and drop the checks.")] = None,
    add: Annotated[str | None, typer.Option(metavar="T", help="Write a new guideline.")] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="Always keep the guideline in the prompt, or undo that.")
    ] = None,
    retire: Annotated[
        bool | None, typer.Option("--retire/--restore", help="Stop using the guideline, or use it again.")
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'Q? yes|no L'",
            help="Replace the checks by a question about an item, the answer that matters and the label "
            "which that answer supports. May be repeated; '' removes all checks.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="WHO", help="Who makes the change. The default is your user name.")
    ] = None,
) -> int:
    """Show guidelines, or write and change them by hand.

    A guideline is shown with its checks and the feedback that it comes from. A check is a question that a decision
    model answers about each item. For example, --check 'Is it cold? yes false' means that a yes supports the label
    false.
    """
    from memalign.align import edit_guideline, write_guideline

    checks = None if check is None else [_check(text) for text in check if text.strip()]
    if add is None and text is None and pin is None and retire is None and checks is None:
        number, judge = session.judge(name)
        rule = None if guideline_id is None else judge.memory.guideline(guideline_id)
        chosen = judge.memory.guidelines if rule is None else (rule,)
        data = {"judge": name, "version": number, "guidelines": guideline_values(chosen, judge.memory)}
        session.give(data, *(_all(judge) if rule is None else _card(judge, rule)))
        return DONE
    if add is not None and (guideline_id is not None or text is not None or retire is not None):
        raise InputError("--add writes a new guideline, so it cannot be combined with GID, --text or --retire")
    if add is None and guideline_id is None:
        raise InputError(f"name the guideline to change, for example G2; to list them: memalign guideline {name}")
    who = by or user_name()

    def change(judge: Judge) -> Judge:
        if guideline_id is None:
            return write_guideline(judge, add or "", by=who, pinned=bool(pin), checks=checks or ())
        return edit_guideline(judge, guideline_id, by=who, text=text, pinned=pin, retired=retire, checks=checks)

    saved = session.registry().update(name, change, "edit")
    memory = saved.judge.memory
    new = guideline_id is None
    changed = memory.guidelines[-1] if new else memory.guideline(guideline_id or "")
    moved, lines = consequences(saved, but=changed.id)
    if not new and checks is None:
        dropped = len(saved.before.memory.guideline(changed.id).checks) - len(changed.checks)
        if dropped:
            lines.insert(0, f"{counted(dropped, 'check')} of the old text dropped; to write new ones: --check")
    data = {"judge": name, "version": saved.version, "guidelines": guideline_values([changed], memory)}
    data["consequences"] = moved
    session.give(data, *_card(saved.judge, changed), *lines, version_line(name, saved))
    return DONE


def lock(
    session: Session,
    name: Name,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="The ids of cases. Without any, the locked cases are listed."),
    ] = None,
    *,
    unlock: Annotated[
        bool, typer.Option("--unlock", help="Allow later aligns to change these verdicts again.")
    ] = False,
) -> int:
    """Lock cases that no later align may get wrong.

    Each align judges the locked cases again. It leaves out new guidelines that make the judge wrong on one of them, and
    lists these guidelines. If the judge is still wrong on a locked case, align exits with 1.
    """
    lines: list[str] = []
    moved: dict[str, Any] = {}
    if not ids and not unlock:
        number, judge = session.judge(name)
    else:
        saved = session.registry().lock(name, *(ids or ()), unlock=unlock)
        number, judge = saved.version, saved.judge
        moved, lines = consequences(saved)
        lines.append(version_line(name, saved))
    rows = [(case.id, judge.memory.label(case)) for key in judge.memory.locks if (case := judge.memory.case(key))]
    locked = table(("locked case", "experts' label"), [(case, label_text(label)) for case, label in rows])
    locks = [{"id": case, "label": label} for case, label in rows]
    data = {"judge": name, "version": number, "locks": locks, "consequences": moved}
    session.give(data, locked if rows else f"no case is locked; to lock one: memalign lock {name} ID", *lines)
    return DONE


def _all(judge: Judge) -> list[Any]:
    memory = judge.memory
    if not memory.guidelines:
        return [f"no guidelines yet; to learn some from feedback: memalign align {judge.name} FEEDBACK"]
    checks = check_table(memory.guidelines, judge)
    return [guideline_table(memory.guidelines, memory), *checks, *legend(judge.name, memory.guidelines, memory)]


def _card(judge: Judge, chosen: Guideline) -> list[Any]:
    memory = judge.memory
    card = [
        ("id", chosen.id),
        ("text", chosen.text),
        ("status", precedence_words(chosen, memory) or "in force"),
        ("origin", chosen.origin),
        ("from", listed(memory.sources_of(chosen)) or "no feedback"),
        ("exposed to", listed(chosen.exposed_to) or "no feedback"),
        *(
            ("check", f"{check.question}{'.' * bool(check.test)} A yes counts {check_words(check, judge)}.")
            for check in chosen.checks
        ),
    ]
    return [facts(card), *legend(judge.name, [chosen], memory)]


def _check(text: str) -> Check:
    """Read `QUESTION? [yes|no [LABEL]]`.

    Raises:
        InputError: What stands behind the question is no answer and label.
    """
    from memalign.types import Check

    question, mark, rest = text.rpartition("?")
    if not mark:
        return Check(question=text)  # which says why that is no check
    answer, _, label = rest.strip().partition(" ")
    if answer.lower() not in ("", "yes", "no"):
        raise InputError(
            f"--check {text}: after the question comes yes or no, then the label which that answer "
            "supports, for example --check 'Is it cold? yes false'"
        )
    return Check(question=f"{question}?", answer="no" if answer.lower() == "no" else "yes", value=label.strip() or None)


def user_name() -> str:
    """The name of whoever uses the computer, for what a person changes."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no user name in the environment, and none in the system
        return "unknown"


# -- for people and for programs ---------------------------------------------------------------------------------------


def guideline_table(
    guidelines: Iterable[Guideline], memory: Memory | None = None, *, title: str | None = None, **options: Any
) -> Table:
    """Id, status, text and origin of guidelines; of `memory`, where they are still in one. `options` as for `table`."""
    rows = []
    for guideline in guidelines:
        origin = "" if guideline.origin == "distilled" else f"by {guideline.origin}"
        source = "; ".join(filter(None, (origin, listed(guideline.supported_by))))
        rows.append((guideline.id, precedence_words(guideline, memory), guideline.text, source))
    if not any(status for _, status, _, _ in rows):
        plain = [(name, text, source) for name, _, text, source in rows]
        return table(("id", "guideline", "from"), plain, title=title, **options)
    return table(("id", "status", "guideline", "from"), rows, title=title, **options)


def guideline_values(guidelines: Iterable[Guideline], memory: Memory) -> list[dict[str, Any]]:
    """Guidelines of `memory` as JSON values, each with its status."""
    from memalign.types import as_json

    return [
        {**as_json(guideline), "pinned": guideline.pinned, "status": memory.status(guideline)}
        for guideline in guidelines
    ]


def check_table(guidelines: Iterable[Guideline], judge: Judge, *, title: str = "Checks", **options: Any) -> list[Table]:
    """The checks of guidelines of `judge`, each with what a yes counts for; no table where there are none."""
    rows = [(rule.id, check.question, check_words(check, judge)) for rule in guidelines for check in rule.checks]
    return [table(("id", "check", "a yes counts"), rows, title=title, **options)] if rows else []


def check_words(check: Check, judge: Judge) -> str:
    """What a yes to a check counts for, such as `for false`, or `against 5`."""
    if isinstance(check.value, bool):
        return f"for {label_text(check.value == (check.answer == 'yes'))}"
    side = "for" if check.answer == "yes" else "against"
    if check.value is not None:
        return f"{side} {label_text(check.value)}"
    from memalign.content import sides_of

    sided = any(sides_of(case.example.content, judge.value_type.choices) for case in judge.memory.cases)
    return f"{side} a side" if sided else "as the labels show"


def precedence_words(guideline: Guideline, memory: Memory | None = None) -> str:
    """The status of a guideline of `memory`, such as `superseded: G2 says the same`; "" for one in force.

    Without a memory, what people did to it alone.
    """
    words = ""
    if memory is not None and (successor := memory.successor(guideline)) is not None:
        does = "says the same"
        if guideline.replaced_by == successor:
            does = "revises it" if memory.guideline(successor).origin == "distilled" else "took its place"
        words = f"superseded: {successor} {does}"
    elif guideline.barred_for is not None:
        words = f"left out: it broke locked case {guideline.barred_for}"
    elif guideline.retired_by is not None:
        words = f"retired by {guideline.retired_by}"
    return ", ".join(filter(None, (words, f"pinned by {guideline.pinned_by}" if guideline.pinned else "")))


def legend(name: str, guidelines: Sequence[Guideline], memory: Memory) -> list[str]:
    """What can be done about guidelines that are not in force, a line for each status."""
    lines = []
    if any(memory.successor(guideline) is not None for guideline in guidelines):
        lines.append("a superseded guideline comes back when the guideline that replaced it is forgotten")
    if barred := [rule.id for rule in guidelines if rule.barred_for is not None]:
        lines.append(f"to use a guideline that was left out: memalign guideline {name} {barred[0]} --restore")
    return lines


def by_people(guideline: Guideline) -> str:
    """What people did to a guideline, such as `words by ana, pinned by ben`; "" when nobody did anything."""
    written = "" if guideline.origin == "distilled" else f"words by {guideline.origin}"
    pinned = f"pinned by {guideline.pinned_by}" if guideline.pinned else ""
    retired = f"retired by {guideline.retired_by}" if guideline.retired_by is not None else ""
    return ", ".join(filter(None, (written, pinned, retired)))


def settling(name: str) -> str:
    """How a person settles comments that contradict each other."""
    return (
        f"to settle a conflict, withdraw one side (memalign unalign {name} KEY) or declare that "
        f"there is none (memalign edit {name} --dismiss KEY KEY)"
    )


def consequences(saved: Saved, *, but: str = "") -> tuple[dict[str, Any], list[str]]:
    """What a change by hand did to guidelines other than `but` and to the ledger: JSON values, lines."""
    from memalign.registry.diff import compare

    changes = compare(saved.before, saved.judge)
    rules = [rule for rule in changes.guidelines if rule.id != but]
    moved = [
        (change.key, change.entry_before, change.entry_after)
        for change in changes.feedback
        if change.entry_before and change.entry_after and change.entry_before.state != change.entry_after.state
    ]
    lines = []
    for rule in rules:
        if rule.after is None:
            lines.append(f"{rule.id} was forgotten: its feedback no longer counts")
        elif rule.before is not None and rule.status_before != rule.status_after:
            lines.append(f"{rule.id} is now {precedence_words(rule.after, saved.judge.memory) or 'in force'}")
    for key, old, new in moved:
        lines.append(f"{key}: {old.state} -> {new.state}{f' ({new.reason})' if new.reason else ''}")
    if any(new.state == "pending" for _, _, new in moved):
        lines.append(f"to learn the pending feedback: memalign align {saved.judge.name}")
    states = [{"key": key, "before": old.state, "after": new.state, "reason": new.reason} for key, old, new in moved]
    return {"guidelines": rules, "feedback": states}, lines
