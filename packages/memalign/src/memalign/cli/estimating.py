"""`--dry-run` of commands that ask models: about what they would ask and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.common import DONE, Session
from memalign.cli.output import usage_text

if TYPE_CHECKING:
    from memalign.io import RowSource
    from memalign.judge import Judge
    from memalign.types import Usage

__all__ = ["CallsAMinute", "DryRun", "TokensAMinute", "give_estimate", "give_judging_estimate"]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say about how many calls, tokens and dollars it takes, and ask nothing.")
]

CallsAMinute = Annotated[
    float | None,
    typer.Option("--rpm", metavar="N", min=1, help="With --dry-run: the provider's limit of calls a minute."),
]
TokensAMinute = Annotated[
    float | None, typer.Option("--tpm", metavar="N", min=1, help="With --dry-run: the limit of tokens a minute.")
]

_SAMPLE = 200  # rows whose prompts are put together
_USUAL = 1_000  # calls a minute, where nobody says how many


def give_estimate(session: Session, name: str, version: int, usage: Usage, max_cost: float | None) -> int:
    """Print an estimate, which it is said to be, and return the exit code."""
    lines = [
        f"about {usage_text(usage)}; an estimate: no model was asked, and answers were taken to be of usual length"
    ]
    if not usage.calls:
        lines = ["no model would be asked"]
    elif usage.cost is None:
        lines.append(f"what the model costs is not known: memalign edit {name} --price input=N,output=N says it")
    elif max_cost is not None and usage.cost > max_cost:
        lines.append(f"--max-cost {max_cost:g} would stop it on the way")
    session.give({"judge": name, "version": version, "dry_run": True, "estimate": usage}, *lines)
    return DONE


def give_judging_estimate(
    session: Session,
    judge: Judge,
    version: int,
    given: RowSource,
    *,
    max_cost: float | None = None,
    rpm: float | None = None,
    tpm: float | None = None,
) -> int:
    """Print what judging the rows would take, from a sample of them, and return the exit code."""
    from memalign.io import Examples
    from memalign.judge.estimate import estimate_judging, hours_at

    source = Examples.of(given, fields=judge.fields)
    rows = len(source)  # reads and checks them all
    places = {number * rows // _SAMPLE for number in range(_SAMPLE)}  # from all over
    sample = [example for place, example in enumerate(source) if place in places]
    made = estimate_judging(judge, sample, rows=rows)
    usage, hours = made.usage, hours_at(made.usage, calls=rpm, tokens=tpm)
    lines = [
        f"{made.rows:,} rows, {len(sample):,} of them sampled",
        f"about {usage_text(usage)}; tokens in within {made.margin:.0%}",
        "an estimate: no model was asked, and answers were taken to be of usual length",
    ]
    if made.cached_cost is not None:
        lines.append(f"${made.cached_cost:.2g} where the provider bills the shared prefix as cached")
    if usage.cost is None:
        lines.append(f"what the model costs is not known: memalign edit {judge.name} --price input=N,output=N says it")
    elif max_cost is not None and usage.cost > max_cost:
        lines.append(f"--max-cost {max_cost:g} would stop it on the way")
    if hours is None:
        lines.append(
            f"{_time(usage.calls / _USUAL / 60)} at {_USUAL:,} calls a minute; --rpm and --tpm say your limits"
        )
    else:
        lines.append(f"{_time(hours)} at the given limits")
    data = {"judge": judge.name, "version": version, "dry_run": True, "rows": made.rows}
    data |= {"sampled": len(sample), "estimate": usage, "cached_cost": made.cached_cost, "margin": made.margin}
    session.give(data | {"hours": hours}, *lines)
    return DONE


def _time(hours: float) -> str:
    return f"{hours:,.1f} hours" if hours >= 1 else f"{60 * hours:,.0f} minutes"
