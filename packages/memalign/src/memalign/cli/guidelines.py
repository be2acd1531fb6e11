"""Guidelines and locks, looked at and changed by hand; guidelines and their tests as people read them."""

from __future__ import annotations

import getpass
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.history import give_changes
from memalign.cli.options import Force, Name
from memalign.cli.output import code_test_text, listed, table
from memalign.cli.session import DONE, Session
from memalign.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from memalign.judge import Judge
    from memalign.memory import Memory
    from memalign.types import Guideline


def guideline(
    session: Session,
    name: Name,
    guideline_id: Annotated[
        str | None,
        typer.Argument(
            metavar="GID", help="A guideline, for example G2. Without it, all are listed."
        ),
    ] = None,
    *,
    text: Annotated[str | None, typer.Option(metavar="T", help="Replace the text.")] = None,
    add: Annotated[str | None, typer.Option(metavar="T", help="Write a new guideline.")] = None,
    pin: Annotated[
        bool | None,
        typer.Option(
            "--pin/--unpin", help="Always keep the guideline in the prompt, or undo that."
        ),
    ] = None,
    retire: Annotated[
        bool | None,
        typer.Option("--retire/--restore", help="Stop using the guideline, or use it again."),
    ] = None,
    rule: Annotated[
        bool | None,
        typer.Option(
            "--rule/--no-rule",
            help="Let code decide by the guideline's tests on every item, or never.",
        ),
    ] = None,
    force: Force = False,
    by: Annotated[
        str | None,
        typer.Option(metavar="WHO", help="Who makes the change. The default is your user name."),
    ] = None,
) -> int:
    """Show guidelines, or write and change them by hand.

    A guideline is shown with the feedback that it comes from and with its tests: what code reads off each item, each
    with the answer that matters and the label which that answer supports. A sentence says whether code decides by it.
    What a guideline forbids in so many words code decides without a call, as long as no label speaks against it; what
    it asks for, only after --rule.
    """
    from memalign.align import edit_guideline, write_guideline

    if all(part is None for part in (add, text, pin, retire, rule)):
        number, judge = session.judge(name)
        named = None if guideline_id is None else judge.memory.guideline(guideline_id)
        chosen = judge.memory.guidelines if named is None else (named,)
        data = {
            "judge": name,
            "version": number,
            "guidelines": guideline_values(chosen, judge.memory),
        }
        none = f"no guidelines yet; to learn some from feedback: memalign align {name} FEEDBACK"
        exposed = (
            [] if named is None else [f"exposed to: {listed(named.exposed_to) or 'no feedback'}"]
        )
        lines = rule_lines(judge, chosen)
        session.give(
            data, guideline_table(chosen, judge.memory) if chosen else none, *exposed, *lines
        )
        return DONE
    if add is not None and (
        guideline_id is not None or text is not None or retire is not None or rule is not None
    ):
        raise InputError(
            "--add writes a new guideline, so it cannot be combined with GID, --text, --retire or --rule"
        )
    if add is None and guideline_id is None:
        raise InputError(
            f"name the guideline to change, for example G2; to list them: memalign guideline {name}"
        )
    who = by or user_name()

    def change(judge: Judge) -> Judge:
        if guideline_id is None:
            return write_guideline(judge, add or "", by=who, pinned=bool(pin))
        return edit_guideline(
            judge, guideline_id, by=who, text=text, pinned=pin, retired=retire, rule=rule
        )

    saved = session.registry().update(name, change, "edit", force=force)
    memory = saved.judge.memory
    changed = memory.guidelines[-1] if guideline_id is None else memory.guideline(guideline_id)
    give_changes(
        session,
        saved,
        {"guidelines": guideline_values([changed], memory)},
        *rule_lines(saved.judge, [changed]),
    )
    return DONE


def lock(
    session: Session,
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="The ids of cases.")],
    *,
    unlock: Annotated[
        bool, typer.Option("--unlock", help="Allow later versions to change these verdicts again.")
    ] = False,
) -> int:
    """Lock cases that no later version may get wrong.

    Each align and each change of the judge has the locked cases judged again, hidden from themselves. If one comes out
    wrong, nothing is saved, the feedback stays pending, and the case is named with the guidelines behind its verdict;
    --force saves it all the same. `memalign show` lists the locked cases.
    """
    saved = session.registry().lock(name, *ids, unlock=unlock)
    give_changes(session, saved, {"locks": saved.judge.memory.locks})
    return DONE


def user_name() -> str:
    """The name of whoever uses the computer, for what a person changes."""
    try:
        return getpass.getuser()
    except (
        OSError,
        KeyError,
        ImportError,
    ):  # no user name in the environment, and none in the system
        return "unknown"


def guideline_table(
    guidelines: Iterable[Guideline], memory: Memory | None = None, **options: Any
) -> Table:
    """Id, status, text with tests, and origin of guidelines; `options` as for `table`."""
    rows = []
    for guideline in guidelines:
        text = "\n".join(
            [guideline.text, *(f"- {code_test_text(test)}" for test in guideline.tests)]
        )
        origin = "" if guideline.origin == "distilled" else f"by {guideline.origin}"
        source = "; ".join(filter(None, (origin, listed(guideline.supported_by))))
        rows.append((guideline.id, status_text(guideline, memory), text, source))
    return table(("id", "status", "guideline", "from"), rows, **options)


def rule_lines(judge: Judge, guidelines: Iterable[Guideline]) -> list[str]:
    """For each guideline with a test a sentence: whether code decides by it, and if not, why."""
    from memalign.judge.rules import rule_sentence

    said = (
        (guideline.id, rule_sentence(judge.memory, judge.value_type, guideline))
        for guideline in guidelines
    )
    return [f"{name}: {sentence}" for name, sentence in said if sentence]


def guideline_values(guidelines: Iterable[Guideline], memory: Memory) -> list[dict[str, Any]]:
    """Guidelines of `memory` as JSON values, each with its status."""
    from memalign.types import as_json

    return [
        {**as_json(guideline), "pinned": guideline.pinned, "status": memory.status(guideline)}
        for guideline in guidelines
    ]


def status_text(guideline: Guideline, memory: Memory | None) -> str:
    """`active`, `superseded by G2` or `retired by ana`; without a memory it is forgotten."""
    status = "forgotten" if memory is None else str(memory.status(guideline))
    successor = (
        memory.successor(guideline) if memory is not None and status == "superseded" else None
    )
    by = {"superseded": successor, "retired": guideline.retired_by}.get(status)
    pinned = f"pinned by {guideline.pinned_by}" if guideline.pinned else ""
    return ", ".join(filter(None, (f"{status} by {by}" if by else status, pinned)))


def settling(name: str) -> str:
    """How a person settles comments that contradict each other."""
    return (
        f"to settle a conflict, withdraw one side (memalign unalign {name} KEY) or declare that "
        f"there is none (memalign edit {name} --dismiss KEY KEY)"
    )
