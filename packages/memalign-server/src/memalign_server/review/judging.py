"""Judging the queue: new cases, and older ones again after the judge has learned.

A case is judged with itself hidden from the judge. Of a case that it was taught it would repeat the expert's label, and
nobody could see whether the lesson helped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from sqlalchemy import select

from memalign.evaluation.label_next import likeness_to_memory
from memalign.judge import Judge
from memalign.types import Example, Judgment
from memalign_server.review.cases import queued, store_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import queue

__all__ = ["judge_cases", "judge_hidden", "unjudged"]

Progress = Callable[[str, int, int], None]

_AT_ONCE = 16
"""Cases between two writes: what is judged can be reviewed while the rest is still judged."""


def unjudged(store: Store, judge: str, limit: int = 1_000_000) -> list[Example]:
    """The cases of the queue without a judgment, in their order."""
    query = select(queue).where(queue.c.judge == judge, queue.c.judgment.is_(None)).order_by(queue.c.number)
    with store.read() as connection:
        return [queued(row).example for row in connection.execute(query.limit(limit))]


async def judge_hidden(judge: Judge, examples: Sequence[Example]) -> list[Judgment]:
    """The judgments of a judge on cases, each hidden from it where it was taught: the model is asked every time."""
    judges = [judge.without_case(example) for example in examples]
    taught = [(hiding, example) for hiding, example in zip(judges, examples, strict=True) if hiding is not judge]
    others = [example for hiding, example in zip(judges, examples, strict=True) if hiding is judge]
    runs = [judge.ajudge_many(others)] if others else []
    runs += [hiding.ajudge_many([example]) for hiding, example in taught]
    judgments = {judgment.id: judgment for run in await asyncio.gather(*runs) for judgment in run}
    return [judgments[example.id] for example in examples]


async def judge_cases(
    store: Store,
    judge: Judge,
    version: int,
    examples: Sequence[Example],
    *,
    new_guidelines: Collection[str] = (),
    no_lower: Collection[str] = (),
    progress: Progress | None = None,
) -> list[Judgment]:
    """Judge cases and keep the judgments as they come; a case that fails says so and does not stop the rest.

    Cases of `no_lower` keep their place among those that come next, or gain a better one.
    """
    judged_so_far: list[Judgment] = []
    for start in range(0, len(examples), _AT_ONCE):
        part = examples[start : start + _AT_ONCE]
        judgments = await judge_hidden(judge, part)
        alike = await likeness_to_memory(judge, part)
        with store.write() as connection:
            judged = list(zip(part, judgments, alike, strict=True))
            store_judgments(connection, judge, version, judged, new_guidelines=new_guidelines, no_lower=no_lower)
        judged_so_far += judgments
        if progress is not None:
            progress("judging", len(judged_so_far), len(examples))
    return judged_so_far
