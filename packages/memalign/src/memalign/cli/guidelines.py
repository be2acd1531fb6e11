"""Guidelines and locks, looked at and changed by hand; and how people read guidelines."""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.history import give_changes
from memalign.cli.options import AllowErased, Force, Name
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
            metavar="GID",
            help="A guideline, for example G2. Without it, all are listed.",
        ),
    ] = None,
    *,
    text: Annotated[
        str | None, typer.Option(metavar="T", help="Replace the text.")
    ] = None,
    add: Annotated[
        str | None, typer.Option(metavar="T", help="Write a new guideline.")
    ] = None,
    pin: Annotated[
        bool | None,
        typer.Option(
            "--pin/--unpin",
            help="Always keep the guideline in the prompt, or undo that.",
        ),
    ] = None,
    retire: Annotated[
        bool | None,
        typer.Option(
            "--retire/--restore", help="Stop using the guideline, or use it again."
        ),
    ] = None,
    rule: Annotated[
        bool | None,
        typer.Option(
            "--rule/--no-rule",
            help="Let code decide by the guideline's tests on every item, or never.",
        ),
    ] = None,
    force: Force = False,
    allow_erased: AllowErased = False,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHO", help="Who makes the change. The default is your user name."
        ),
    ] = None,
) -> int:
    """Show guidelines, or write and change them by hand.

    A guideline is shown with the feedback that it comes from and with its tests: what code reads
    off each item, each with the answer that matters and the label which that answer supports. A
    sentence says whether code decides by it. What a guideline forbids in so many words code decides
    without a call, as long as no label speaks against it; what it asks for, only after --rule.
    """
    if all(change is None for change in (add, text, pin, retire, rule)):
        return _show_guidelines(session, name, guideline_id)
    other = (guideline_id, text, retire, rule)
    if add is not None and any(option is not None for option in other):
        combined = "it cannot be combined with GID, --text, --retire or --rule"
        raise InputError(f"--add writes a new guideline, so {combined}")
    if add is None and guideline_id is None:
        listing = f"to list them: memalign guideline {name}"
        raise InputError(f"name the guideline to change, for example G2; {listing}")
    change = partial(
        _changed,
        guideline_id=guideline_id,
        by=by or user_name(),
        text=add or text,
        pinned=pin,
        retired=retire,
        rule=rule,
    )
    saved = session.registry().update(
        name, change, "edit", force=force, allow_erased=allow_erased
    )
    memory = saved.judge.memory
    changed = (
        memory.guidelines[-1]
        if guideline_id is None
        else memory.guideline(guideline_id)
    )
    data = {"guidelines": guideline_values([changed], memory)}
    give_changes(session, saved, data, *rule_lines(saved.judge, [changed]))
    return DONE


def _show_guidelines(session: Session, name: str, guideline_id: str | None) -> int:
    """Show one guideline, or all."""
    number, judge = session.judge(name)
    memory = judge.memory
    chosen: Sequence[Guideline] = memory.guidelines
    exposed = []
    if guideline_id is not None:
        named = memory.guideline(guideline_id)
        chosen = [named]
        exposed.append(f"exposed to: {listed(named.exposed_to) or 'no feedback'}")
    none = f"no guidelines yet; to learn some from feedback: memalign align {name} FEEDBACK"
    drawn = guideline_table(chosen, memory) if chosen else none
    data = {
        "judge": name,
        "version": number,
        "guidelines": guideline_values(chosen, memory),
    }
    session.give(data, drawn, *exposed, *rule_lines(judge, chosen))
    return DONE


def _changed(
    judge: Judge, *, guideline_id: str | None, text: str | None, **changes: Any
) -> Judge:
    """Return the judge with a guideline changed, or written if none is named."""
    from memalign.align import edit_guideline, write_guideline

    if guideline_id is None:
        pinned = bool(changes["pinned"])
        return write_guideline(judge, text or "", by=changes["by"], pinned=pinned)
    return edit_guideline(judge, guideline_id, text=text, **changes)


def lock(
    session: Session,
    name: Name,
    ids: Annotated[list[str], typer.Argument(metavar="ID", help="The ids of cases.")],
    *,
    unlock: Annotated[
        bool,
        typer.Option(
            "--unlock", help="Allow later versions to change these verdicts again."
        ),
    ] = False,
) -> int:
    """Lock cases that no later version may get wrong.

    Each align and each change of the judge has the locked cases judged again, hidden from
    themselves. If one comes out wrong, nothing is saved, the feedback stays pending, and the case
    is named with the guidelines behind its verdict; --force saves it all the same. `memalign show`
    lists the locked cases.
    """
    saved = session.registry().lock(name, *ids, unlock=unlock)
    give_changes(session, saved, {"locks": saved.judge.memory.locks})
    return DONE


def user_name() -> str:
    """Return the name of whoever uses the computer, for what a person changes."""
    try:
        return getpass.getuser()
    except (
        OSError,
        KeyError,
        ImportError,
    ):
        # Neither the environment nor the system has a name.
        return "unknown"


def guideline_table(
    guidelines: Iterable[Guideline], memory: Memory | None = None, **options: Any
) -> Table:
    """Make a table of guidelines: id, status, text with tests, and origin.

    Args:
        guidelines: The guidelines.
        memory: Says their status; None if they are forgotten.
        options: As for `table`.
    """
    rows = []
    for guideline in guidelines:
        lines = [guideline.text]
        lines += [f"- {code_test_text(test)}" for test in guideline.tests]
        sources = [listed(guideline.supported_by)]
        if guideline.origin != "distilled":
            sources.insert(0, f"by {guideline.origin}")
        source = "; ".join(filter(None, sources))
        rows.append(
            (guideline.id, status_text(guideline, memory), "\n".join(lines), source)
        )
    return table(("id", "status", "guideline", "from"), rows, **options)


def rule_lines(judge: Judge, guidelines: Iterable[Guideline]) -> list[str]:
    """Say of each guideline with a test whether code decides by it, and if not, why."""
    from memalign.judge.rules import rule_sentence

    lines = []
    for guideline in guidelines:
        sentence = rule_sentence(judge.memory, judge.value_type, guideline)
        if sentence:
            lines.append(f"{guideline.id}: {sentence}")
    return lines


def guideline_values(
    guidelines: Iterable[Guideline], memory: Memory
) -> list[dict[str, Any]]:
    """Return guidelines of `memory` as JSON values, each with its status."""
    from memalign.types import as_json

    values = []
    for guideline in guidelines:
        derived = {"pinned": guideline.pinned, "status": memory.status(guideline)}
        values.append({**as_json(guideline), **derived})
    return values


def status_text(guideline: Guideline, memory: Memory | None) -> str:
    """Write `active`, `superseded by G2` or `retired by ana`; without a memory, `forgotten`."""
    status = "forgotten"
    by = None
    if memory is not None:
        status = str(memory.status(guideline))
    if memory is not None and status == "superseded":
        by = memory.successor(guideline)
    elif status == "retired":
        by = guideline.retired_by
    text = f"{status} by {by}" if by else status
    return f"{text}, pinned by {guideline.pinned_by}" if guideline.pinned else text


def settling(name: str) -> str:
    """Say how a person settles comments that contradict each other."""
    return (
        f"to settle a conflict, withdraw one side (memalign unalign {name} KEY) or declare that "
        f"there is none (memalign edit {name} --dismiss KEY KEY)"
    )
