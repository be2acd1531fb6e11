"""Cases on which people disagree: both answers, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from memalign_server.review.answers import Review, answers_on
from memalign_server.review.cases import QueuedCase, queued
from memalign_server.store.tables import queue, reviews

__all__ = ["Disagreement", "disagreement_count", "disagreements"]


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One case and what each person says of it."""

    case: QueuedCase
    answers: tuple[Review, ...]


def disagreements(connection: Connection, judge: str, person: str, *, limit: int = 20) -> list[Disagreement]:
    """Cases that a person and somebody else answered differently, the person's latest answer first."""
    query = _differing(select(queue), judge, person).order_by(reviews.c.updated_at.desc()).limit(limit)
    found = [queued(row) for row in connection.execute(query)]
    said = answers_on(connection, judge, *(each.example.id for each in found))
    return [Disagreement(case=c, answers=tuple(a for a in said if a.case_id == c.example.id)) for c in found]


def disagreement_count(connection: Connection, judge: str, person: str) -> int:
    """How many cases a person and somebody else answered differently."""
    query = _differing(select(func.count()).select_from(queue), judge, person)
    return int(connection.execute(query).scalar_one())


def _differing(query: Select[Any], judge: str, person: str) -> Select[Any]:
    """The disputed cases that the person answered."""
    mine = and_(reviews.c.judge == queue.c.judge, reviews.c.case_id == queue.c.case_id, reviews.c.person == person)
    query = query.join(reviews, mine).where(reviews.c.state == "answered")
    return query.where(queue.c.judge == judge, queue.c.disputed == 1)
