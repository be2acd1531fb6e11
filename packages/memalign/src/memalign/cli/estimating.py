"""`--dry-run` of commands that ask models: about what they would ask and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memalign.cli.common import DONE, Session
from memalign.cli.output import usage_text

if TYPE_CHECKING:
    from memalign.types import Usage

__all__ = ["DryRun", "give_estimate"]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say about how many calls, tokens and dollars it takes, and ask nothing.")
]


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
