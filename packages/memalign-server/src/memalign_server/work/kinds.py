"""The kinds of long work: what a job of each is given, and what it gives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign import Judge
from memalign.align import MemAlign
from memalign.io import Examples
from memalign.judge import Progress
from memalign.registry import Receipt, Registry
from memalign.types import Example
from memalign_server.review.answers import withdrawn
from memalign_server.review.cases import add_cases
from memalign_server.review.judging import judge_cases, unjudged
from memalign_server.review.teaching import teach as teach_answers
from memalign_server.store import Store

if TYPE_CHECKING:
    from memalign.integrations.mlflow.experiments import ExperimentCases

__all__ = ["KINDS", "Kind", "Work"]


@dataclass(frozen=True, kw_only=True)
class Work:
    """One job under way: the registry, the server's tables, the judge's name, the arguments, and whom to tell how far it is."""

    registry: Registry
    store: Store
    judge: str
    arguments: Mapping[str, Any]
    progress: Progress


Kind = Callable[[Work], Awaitable[dict[str, Any]]]


def _optimizer(work: Work) -> MemAlign:
    return MemAlign(max_cost=work.arguments.get("max_cost"))


async def align(work: Work) -> dict[str, Any]:
    """Learn `feedback`, a list of rows; none: what is pending."""
    skip = bool(work.arguments.get("skip_invalid"))
    rows = tuple(work.arguments.get("feedback") or ())
    result = await work.registry.aalign(
        work.judge, rows, optimizer=_optimizer(work), progress=work.progress, skip_invalid=skip
    )
    return {**result.to_dict(), "summary": str(result)}


async def unalign(work: Work) -> dict[str, Any]:
    """Forget the feedback that `keys` and `source` name, from the next version on."""
    keys, source = tuple(work.arguments.get("keys") or ()), work.arguments.get("source")
    result = await work.registry.aunalign(
        work.judge, *keys, source=source, optimizer=_optimizer(work), progress=work.progress
    )
    withdrawn(work.store, work.judge, result.removed, [each.id for each in result.forgotten])
    return {**result.to_dict(), "summary": str(result)}


async def erase(work: Work) -> dict[str, Any]:
    """Erase cases and feedback from all versions and tables; the result is the receipt, without names.

    It cannot be stopped half way. The receipt is in the job's row from the moment at which the text is gone.
    """

    def run() -> Receipt:
        return work.registry.erase(
            work.judge,
            tuple(work.arguments.get("keys") or ()),
            source=work.arguments.get("source"),
            matching=work.arguments.get("matching"),
            optimizer=_optimizer(work),
            progress=work.progress,
        )

    erasing = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        receipt = await asyncio.shield(erasing)
    except asyncio.CancelledError:
        await asyncio.wait((erasing,))
        receipt = erasing.result()
    return receipt.without_names()


async def teach(work: Work) -> dict[str, Any]:
    """Teach the judge every answer of the review that it has not learned, and look at past verdicts again."""
    return await teach_answers(
        work.registry, work.store, work.judge, optimizer=_optimizer(work), progress=work.progress
    )


async def queue(work: Work) -> dict[str, Any]:
    """Put `examples`, a list of rows, in the queue of the review, and judge every case there that is not judged."""
    chosen = await asyncio.to_thread(work.registry.load, work.judge)
    rows = work.arguments.get("examples") or ()
    return await _queued(work, chosen, list(Examples.of(rows, columns=chosen.columns)) if rows else [])


async def pull(work: Work) -> dict[str, Any]:
    """Put the newest `most` traces of the MLflow `experiment` at `uri` in the queue, and judge every case there."""
    chosen = await asyncio.to_thread(work.registry.load, work.judge)

    def read() -> ExperimentCases:
        from memalign.integrations.mlflow.experiments import cases_of_experiment  # seconds, and not everybody has it

        asked = work.arguments
        return cases_of_experiment(
            asked["experiment"],
            chosen.fields,
            tracking_uri=asked["uri"],
            filter_string=asked.get("filter"),
            most=asked["most"],
            progress=work.progress,
        )

    work.progress("reading", 0, 0)
    found = await asyncio.to_thread(read)
    return {**await _queued(work, chosen, found.examples), "skipped": found.skipped, "more": found.more}


async def _queued(work: Work, chosen: Judge, given: Sequence[Example]) -> dict[str, Any]:
    version = (await asyncio.to_thread(work.registry.history, work.judge))[-1].number
    with work.store.write() as connection:
        added = add_cases(connection, work.judge, given)
    waiting = await asyncio.to_thread(unjudged, work.store, work.judge)
    judgments = await judge_cases(work.store, chosen, version, waiting, progress=work.progress)
    failed = [each for each in judgments if each.error is not None]
    return {
        "added": len(added.added),
        "known": added.known,
        "judged": len(judgments) - len(failed),
        "failed": len(failed),
        "problem": failed[0].error if failed else None,
    }


KINDS: Mapping[str, Kind] = {
    "align": align,
    "unalign": unalign,
    "erase": erase,
    "teach": teach,
    "queue": queue,
    "pull": pull,
}
"""Every kind by its name."""
