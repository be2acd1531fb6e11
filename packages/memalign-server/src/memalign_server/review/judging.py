"""Judging the queue: new cases, and older ones again after the judge has learned.

A case is judged with itself hidden from the judge. Of a case that it was taught it would repeat the expert's label, and
nobody could see whether the lesson helped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

from sqlalchemy import Connection, and_, func, select

from memalign.evaluation.label_next import likeness_to_memory
from memalign.judge import Judge, Progress
from memalign.registry import tables
from memalign.types import Example, Judgment
from memalign_server.review.cases import QueuedCase, cases_ahead, cases_of, queued, store_judgments
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews

__all__ = ["AHEAD", "judge_again", "judge_cases", "judge_hidden", "unjudged"]

AHEAD = 12
"""Cases of every person's queue that a new version judges before they are shown."""
HELD_OUT = 200
"""Answered cases that are held out and judged by every version, the latest answers first."""
AGAIN = 24
"""Answered cases that were not held out and are judged again, the latest answers first."""
Latest = Callable[[], Awaitable[tuple[Judge, int]]]
"""Loads the newest version of the judge, and its number."""
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
    latest: Latest,
    new_guidelines: Collection[str] = (),
    no_lower: Collection[str] = (),
    progress: Progress | None = None,
) -> list[Judgment]:
    """Judge cases and keep the judgments as they come; a case that fails says so and does not stop the rest.

    Cases of `no_lower` keep their place among those that come next, or gain a better one. What a version says is not
    kept once something was erased from it, because it may repeat that: the `latest` one judges these cases instead.
    """
    judgments, waiting = list[Judgment](), list(examples)
    while waiting:
        part = waiting[:_AT_ONCE]
        new = await judge_hidden(judge, part)
        judged = list(zip(part, new, await likeness_to_memory(judge, part), strict=True))
        with store.write("", judge.name) as connection:  # by its name no erasure of the judge runs beside this
            if redacted := _is_redacted(connection, judge.name, version):
                waiting = [case.example for case in cases_of(connection, judge.name, [one.id for one in waiting])]
            else:
                store_judgments(connection, judge, version, judged, new_guidelines=new_guidelines, no_lower=no_lower)
        if redacted:
            judge, version = await latest()
            continue
        judgments, waiting = judgments + new, waiting[len(part) :]
        if progress is not None:
            progress("judging", len(judgments), len(judgments) + len(waiting))
    return judgments


def _is_redacted(connection: Connection, judge: str, version: int) -> bool:
    """Whether a version has lost feedback or guidelines to an erasure: then its memory has no hash any more."""
    judges, versions = tables.judges, tables.versions
    query = select(versions.c.number).join(judges, judges.c.id == versions.c.judge)
    query = query.where(judges.c.name == judge, versions.c.number == version, versions.c.memory_hash == "")
    return connection.execute(query).first() is not None


async def judge_again(
    store: Store,
    judge: Judge,
    version: int,
    *,
    latest: Latest,
    new_guidelines: Collection[str] = (),
    blank: Sequence[Example] = (),
    progress: Progress,
) -> int:
    """Have a new version judge what people see next, then what measures it, what it was taught, and what is blank.

    It has learned `new_guidelines`. What it has judged already is not judged twice: a server may be killed meanwhile.
    Returns how many cases could not be judged, because the model failed.
    """
    with store.read() as connection:
        ahead = cases_ahead(connection, judge.name, n=AHEAD)
        measuring = _answered(connection, judge.name, held_out=1, most=HELD_OUT)
        teaching = _answered(connection, judge.name, held_out=0, most=AGAIN)
    behind = (case for case in (*ahead, *measuring, *teaching) if case.judgment is None or case.is_behind(version))
    cases = {example.id: example for example in (*(case.example for case in behind), *blank)}
    judgments = await judge_cases(
        store,
        judge,
        version,
        list(cases.values()),
        latest=latest,
        new_guidelines=new_guidelines,
        no_lower={case.example.id for case in ahead},
        progress=progress,
    )
    return sum(judgment.error is not None for judgment in judgments)


def _answered(connection: Connection, judge: str, *, held_out: int, most: int) -> list[QueuedCase]:
    """Answered cases, the latest answer first."""
    answered = and_(reviews.c.judge == judge, reviews.c.case_id == queue.c.case_id, reviews.c.state == "answered")
    query = select(queue).join(reviews, answered).where(queue.c.judge == judge, queue.c.held_out == held_out)
    query = query.group_by(queue.c.number).order_by(func.max(reviews.c.updated_at).desc()).limit(most)
    return [queued(row) for row in connection.execute(query)]
