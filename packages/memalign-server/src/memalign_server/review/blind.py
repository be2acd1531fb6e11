"""Blind first: who has not answered a case is told neither what the judge says of it nor what others say.

So a later answer is evidence. Whoever asks the judge about a queued case has seen its verdict: they are asked as
before, and their answer teaches, but it proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, and_, exists, insert, or_, select, update

from memalign.judge import Judge
from memalign.types import Judgment
from memalign_server.review.answers import Review, answers_on, review_of
from memalign_server.review.cases import QueuedCase, own_review
from memalign_server.store.columns import now
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews


@dataclass(frozen=True, kw_only=True)
class ReviewedCase:
    """What one person may know of a case. While it is `hidden`, that is no verdict and nobody else's answer."""

    own: Review | None
    hidden: bool
    judgment: Judgment | None = None
    agree: bool | None = None
    others: tuple[Review, ...] = ()


def reviewed(connection: Connection, judge: Judge, person: str, case: QueuedCase) -> ReviewedCase:
    """A case as a person may see it."""
    name, case_id = judge.name, case.example.id
    own = review_of(connection, name, person, case_id)
    if own is None or own.state != "answered":
        return ReviewedCase(own=own, hidden=True)
    judgment, agree = case.judgment, None
    if judgment is not None and judgment.value is not None and own.value is not None:
        agree = judge.value_type.agree(judgment.value, own.value)
    others = tuple(answer for answer in answers_on(connection, name, case_id) if answer.person != person)
    return ReviewedCase(own=own, hidden=False, judgment=judgment, agree=agree, others=others)


def hidden_from(connection: Connection, judge: str, person: str, ids: Collection[str]) -> frozenset[str]:
    """Those of a few cases that are queued and that the person has not answered."""
    answered = exists().where(own_review(judge, person), reviews.c.state == "answered")
    query = select(queue.c.case_id).where(queue.c.judge == judge, queue.c.case_id.in_(ids), ~answered)
    return frozenset(connection.execute(query).scalars())


def mark_seen(store: Store, judge: str, person: str, content: str) -> None:
    """Note that a person was told the verdict on the queued case of this content: no answer of theirs is blind.

    If they skipped it or called it unclear, it is asked once more.
    """
    passed = and_(reviews.c.state.in_(("skipped", "unclear")), reviews.c.blind_value.is_(None))
    query = select(queue.c.case_id, reviews.c.state).outerjoin(reviews, own_review(judge, person))
    query = query.where(queue.c.judge == judge, queue.c.content_hash == content)
    query = query.where(or_(reviews.c.person.is_(None), passed))  # an answer would still be blind
    with store.read() as connection:  # most requests are about no case of the queue, and should not lock
        if connection.execute(query).first() is None:
            return
    with store.write() as connection:
        at = now()
        for case_id, state in connection.execute(query).all():
            if state is None:
                row = {"judge": judge, "case_id": case_id, "person": person, "state": "undone", "form": ""}
                connection.execute(insert(reviews).values(**row, revision=0, created_at=at, updated_at=at))
            else:
                own = (reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)
                connection.execute(update(reviews).where(*own).values(state="undone"))
