"""Blind first: who has not answered a case is told neither what the judge says of it nor what others say.

So a later answer is evidence. Whoever asks the judge about a queued case has seen its verdict: they are asked as
before, and their answer teaches, but it proves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, and_, insert, or_, select, update

from memalign.judge import Judge
from memalign.types import Judgment
from memalign_server.review.answers import Review, answers_on, review_of
from memalign_server.review.cases import QueuedCase, own_review, parts_of
from memalign_server.store.columns import now
from memalign_server.store.store import Store
from memalign_server.store.tables import queue, reviews


@dataclass(frozen=True, kw_only=True)
class ReviewedCase:
    """A case as one person may see it. While it is `hidden`, it holds no verdict and nobody else's answer."""

    case: QueuedCase
    own: Review | None
    hidden: bool
    judgment: Judgment | None = None
    agree: bool | None = None
    others: tuple[Review, ...] = ()


def reviewed(
    connection: Connection, judge: Judge, person: str, case: QueuedCase, *, blind: bool = True
) -> ReviewedCase:
    """A case as a person may see it; `blind` is False for somebody whom nobody will ask."""
    name, case_id = judge.name, case.example.id
    own = review_of(connection, name, person, case_id)
    if blind and (own is None or own.state != "answered"):
        return ReviewedCase(case=case, own=own, hidden=True)
    judgment, agree = case.judgment, None
    if judgment is not None and judgment.value is not None and own is not None and own.value is not None:
        agree = judge.value_type.agree(judgment.value, own.value)
    others = tuple(answer for answer in answers_on(connection, name, case_id) if answer.person != person)
    return ReviewedCase(case=case, own=own, hidden=False, judgment=judgment, agree=agree, others=others)


def hidden_from(connection: Connection, judge: str, person: str | None, ids: Iterable[str]) -> frozenset[str]:
    """Those of the cases that are queued and that the person has not answered; none for None, whom nobody will ask."""
    if person is None:
        return frozenset()
    answered = and_(own_review(judge, person), reviews.c.state == "answered")
    query = select(queue.c.case_id).outerjoin(reviews, answered)
    query = query.where(queue.c.judge == judge, reviews.c.person.is_(None))
    parts = (connection.execute(query.where(queue.c.case_id.in_(part))).scalars() for part in parts_of(ids))
    return frozenset(case_id for part in parts for case_id in part)


def mark_seen(store: Store, judge: str, person: str, contents: Collection[str]) -> None:
    """Note that a person was told the verdict on queued cases of these contents: no answer of theirs is blind.

    What they skipped or called unclear is asked once more.
    """
    with store.read() as connection:  # most requests are about no case of the queue, and should not lock
        if not _unseen(connection, judge, person, contents):
            return
    with store.write() as connection:
        at = now()
        for case_id, state in _unseen(connection, judge, person, contents).items():
            if state is None:
                row = {"judge": judge, "case_id": case_id, "person": person, "state": "undone", "form": ""}
                connection.execute(insert(reviews).values(**row, revision=0, created_at=at, updated_at=at))
            else:
                own = (reviews.c.judge == judge, reviews.c.case_id == case_id, reviews.c.person == person)
                connection.execute(update(reviews).where(*own).values(state="undone"))


def _unseen(connection: Connection, judge: str, person: str, contents: Collection[str]) -> dict[str, str | None]:
    """The queued cases of these contents on which an answer would still be blind, each with its state so far."""
    passed = and_(reviews.c.state.in_(("skipped", "unclear")), reviews.c.blind_value.is_(None))
    query = select(queue.c.case_id, reviews.c.state).outerjoin(reviews, own_review(judge, person))
    query = query.where(queue.c.judge == judge, or_(reviews.c.person.is_(None), passed))
    parts = (connection.execute(query.where(queue.c.content_hash.in_(part))) for part in parts_of(contents))
    return {case_id: state for part in parts for case_id, state in part}
