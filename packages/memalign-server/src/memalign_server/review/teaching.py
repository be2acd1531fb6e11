"""From answers to a better judge: what is not taught yet is aligned, and past verdicts are looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select, update

from memalign.align import MemAlign
from memalign.judge import Judge
from memalign.registry import Registry
from memalign.types import Example, Feedback, Judgment
from memalign_server.review.answers import Review, review
from memalign_server.review.cases import judgment_of, queued, unanswered_cases
from memalign_server.review.judging import Progress, judge_cases
from memalign_server.review.turning import keep_turns, turn_of
from memalign_server.store.columns import from_json
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews

__all__ = ["Lesson", "teach", "untaught", "untaught_count"]

AGAIN = 24
"""How many answered cases are judged again after an align, the latest first."""
AHEAD = 12
"""How many unanswered cases that come next are judged again, so that the next answers test the new version."""


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned, its case, and the judge's `verdict` that it is an answer to.

    The verdict is None where the judge has judged the case again since, or had learned from it before.
    """

    review: Review
    example: Example
    verdict: Judgment | None = None

    @property
    def feedback(self) -> Feedback:
        """The answer as the library takes it."""
        said = self.review
        return Feedback(
            id=said.case_id,
            source=said.person,
            value=said.value,
            rationale=said.rationale,
            created_at=said.updated_at,
            **self.example.content,
        )


def untaught(store: Store, judge: str) -> list[Lesson]:
    """Everybody's answers that the judge has not learned, the earliest first."""
    mine = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)
    query = (
        select(reviews, queue.c.example, queue.c.judgment, queue.c.version, queue.c.seen)
        .join(queue, mine)
        .where(reviews.c.judge == judge, reviews.c.state == "answered", reviews.c.taught != reviews.c.revision)
        .order_by(reviews.c.updated_at)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    return [_lesson(row) for row in rows]


def _lesson(row: Row[Any]) -> Lesson:
    said = review(row)
    shown = said.judge_version in (None, row.version) and not row.seen
    return Lesson(
        review=said,
        example=Example.from_dict(from_json(row.example)),
        verdict=judgment_of(row.judgment) if shown else None,
    )


def untaught_count(connection: Connection, judge: str) -> int:
    """How many answers the judge has not learned."""
    query = select(func.count()).select_from(reviews)
    query = query.where(reviews.c.judge == judge, reviews.c.state == "answered", reviews.c.taught != reviews.c.revision)
    return int(connection.execute(query).scalar_one())


async def teach(
    registry: Registry, store: Store, name: str, *, optimizer: MemAlign | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Teach a judge all answers that it has not learned; gives the align's report and what became of past verdicts.

    Where it has not judged a case again since, what it had said of it stands beside the answer. Answers that changed
    meanwhile, and those that the judge cannot learn (`refused`, the reasons), stay untaught. A verdict that cannot be looked at again, because the model failed, is
    counted in `failed`. Raises what `Registry.align` raises.
    """
    lessons = untaught(store, name)
    result = await registry.aalign(
        name,
        [each.feedback for each in lessons],
        optimizer=optimizer,
        skip_invalid=True,
        own_verdicts={each.example.id: each.verdict for each in lessons if each.verdict is not None},
        progress=progress,
    )
    refused = {row.line: row.reason for row in result.rows if row.status == "invalid"}
    _mark_taught(store, name, [each for line, each in enumerate(lessons, 1) if line not in refused])
    judge, version = result.judge, result.version or 0
    new = [each.id for each in result.guidelines]
    turned, failed = 0, 0
    if result.parent != result.version:
        turned, failed = await _look_again(store, judge, version, new, progress)
    return {
        **result.to_dict(),
        "summary": str(result),
        "lessons": len(lessons),
        "refused": list(refused.values()),
        "turned": turned,
        "failed": failed,
    }


def _mark_taught(store: Store, name: str, lessons: Sequence[Lesson]) -> None:
    with store.write() as connection:
        for each in lessons:
            said = each.review
            connection.execute(
                update(reviews)
                .where(
                    reviews.c.judge == name,
                    reviews.c.case_id == said.case_id,
                    reviews.c.person == said.person,
                    reviews.c.revision == said.revision,
                )
                .values(taught=said.revision)
            )


async def _look_again(
    store: Store, judge: Judge, version: int, new: Sequence[str], progress: Progress | None
) -> tuple[int, int]:
    """Judge answered cases and the next ones again; gives how many verdicts turned, and how many could not be asked."""
    answered = (
        select(reviews.c.case_id, func.max(reviews.c.updated_at).label("at"))
        .where(reviews.c.judge == judge.name, reviews.c.state == "answered")
        .group_by(reviews.c.case_id)
        .order_by(func.max(reviews.c.updated_at).desc())
        .limit(AGAIN)
        .subquery()
    )
    with store.read() as connection:
        query = select(queue).join(answered, queue.c.case_id == answered.c.case_id).where(queue.c.judge == judge.name)
        cases = [queued(row) for row in connection.execute(query.order_by(queue.c.number))]
        ahead = unanswered_cases(connection, judge.name, n=AHEAD)
    cases += ahead
    before: dict[str, Judgment] = {each.example.id: each.judgment for each in cases if each.judgment is not None}
    after = await judge_cases(
        store,
        judge,
        version,
        [each.example for each in cases],
        new_guidelines=new,
        no_lower={each.example.id for each in ahead},
        progress=progress,
    )
    failed = sum(each.error is not None for each in after)
    found = []
    for judgment in after:
        if (old := before.get(judgment.id)) is not None and judgment.error is None:
            case = judge.memory.case(judgment.id)
            label = None if case is None else judge.memory.label(case)
            turn = turn_of(old, judgment, label, judge.value_type, new)
            found += [turn] if turn is not None else []
    with store.write() as connection:
        keep_turns(connection, judge.name, version, found)
    return len(found), failed
