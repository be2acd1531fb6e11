"""The audit log: who did what to which judge, and when. Rows are written and read, never changed, except by an erasure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, insert, or_, select

from memalign_server.store import FIRST_TEAM
from memalign_server.store.columns import from_json, now, to_json
from memalign_server.store.people_tables import audit

__all__ = ["entries", "note"]


def note(
    connection: Connection,
    *,
    who: str,
    action: str,
    address: str = "",
    team: str | None = None,
    judge: str | None = None,
    **detail: Any,
) -> None:
    """Write one entry. `detail` is JSON, without passwords, tokens, or words of cases."""
    row = {"at": now(), "who": who[:200], "address": address[:64], "action": action, "team": team, "judge": judge}
    connection.execute(insert(audit).values(**row, detail=to_json(detail)))


def entries(
    connection: Connection,
    teams: Collection[str],
    *,
    judge: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[dict[str, Any]]:
    """Entries of these teams, the newest first, those with a number below `before`.

    What is of no team, such as sign-ins, is the first team's.
    """
    of_these = audit.c.team.in_(list(teams))
    mine = or_(of_these, audit.c.team.is_(None)) if FIRST_TEAM in teams else of_these
    query = select(audit).where(mine).order_by(audit.c.number.desc()).limit(limit)
    if judge is not None:
        query = query.where(audit.c.judge == judge)
    if before is not None:
        query = query.where(audit.c.number < before)
    found = (dict(row._mapping) for row in connection.execute(query))  # noqa: SLF001  # SQLAlchemy's public name
    return [{**row, "detail": from_json(row["detail"])} for row in found]
