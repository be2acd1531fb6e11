"""What the server asks the registry's own tables: which version of a judge is the newest, and what it has lost."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from memalign.errors import JudgeNotFound
from memalign.registry import judges_table as judges
from memalign.registry import versions_table as versions


@dataclass(frozen=True, kw_only=True)
class Newest:
    """The newest version of a judge, by its number and its time: a name may be given again after a deletion."""

    number: int
    created_at: str


def newest_version(connection: Connection, judge: str) -> Newest:
    """Return the newest version of a judge.

    Raises:
        JudgeNotFound: No judge has the name.
    """
    newest = (judges.c.id == versions.c.judge) & (judges.c.latest == versions.c.number)
    query = select(versions.c.number, versions.c.created_at).join(judges, newest)
    row = connection.execute(query.where(judges.c.name == judge)).one_or_none()
    if row is None:
        raise JudgeNotFound(f"no judge {judge!r} in the registry")
    return Newest(number=row.number, created_at=row.created_at)


def is_redacted(connection: Connection, judge: str, version: int) -> bool:
    """Return whether a version has lost something to an erasure: then its memory has no hash any more."""
    query = select(versions.c.number).join(judges, judges.c.id == versions.c.judge)
    same = (judges.c.name == judge, versions.c.number == version)
    return (
        connection.execute(query.where(*same, versions.c.memory_hash == "")).first()
        is not None
    )
