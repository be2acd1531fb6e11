"""The same judge on another model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalign.cli.common import DONE, FAILURES, Concurrency, Name, Session, Version, interruptible
from memalign.cli.output import counted, label_text, table, usage_text
from memalign.cli.rows_given import rows_given
from memalign.errors import InputError

if TYPE_CHECKING:
    from memalign.evaluation import Replay

_TURNED, _CHECKS = 10, 10  # rows of a table


def replay(
    session: Session,
    name: Name,
    cases: Annotated[
        str | None,
        typer.Argument(
            metavar="CASES", help="With labels or without; none: the labelled cases in memory, each hidden."
        ),
    ] = None,
    *,
    model: Annotated[str, typer.Option("--model", metavar="M", help="The other model.")],
    adopt: Annotated[bool, typer.Option("--adopt", help="Make the judge on this model the next version.")] = False,
    version: Version = None,
    concurrency: Concurrency = None,
) -> int:
    """Show which verdicts another model would turn, before it does.

    It also says which of the two agrees better with people. Both models judge every case with the same memory. --adopt
    then makes a new version, and asks the new model anew what the calibrator rests on. A case without a verdict is named
    (exit 1), and nothing is adopted then.
    """
    from memalign import aio
    from memalign.cli.progress import FailureReasons
    from memalign.evaluation import replay as run
    from memalign.registry import aadopt_model

    if adopt and version is not None:
        raise InputError("--adopt goes on from the latest version: leave --version out")
    number, judge = session.judge(name, version)
    given = None if cases is None else rows_given(cases, remembered=judge.columns)
    with interruptible(lambda: "nothing was kept"), session.progress() as progress:
        found = run(judge, model, given, concurrency=concurrency, progress=progress)
    parts = _drawn(found, name, number)
    data: dict[str, Any] = {"version": number, "adopted": None, **found.to_dict()}
    if adopt and not found.errors:
        with session.progress() as progress:
            data["adopted"] = aio.run(aadopt_model(session.registry(), name, model, progress=progress))
        parts.append(f"{name} is version {data['adopted']} now, on {model}")
    session.give(data, *parts)
    reasons = FailureReasons()
    for example_id, error in found.errors:
        reasons.add(example_id, error)
    for line in reasons.lines():
        session.say(line)
    if adopt and found.errors:
        session.say("nothing was adopted")
    return FAILURES if found.errors else DONE


def _drawn(found: Replay, name: str, number: int) -> list[Any]:
    hidden = ", in memory, each hidden from the judge" if found.hidden else ""
    same = f"{found.same.value:.0%}" if found.same.value is not None else "n/a"
    parts: list[Any] = [
        f"{name} version {number}: {found.model_before} -> {found.model}, {counted(found.n, 'case')}{hidden}",
        f"the same verdict on {same} [{found.same.low:.0%}, {found.same.high:.0%}]; {counted(len(found.turned), 'verdict')} turned",
    ]
    if found.comparison is not None:
        parts.append(f"first judge: on {found.model_before}; second judge: on {found.model}\n{found.comparison}\n")
    if found.turned:
        rows = [
            (
                each.id,
                label_text(each.before),
                label_text(each.after),
                "" if each.label is None else label_text(each.label),
            )
            for each in found.turned
        ]
        parts.append(table(("id", "before", "after", "people"), rows, title="Turned verdicts", limit=_TURNED))
    checks = [each for each in found.checks if each.changed]
    if checks:
        asked = [(each.guideline, each.check, f"{each.changed} of {each.answered}") for each in checks]
        parts.append(table(("", "check", "answered otherwise"), asked, title="Guidelines", limit=_CHECKS))
    costs = f"before: {usage_text(found.usage_before)}\nafter: {usage_text(found.usage)}"
    return [*parts, costs]
