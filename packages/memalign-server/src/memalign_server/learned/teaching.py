"""Teaching: what a judge is taught, and what it must forget.

Answers on cases that are held out never teach. Where two people differ, nothing is taught until they agree or an owner
has settled it: then the answer that holds is taught alone, and what the others had taught there is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, or_, select, update

from memalign.keys import same_person
from memalign.memory import Annotation, Memory
from memalign.types import Feedback, FeedbackKey, Judgment
from memalign_server.review.service import TEACHES, own_row
from memalign_server.store import Store
from memalign_server.store.tables import queue, reviews

_OF_CASE = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id)
_CHOICE = "choice"
_UNTAUGHT = and_(reviews.c.state == "answered", reviews.c.taught != reviews.c.revision)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """One answer that the judge has not learned, as the library takes it, and its revision.

    `verdict` is the judge's that it is an answer to; None if the judge has judged the case again since, or had learned
    from it before.
    """

    feedback: Feedback
    revision: int
    verdict: Judgment | None


def lessons_of(connection: Connection, judge: str) -> list[Lesson]:
    """Everybody's answers that count and that the judge has not learned, the earliest first."""
    query = select(reviews, queue.c.example, queue.c.judgment, queue.c.version, queue.c.seen).join(
        queue, _OF_CASE
    )
    query = query.where(reviews.c.judge == judge, _UNTAUGHT, TEACHES).order_by(reviews.c.updated_at)
    lessons = []
    for row in connection.execute(query):
        answer = {"value": row.value, "rationale": row.rationale, "created_at": row.updated_at}
        feedback = Feedback(id=row.case_id, source=row.person, **answer, **row.example.content)
        verdict = (
            row.judgment if row.judge_version in (None, row.version) and not row.seen else None
        )
        lessons.append(Lesson(feedback=feedback, revision=row.revision, verdict=verdict))
    return lessons


def untaught_words(connection: Connection, judge: str, person: str) -> dict[str, list[Annotation]]:
    """What a person explained and the judge has not learned, the earliest first, by the reason.

    They are `waiting` to be taught, or may not teach: `held-out`, `differing`, or out of force by somebody's choice,
    whose reason says who chose, and whose words hold instead (see `choice_of`).
    """
    own = (reviews.c.judge == judge, reviews.c.person == person, reviews.c.rationale.is_not(None))
    query = select(reviews, queue.c.held_out, queue.c.disputed, queue.c.settled, queue.c.settled_by)
    waits = and_(_UNTAUGHT, queue.c.case_id.is_not(None))
    out_of_force = and_(reviews.c.state == "answered", reviews.c.overruled_by.is_not(None))
    query = (
        query.outerjoin(queue, _OF_CASE)
        .where(*own, or_(waits, out_of_force))
        .order_by(reviews.c.updated_at)
    )
    words: dict[str, list[Annotation]] = {}
    for row in connection.execute(query):
        comment = Annotation(
            id=row.case_id, source=person, rationale=row.rationale, created_at=row.updated_at
        )
        words.setdefault(_reason(row, person), []).append(comment)
    return words


def _reason(row: Row[Any], person: str) -> str:
    """Why the words of an answer are not taught."""
    if row.overruled_by is not None:
        return _choice(row.overruled_by, row.overruled_for)
    if row.held_out:
        return "held-out"
    if row.disputed:
        return "differing"
    return "waiting" if row.settled in (None, person) else _choice(row.settled_by, row.settled)


def _choice(by: str | None, holder: str | None) -> str:
    return "\n".join((_CHOICE, by or "", holder or ""))


def choice_of(reason: str) -> tuple[str, str] | None:
    """Return who put words out of force and whose hold instead, "" for nobody's; None for another reason."""
    kind, _, names = reason.partition("\n")
    by, _, holder = names.partition("\n")
    return (by, holder) if kind == _CHOICE else None


def overruled(connection: Connection, judge: str, memory: Memory) -> list[FeedbackKey]:
    """What the judge has learned of cases on which an owner has settled that somebody else's answer holds, or none."""
    query = select(queue.c.case_id, queue.c.settled).where(
        queue.c.judge == judge, queue.c.settled.is_not(None)
    )
    holders: dict[str, str] = dict(connection.execute(query).all())
    learned = (annotation.key for annotation in memory.annotations())
    return [
        key for key in learned if key.id in holders and not same_person(key.source, holders[key.id])
    ]


def mark_taught(store: Store, judge: str, revisions: Mapping[FeedbackKey, int]) -> None:
    """Note which revision of an answer the judge has learned, unless it has changed since; 0 for none."""
    with store.write() as connection:
        for key, revision in revisions.items():
            answer = update(reviews).where(own_row(judge, key.source, key.id))
            same = answer.where(reviews.c.revision == revision) if revision else answer
            connection.execute(same.values(taught=revision))
