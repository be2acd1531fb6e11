"""Where guidelines spoke: on how many cases of the queue, how strongly, and which."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from memalign_server.store.columns import from_json
from memalign_server.store.review_tables import fired, turns

__all__ = ["Use", "cases_of_guideline", "uses_of"]


@dataclass(frozen=True, kw_only=True)
class Use:
    """What one guideline did: cases on which its checks spoke, verdicts that it fixed and broke."""

    cases: int = 0
    fixed: int = 0
    broken: int = 0


def uses_of(connection: Connection, judge: str, guidelines: Collection[str]) -> dict[str, Use]:
    """What each of these guidelines did, by its id; none that did nothing."""
    query = select(fired.c.guideline, func.count()).where(fired.c.judge == judge, fired.c.guideline.in_(guidelines))
    spoke = connection.execute(query.group_by(fired.c.guideline)).all()
    turned: dict[tuple[str, str], int] = {}
    for effect, names in connection.execute(
        select(turns.c.effect, turns.c.guidelines).where(
            turns.c.judge == judge, turns.c.effect.in_(("fixed", "broken"))
        )
    ):
        for name in set(guidelines).intersection(from_json(names)):
            turned[name, effect] = turned.get((name, effect), 0) + 1
    cases: dict[str, int] = dict(spoke)
    return {
        name: Use(
            cases=cases.get(name, 0),
            fixed=turned.get((name, "fixed"), 0),
            broken=turned.get((name, "broken"), 0),
        )
        for name in cases.keys() | {name for name, _ in turned}
    }


def cases_of_guideline(connection: Connection, judge: str, guideline: str, *, limit: int = 50) -> list[str]:
    """The ids of cases on which a guideline's checks spoke, where it pulled most first."""
    query = select(fired.c.case_id).where(fired.c.judge == judge, fired.c.guideline == guideline)
    query = query.order_by(func.abs(fired.c.contribution).desc(), fired.c.case_id).limit(limit)
    return list(connection.execute(query).scalars())
