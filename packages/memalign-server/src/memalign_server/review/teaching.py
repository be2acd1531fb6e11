"""What a judge is taught: the answers that count, and what of them it must forget.

Answers on cases that are held out never teach. Where two people differ, nothing is taught until they agree or an owner
has settled it: then the answer that holds is taught alone, and what the others had taught there is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, and_, select, update

from memalign.memory import Annotation, Memory
from memalign.types import Example, Feedback, FeedbackKey, Judgment
from memalign_server.review.answers import TEACHES
from memalign_server.review.cases import judgment_of
from memalign_server.store.columns import from_json
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews

__all__ = ["Lesson", "lessons_of", "mark_taught", "overruled", "teachable_count", "untaught_words"]

_OF_CASE = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)
_UNTAUGHT = and_(reviews.c.state == "answered", reviews.c.taught != reviews.c.revision)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned.

    Attributes:
        feedback: The answer as the library takes it.
        revision: The revision of the answer.
        verdict: The judge's verdict that it is an answer to; None if the judge has judged the case again since, or had
            learned from it before.
    """

    feedback: Feedback
    revision: int
    verdict: Judgment | None


def lessons_of(connection: Connection, judge: str) -> list[Lesson]:
    """Everybody's answers that count and that the judge has not learned, the earliest first."""
    query = select(reviews, queue.c.example, queue.c.judgment, queue.c.version, queue.c.seen).join(queue, _OF_CASE)
    query = query.where(reviews.c.judge == judge, _UNTAUGHT, TEACHES).order_by(reviews.c.updated_at)
    lessons = []
    for row in connection.execute(query):
        feedback = Feedback(
            id=row.case_id,
            source=row.person,
            value=from_json(row.value),
            rationale=row.rationale,
            created_at=row.updated_at,
            **Example.from_dict(from_json(row.example)).content,
        )
        answers_it = row.judge_version in (None, row.version) and not row.seen
        verdict = judgment_of(row.judgment) if answers_it else None
        lessons.append(Lesson(feedback=feedback, revision=row.revision, verdict=verdict))
    return lessons


def untaught_words(connection: Connection, judge: str, person: str) -> dict[str, list[Annotation]]:
    """What a person explained and the judge has not learned, the earliest first, by the reason.

    They are `waiting` to be taught, or may not teach: `held-out`, `differing`, or `settled` for another answer.
    """
    query = select(reviews, queue.c.held_out, queue.c.disputed, queue.c.settled).join(queue, _OF_CASE)
    query = query.where(
        reviews.c.judge == judge, reviews.c.person == person, reviews.c.rationale.is_not(None), _UNTAUGHT
    )
    words: dict[str, list[Annotation]] = {}
    for row in connection.execute(query.order_by(reviews.c.updated_at)):
        comment = Annotation(id=row.case_id, source=person, rationale=row.rationale, created_at=row.updated_at)
        settled = "waiting" if row.settled in (None, person) else "settled"
        reason = "held-out" if row.held_out else "differing" if row.disputed else settled
        words.setdefault(reason, []).append(comment)
    return words


def teachable_count(connection: Connection, judge: str, person: str) -> int:
    """How many explained answers of a person wait to be taught: from three on the person is asked."""
    return len(untaught_words(connection, judge, person).get("waiting", ()))


def overruled(connection: Connection, judge: str, memory: Memory) -> list[FeedbackKey]:
    """What the judge has learned of cases on which an owner has settled that somebody else's answer holds, or none."""
    query = select(queue.c.case_id, queue.c.settled).where(queue.c.judge == judge, queue.c.settled.is_not(None))
    holders: dict[str, str] = dict(connection.execute(query).all())
    learned = (annotation.key for annotation in memory.annotations())
    return [key for key in learned if key.id in holders and key.source != holders[key.id]]


def mark_taught(store: Store, judge: str, revisions: Mapping[FeedbackKey, int]) -> None:
    """Note which revision of an answer the judge has learned, unless it has changed since; 0 for none."""
    with store.write() as connection:
        for key, revision in revisions.items():
            own = (reviews.c.judge == judge, reviews.c.case_id == key.id, reviews.c.person == key.source)
            same = own if not revision else (*own, reviews.c.revision == revision)
            connection.execute(update(reviews).where(*same).values(taught=revision))
