"""What models were paid for: calls, tokens and dollars of judging and of learning, by version."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from memalign.types import Usage
from memalign_server.store.review_tables import spending

__all__ = ["Spent", "spend", "spent_on", "total"]

Work = Literal["judging", "learning"]
_COUNTS = ("calls", "input_tokens", "cached_tokens", "output_tokens", "cost", "unpriced")


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What one version was paid for; learning is that of the align which made it.

    `cost` is in dollars, without the `unpriced` calls, whose price nobody knows. `cached_tokens` are among the input's.
    """

    version: int
    work: Work
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    unpriced: int


def spend(connection: Connection, judge: str, version: int, work: Work, usages: Iterable[Usage]) -> None:
    """Add to what a version was paid for; several servers may do so at once."""
    paid = [each for each in usages if each.calls]
    if not paid:
        return
    known = sum((each for each in paid if each.cost is not None), Usage())
    every = sum(paid, Usage())
    row = {name: getattr(every, name) for name in _COUNTS[:4]}
    row |= {"cost": known.cost, "unpriced": every.calls - known.calls}
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    made = dialect.insert(spending).values(judge=judge, version=version, work=work, **row)
    more = {name: spending.c[name] + made.excluded[name] for name in _COUNTS}
    connection.execute(made.on_conflict_do_update(index_elements=list(spending.primary_key), set_=more))


def spent_on(connection: Connection, judge: str) -> list[Spent]:
    """What every version of a judge was paid for, the newest first."""
    query = select(spending).where(spending.c.judge == judge)
    rows = connection.execute(query.order_by(spending.c.version.desc(), spending.c.work)).all()
    return [Spent(version=r.version, work=r.work, **{name: getattr(r, name) for name in _COUNTS}) for r in rows]


def total(spent: Iterable[Spent]) -> Spent:
    """All of it as one, of no version."""
    every = list(spent)
    return Spent(version=0, work="judging", **{name: sum(getattr(each, name) for each in every) for name in _COUNTS})
