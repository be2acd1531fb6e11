"""From answers to a better judge: what counts is taught, and what comes next is judged by the new version first.

Answers on cases that are held out never teach. Where two people differ, nothing is taught until they agree or an owner
has settled it: then the answer that holds is taught alone, and what the others had taught there is forgotten.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, update

from memalign.align import MemAlign
from memalign.errors import MemalignError
from memalign.judge import Judge, Progress
from memalign.memory import Memory
from memalign.registry import Registry
from memalign.types import Example, Feedback, FeedbackKey, Judgment
from memalign_server.review.answers import TEACHES, Review, refresh_disputes, review
from memalign_server.review.cases import cases_ahead, judgment_of, queued
from memalign_server.review.judging import judge_cases
from memalign_server.store.columns import from_json
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews

__all__ = ["Lesson", "explained", "judge_again", "teach", "teachable", "teachable_count", "untaught_words"]

AHEAD = 12
"""Cases of every person's queue that the new version judges before they are shown."""
HELD_OUT = 200
"""Answered cases that are held out and judged by every version, the latest answers first."""
AGAIN = 24
"""Answered cases that were not held out and are judged again, the latest answers first."""

_OF_CASE = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned.

    Attributes:
        review: The answer.
        feedback: The same as the library takes it.
        verdict: The judge's verdict that it is an answer to; None if the judge has judged the case again since, or had
            learned from it before.
    """

    review: Review
    feedback: Feedback
    verdict: Judgment | None


def teachable(connection: Connection, judge: str) -> list[Lesson]:
    """Everybody's answers that count and that the judge has not learned, the earliest first."""
    query = select(reviews, queue.c.example, queue.c.judgment, queue.c.version, queue.c.seen).join(queue, _OF_CASE)
    return [_lesson(row) for row in connection.execute(query.where(_counts(judge)).order_by(reviews.c.updated_at))]


def explained(connection: Connection, judge: str, person: str) -> list[Review]:
    """A person's answers with words that count and that the judge has not learned, the earliest first."""
    own = (reviews.c.person == person, reviews.c.rationale.is_not(None))
    query = select(reviews).join(queue, _OF_CASE).where(_counts(judge), *own).order_by(reviews.c.updated_at)
    return [review(row) for row in connection.execute(query)]


def teachable_count(connection: Connection, judge: str, person: str) -> int:
    """How many explained answers of a person wait to be taught: from three on the person is asked."""
    return len(explained(connection, judge, person))


def untaught_words(connection: Connection, judge: str, person: str) -> dict[str, list[Review]]:
    """A person's explained answers that may not teach, the latest first, by why: held out, differing or settled."""
    own = (
        reviews.c.judge == judge,
        reviews.c.person == person,
        reviews.c.rationale.is_not(None),
        reviews.c.taught == 0,
    )
    idle = or_(queue.c.held_out == 1, queue.c.disputed == 1, queue.c.settled != person)
    query = select(reviews, queue.c.held_out, queue.c.disputed).join(queue, _OF_CASE).where(*own, idle)
    words: dict[str, list[Review]] = {}
    for row in connection.execute(query.order_by(reviews.c.updated_at.desc())):
        reason = "held-out" if row.held_out else "differing" if row.disputed else "settled"
        words.setdefault(reason, []).append(review(row))
    return words


def _counts(judge: str) -> ColumnElement[bool]:
    answered = (reviews.c.judge == judge, reviews.c.state == "answered")
    return and_(*answered, reviews.c.taught != reviews.c.revision, TEACHES)


def _lesson(row: Row[Any]) -> Lesson:
    answer, example = review(row), Example.from_dict(from_json(row.example))
    feedback = Feedback(
        id=answer.case_id,
        source=answer.person,
        value=answer.value,
        rationale=answer.rationale,
        created_at=answer.updated_at,
        **example.content,
    )
    answers_it = answer.judge_version in (None, row.version) and not row.seen
    return Lesson(review=answer, feedback=feedback, verdict=judgment_of(row.judgment) if answers_it else None)


async def teach(
    registry: Registry, store: Store, name: str, *, optimizer: MemAlign | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Teach a judge all answers that count; then have the new version judge what comes next, and what was answered.

    Without anything to learn nothing is asked, and there is no new version. Answers that changed meanwhile, and those
    that the judge cannot learn (`refused`, with the reasons), stay untaught.

    Args:
        registry: Has the judge.
        store: Has the answers.
        name: The judge's name.
        optimizer: The knobs of the align.
        progress: Is told of each call.

    Returns:
        The report of the align, with `lessons`, `refused`, and in `failed` how many cases could not be judged again.

    Raises:
        MemalignError: What `Registry.aalign` raises; or the model answered nothing, and all that was to be learned
            waits: the answers are kept, and teaching again takes them up.
    """
    before = registry.load(name)
    memory = before.memory
    with store.write() as connection:
        refresh_disputes(connection, name, kind=before.value_type)  # answers were erased or withdrawn since
        lessons, overruled = teachable(connection, name), _overruled(connection, name, memory)
    if not (lessons or overruled or memory.pending):
        return {"lessons": 0, "refused": [], "failed": 0, "guidelines": [], "pending": []}
    if overruled:
        await registry.aunalign(name, *overruled, optimizer=optimizer, progress=progress)
        _mark_taught(store, name, {(key.id, key.source): 0 for key in overruled})
    result = await registry.aalign(
        name,
        [lesson.feedback for lesson in lessons],
        optimizer=optimizer,
        skip_invalid=True,
        own_verdicts={lesson.feedback.id: lesson.verdict for lesson in lessons if lesson.verdict is not None},
        progress=progress,
    )
    refused = {row.line: row.reason for row in result.rows if row.status == "invalid"}
    taken = [lesson.review for line, lesson in enumerate(lessons, 1) if line not in refused]
    _mark_taught(store, name, {(answer.case_id, answer.person): answer.revision for answer in taken})
    waiting = dict(result.pending)
    tried = {FeedbackKey(answer.case_id, answer.person) for answer in taken} | {old.key for old in memory.pending}
    if tried and tried <= waiting.keys():
        raise MemalignError(waiting[min(tried)])
    failed = 0
    if overruled or result.parent != result.version:
        new = [guideline.id for guideline in result.guidelines]
        failed = await judge_again(store, result.judge, result.version or 0, new=new, progress=progress)
    report = {"summary": str(result), "lessons": len(lessons), "refused": list(refused.values()), "failed": failed}
    return {**result.to_dict(), **report}


def _overruled(connection: Connection, judge: str, memory: Memory) -> list[FeedbackKey]:
    """What the judge has learned of cases on which an owner has settled that somebody else's answer holds, or none."""
    query = select(queue.c.case_id, queue.c.settled).where(queue.c.judge == judge, queue.c.settled.is_not(None))
    holders: dict[str, str] = dict(connection.execute(query).all())
    learned = (annotation.key for annotation in memory.annotations())
    return [key for key in learned if key.id in holders and key.source != holders[key.id]]


def _mark_taught(store: Store, judge: str, revisions: dict[tuple[str, str], int]) -> None:
    """Note which revision of an answer, by case and person, the judge has learned; 0 for none."""
    with store.write() as connection:
        for (case_id, person), revision in revisions.items():
            change = update(reviews).where(
                reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person
            )
            if revision:
                change = change.where(reviews.c.revision == revision)
            connection.execute(change.values(taught=revision))


async def judge_again(
    store: Store,
    judge: Judge,
    version: int,
    *,
    new: Collection[str] = (),
    blank: Sequence[Example] = (),
    progress: Progress | None = None,
) -> int:
    """Have a new version judge what people see next, then what measures it, what it was taught, and what is blank.

    Args:
        store: Has the queue.
        judge: The new version.
        version: Its number.
        new: The guidelines that it learned, by id.
        blank: Cases whose verdict was removed.
        progress: Is told how many are judged.

    Returns:
        How many cases could not be judged, because the model failed.
    """
    with store.read() as connection:
        ahead = [case.example for case in cases_ahead(connection, judge.name, n=AHEAD)]
        answered = [
            *_answered(connection, judge.name, held_out=1, most=HELD_OUT),
            *_answered(connection, judge.name, held_out=0, most=AGAIN),
        ]
    cases = {example.id: example for example in (*ahead, *answered, *blank)}
    no_lower = {example.id for example in ahead}
    judgments = await judge_cases(
        store, judge, version, list(cases.values()), new_guidelines=new, no_lower=no_lower, progress=progress
    )
    return sum(judgment.error is not None for judgment in judgments)


def _answered(connection: Connection, judge: str, *, held_out: int, most: int) -> Sequence[Example]:
    """Answered cases, the latest answer first."""
    latest = func.max(reviews.c.updated_at)
    numbers = (
        select(queue.c.number, latest.label("at"))
        .join(reviews, _OF_CASE)
        .where(queue.c.judge == judge, queue.c.held_out == held_out, reviews.c.state == "answered")
        .group_by(queue.c.number)
        .order_by(latest.desc())
        .limit(most)
        .subquery()
    )
    query = select(queue).join(numbers, queue.c.number == numbers.c.number).order_by(numbers.c.at.desc())
    return [queued(row).example for row in connection.execute(query)]
