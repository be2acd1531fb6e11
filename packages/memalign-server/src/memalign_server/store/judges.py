"""What the server asks the registry's own tables: a judge's newest version, and what it lost."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Select, and_, select

from memalign.errors import JudgeNotFound
from memalign.registry import judges_table as judges
from memalign.registry import versions_table as versions


@dataclass(frozen=True, kw_only=True)
class Newest:
    """The newest version of a judge.

    Its time tells it from that of another judge, to which the name was given after a deletion.
    """

    number: int
    created_at: str


def _versions_of(judge: str) -> Select[tuple[int, str]]:
    query = select(versions.c.number, versions.c.created_at)
    of_judge = and_(judges.c.id == versions.c.judge, judges.c.name == judge)
    return query.join(judges, of_judge)


def newest_version(connection: Connection, judge: str) -> Newest:
    """Return the newest version of a judge.

    Raises:
        JudgeNotFound: No judge has the name.
    """
    query = _versions_of(judge).where(judges.c.latest == versions.c.number)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise JudgeNotFound(f"no judge {judge!r} in the registry")
    return Newest(number=row.number, created_at=row.created_at)


def is_redacted(connection: Connection, judge: str, version: int) -> bool:
    """Return whether a version has lost something to an erasure.

    Its memory has no hash any more then.
    """
    redacted = _versions_of(judge).where(
        versions.c.number == version, versions.c.memory_hash == ""
    )
    return connection.execute(redacted).first() is not None
