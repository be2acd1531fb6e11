"""Whether what a judge sees has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import DONE, FAILURES, Name, Session, Version
from memalign.cli.output import table
from memalign.cli.rows_given import rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import Drift


def drift(
    session: Session,
    name: Name,
    first: Annotated[str, typer.Argument(metavar="JUDGED1", help="Judgments of an earlier run (judge -o).")],
    second: Annotated[str, typer.Argument(metavar="JUDGED2", help="Judgments of a later run, of other items.")],
    *,
    examples: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="What was judged, once for each run: adds the likeness to memory."),
    ] = None,
    false_alarms: Annotated[
        float, typer.Option(metavar="RATE", help="How often an alarm may be false, all signals together.")
    ] = 0.05,
    n: Annotated[
        int, typer.Option("-n", metavar="N", min=0, help="How many cases to name that people should label.")
    ] = 5,
    version: Version = None,
) -> int:
    """Tell whether two runs differ by more than chance.

    It compares labels, confidence, and cases on which no check speaks. An alarm says that something changed, not what is right: label the cases that it names, and evaluate. No model is
    called. Exit 1 when an alarm is raised.
    """
    from memalign.evaluation import drift as compared

    _, judge = session.judge(name, version)
    if examples and len(examples) != 2:
        raise InputError("give --examples twice: those of the first run, then those of the second")
    given = None
    if examples:
        given = (rows_given(examples[0], remembered=judge.columns), rows_given(examples[1], remembered=judge.columns))
    found = compared(judge, first, second, examples=given, false_alarms=false_alarms, n=n)
    session.give(found.to_dict(), *_drawn(found))
    return FAILURES if found.alarm else DONE


def _drawn(found: Drift) -> list[Any]:
    parts: list[Any] = [f"{found.judge}: {found.n[0]} verdicts, then {found.n[1]}"]
    rows = [
        ("alarm" if each.alarm else "", each.name, f"{each.first:.2f}", f"{each.second:.2f}", f"{each.p:.4f}")
        for each in found.signals
    ]
    parts.append(table(("", "signal", "first", "second", "p"), rows))
    if found.label_shares:
        shares = [(name, f"{one:.0%}", f"{two:.0%}") for name, (one, two) in found.label_shares.items()]
        parts.append(table(("label", "first", "second"), shares))
    if not found.alarm:
        return [*parts, f"no alarm; of runs that do not differ, {found.false_alarms:.0%} raise one"]
    look = f"; label these next: {', '.join(found.look_at)}" if found.look_at else ""
    return [*parts, f"alarm; of runs that do not differ, {found.false_alarms:.0%} raise one{look}"]
