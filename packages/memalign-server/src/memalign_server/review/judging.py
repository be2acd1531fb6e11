"""Judging the queue: new cases, and older ones again after the judge has learned.

A case is judged with itself hidden from the judge. Of a case that it was taught it would repeat the expert's label, and
nobody could see whether the lesson helped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, and_, func, select

from memalign.evaluation.label_next import likeness_to_memory
from memalign.judge import Judge, Progress
from memalign.types import Example, Judgment
from memalign_server.review.cases import cases_ahead, queued, store_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews

__all__ = ["AHEAD", "judge_again", "judge_cases", "judge_hidden", "unjudged"]

AHEAD = 12
"""Cases of every person's queue that a new version judges before they are shown."""
HELD_OUT = 200
"""Answered cases that are held out and judged by every version, the latest answers first."""
AGAIN = 24
"""Answered cases that were not held out and are judged again, the latest answers first."""
_AT_ONCE = 16
"""Cases between two writes: what is judged can be reviewed while the rest is still judged."""


def unjudged(store: Store, judge: str) -> list[Example]:
    """The cases of the queue without a judgment, in their order."""
    query = select(queue).where(queue.c.judge == judge, queue.c.judgment.is_(None)).order_by(queue.c.number)
    with store.read() as connection:
        return [queued(row).example for row in connection.execute(query)]


async def judge_hidden(judge: Judge, examples: Sequence[Example]) -> list[Judgment]:
    """The judgments of a judge on cases, each hidden from it where it was taught: the model is asked every time."""
    pairs = [(judge.without_case(example), example) for example in examples]
    others = [example for hiding, example in pairs if hiding is judge]
    runs = [judge.ajudge_many(others)] if others else []
    runs += [hiding.ajudge_many([example]) for hiding, example in pairs if hiding is not judge]
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
    judgments: list[Judgment] = []
    for start in range(0, len(examples), _AT_ONCE):
        part = examples[start : start + _AT_ONCE]
        new = await judge_hidden(judge, part)
        judged = list(zip(part, new, await likeness_to_memory(judge, part), strict=True))
        with store.write() as connection:
            store_judgments(connection, judge, version, judged, new_guidelines=new_guidelines, no_lower=no_lower)
        judgments += new
        if progress is not None:
            progress("judging", len(judgments), len(examples))
    return judgments


async def judge_again(
    store: Store,
    judge: Judge,
    version: int,
    *,
    new_guidelines: Collection[str] = (),
    blank: Sequence[Example] = (),
    progress: Progress,
) -> int:
    """Have a new version judge what people see next, then what measures it, what it was taught, and what is blank.

    It has learned `new_guidelines`. Returns how many cases could not be judged, because the model failed.
    """
    with store.read() as connection:
        ahead = [case.example for case in cases_ahead(connection, judge.name, n=AHEAD)]
        measuring = _answered(connection, judge.name, held_out=1, most=HELD_OUT)
        teaching = _answered(connection, judge.name, held_out=0, most=AGAIN)
    cases = {example.id: example for example in (*ahead, *measuring, *teaching, *blank)}
    judgments = await judge_cases(
        store,
        judge,
        version,
        list(cases.values()),
        new_guidelines=new_guidelines,
        no_lower={example.id for example in ahead},
        progress=progress,
    )
    return sum(judgment.error is not None for judgment in judgments)


def _answered(connection: Connection, judge: str, *, held_out: int, most: int) -> list[Example]:
    """Answered cases, the latest answer first."""
    answered = and_(reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.state == "answered")
    query = select(queue).join(reviews, answered).where(queue.c.judge == judge, queue.c.held_out == held_out)
    query = query.group_by(queue.c.number).order_by(func.max(reviews.c.updated_at).desc()).limit(most)
    return [queued(row).example for row in connection.execute(query)]
