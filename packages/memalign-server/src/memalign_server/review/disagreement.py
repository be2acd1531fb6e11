"""Cases on which people disagree: both answers, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from memalign_server.review.answers import Review, answers_on
from memalign_server.review.cases import QueuedCase, case_of
from memalign_server.store.review_tables import reviews

__all__ = ["Disagreement", "disagreement_count", "disagreements"]


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One case and what each person says of it."""

    case: QueuedCase
    answers: tuple[Review, ...]


def disagreements(connection: Connection, judge: str, person: str, *, limit: int = 20) -> list[Disagreement]:
    """Cases that a person and somebody else answered differently, the latest first."""
    mine = select(reviews.c.case_id).where(
        reviews.c.judge == judge, reviews.c.person == person, reviews.c.state == "answered"
    )
    differing = _differing(judge).where(reviews.c.case_id.in_(mine)).order_by(func.max(reviews.c.updated_at).desc())
    found = []
    for case_id in connection.execute(differing.limit(limit)).scalars().all():
        case = case_of(connection, judge, case_id)
        if case is not None:
            found.append(Disagreement(case=case, answers=tuple(answers_on(connection, judge, case_id))))
    return found


def disagreement_count(connection: Connection, judge: str, person: str) -> int:
    """How many cases a person and somebody else answered differently."""
    mine = select(reviews.c.case_id).where(
        reviews.c.judge == judge, reviews.c.person == person, reviews.c.state == "answered"
    )
    differing = _differing(judge).where(reviews.c.case_id.in_(mine)).subquery()
    return int(connection.execute(select(func.count()).select_from(differing)).scalar_one())


def _differing(judge: str) -> Select[Any]:
    return (
        select(reviews.c.case_id)
        .where(reviews.c.judge == judge, reviews.c.state == "answered", reviews.c.value.is_not(None))
        .group_by(reviews.c.case_id)
        .having(func.count(func.distinct(reviews.c.value)) > 1)
    )
