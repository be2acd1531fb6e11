"""What an evaluation would ask and cost, before it asks."""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from memalign import aio
from memalign.evaluation.agreement import Labelled, aevaluate
from memalign.judge import Judge
from memalign.judge.paid_calls import PaidCalls
from memalign.judge.rehearsal import Rehearsal
from memalign.models.asking import asked_through
from memalign.types import Usage

__all__ = ["aestimate_evaluation", "estimate_evaluation"]


def estimate_evaluation(judge: Judge, labelled: Labelled, *, out: str | Path | None = None) -> Usage:
    """About how many calls, tokens and dollars an evaluation would take; see `aestimate_evaluation`."""
    return aio.run(aestimate_evaluation(judge, labelled, out=out))


async def aestimate_evaluation(judge: Judge, labelled: Labelled, *, out: str | Path | None = None) -> Usage:
    """About how many calls, tokens and dollars an evaluation would take. No model is asked.

    What `out` holds already is not judged again; it is not written to. The cost is None where a price is not known. Raises
    what `aevaluate` raises.
    """
    vector = next((case.vector for case in judge.memory.cases if case.vector), None)
    rehearsal = Rehearsal(dimensions=8 if vector is None else len(vector) // 4)
    with TemporaryDirectory() as folder, asked_through(PaidCalls(rehearsal=rehearsal)):
        await aevaluate(judge, labelled, out=_copied(out, folder))
    return rehearsal.usage


def _copied(out: str | Path | None, folder: str) -> Path | None:
    """A copy of the judgments that are there, in the folder."""
    if out is None or not Path(out).is_file():
        return None
    return Path(shutil.copyfile(out, Path(folder) / Path(out).name))
