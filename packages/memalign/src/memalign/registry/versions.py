"""Versions in the database: reading one, writing the next, and what history says of each.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from memalign.errors import InputError, JudgeNotFound, VersionConflict
from memalign.memory import Memory
from memalign.registry.diff import summary
from memalign.registry.judge_rows import Contents, RowKey, is_unicode
from memalign.registry.tables import answers, erasures, judges, rows, versions
from memalign.values import ValueType

__all__ = [
    "Action",
    "JudgeSummary",
    "Timeline",
    "VersionInfo",
    "add_judge",
    "add_version",
    "counts",
    "find",
    "history",
    "now",
    "read",
    "remove",
    "summaries",
    "timeline",
]

Action = Literal["create", "save", "edit", "align", "unalign", "erase", "rollback", "import", "lock"]
"""What made a version. Never free text: an erasure could not reach what somebody wrote there."""
ACTIONS: tuple[str, ...] = get_args(Action)

Timeline = dict[RowKey, list[tuple[int, int, bytes]]]
"""What every row was from one version up to another (exclusive)."""


@dataclass(frozen=True, kw_only=True)
class JudgeSummary:
    """One judge of a registry, in its latest version."""

    name: str
    versions: int
    latest: int
    value_type: str
    model: str | None
    cases: int
    feedback: int
    guidelines: int
    pending: int
    updated_at: str

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class VersionInfo:
    """One version: what made it, from which parent, and what it holds.

    `action` is create, save, align, unalign, edit, lock, rollback, import or erase. `redacted` versions have lost what
    was erased later; `memory_hash` is empty for them. `guidelines` counts those in force.
    """

    number: int
    parent: int | None
    action: str
    created_at: str
    summary: str
    note: str | None
    redacted: bool
    memory_hash: str
    cases: int
    feedback: int
    guidelines: int
    pending: int

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def now() -> str:
    """The time, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat()


def find(connection: Connection, name: str) -> tuple[int, int]:
    """Id and latest version of a judge. Raises JudgeNotFound with the names that there are."""
    query = select(judges.c.id, judges.c.latest).where(judges.c.name == name)
    row = connection.execute(query).one_or_none() if is_unicode(name) else None
    if row is None:
        names = connection.execute(select(judges.c.name).order_by(judges.c.name)).scalars().all()
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        raise JudgeNotFound(f"no judge {name!r} in the registry; judges: {listed or 'none yet'}")
    return row.id, row.latest


def read(connection: Connection, judge: int, number: int, *, name: str) -> Contents:
    """All rows of a version. Raises JudgeNotFound with the versions that there are."""
    highest = connection.execute(select(judges.c.latest).where(judges.c.id == judge)).scalar_one()
    if not 1 <= number <= highest:
        available = "version 1" if highest == 1 else f"versions 1 to {highest}"
        raise JudgeNotFound(f"judge {name!r} has no version {number}; it has {available}")
    query = select(rows.c.kind, rows.c.key, rows.c.body).where(rows.c.judge == judge)
    if number == highest:  # which an index finds
        query = query.where(rows.c.until.is_(None))
    else:
        query = query.where(rows.c.since <= number, rows.c.until.is_(None) | (rows.c.until > number))
    return {(kind, key): body for kind, key, body in connection.execute(query).all()}


def timeline(connection: Connection, judge: int, latest: int) -> Timeline:
    """Every row of a judge: its first version, the one after its last, and its body."""
    columns = (rows.c.kind, rows.c.key, rows.c.since, rows.c.until, rows.c.body)
    spans: Timeline = {}
    for kind, key, since, until, body in connection.execute(select(*columns).where(rows.c.judge == judge)):
        spans.setdefault((kind, key), []).append((since, until or latest + 1, body))
    return spans


def add_judge(connection: Connection, name: str) -> int:
    """A judge without a version yet; `add_version` must follow in the same transaction. Returns its id."""
    return int(connection.execute(insert(judges).values(name=name, latest=0).returning(judges.c.id)).scalar_one())


def add_version(
    connection: Connection,
    judge: int,
    *,
    parent: int,
    before: Contents,
    after: Contents,
    memory: Memory,
    action: Action,
    note: str | None = None,
    line: str | None = None,
) -> int:
    """Write `after` as the version that follows `parent` (0: none), which holds `before`; returns its number.

    Only what differs is written. Raises VersionConflict when `parent` is not the latest, and InputError for an action
    that is none, and a note that is not valid Unicode.
    """
    if action not in ACTIONS:
        raise InputError(f"what made a version is one of {', '.join(ACTIONS)}; a note says more")
    if note is not None and not is_unicode(note):
        raise InputError(f"the note {note!r} is not valid Unicode; write it anew")
    number = parent + 1
    moved = connection.execute(
        update(judges).where(judges.c.id == judge, judges.c.latest == parent).values(latest=number)
    ).rowcount
    if moved != 1:
        raise VersionConflict("somebody else committed a version in the meantime")
    connection.execute(
        insert(versions).values(
            judge=judge,
            number=number,
            parent=parent or None,
            action=action,
            created_at=now(),
            summary=line or summary(before, after),
            note=note,
            redacted=False,
            memory_hash=memory.hash,
            **counts(memory),
        )
    )
    ended = [key for key, body in before.items() if after.get(key) != body]
    if ended:
        connection.execute(
            update(rows)
            .where(
                rows.c.judge == judge,
                rows.c.kind == bindparam("of_kind"),
                rows.c.key == bindparam("of_key"),
                # A sum, so that the row is found by its key, and not among all living rows by the index on `until`.
                (rows.c.until + 0).is_(None),
            )
            .values(until=number),
            [{"of_kind": kind, "of_key": key} for kind, key in ended],
        )
    begun = [
        {"judge": judge, "kind": kind, "key": key, "since": number, "until": None, "body": body}
        for (kind, key), body in after.items()
        if before.get((kind, key)) != body
    ]
    if begun:
        connection.execute(insert(rows), begun)
    return number


def counts(memory: Memory) -> dict[str, int]:
    """What history says of a memory's size."""
    return {
        "cases": len(memory.cases),
        "feedback": len(memory),
        "guidelines": len(memory.semantic),
        "pending": len(memory.pending),
    }


def history(connection: Connection, judge: int) -> tuple[VersionInfo, ...]:
    """Every version, the oldest first."""
    records = connection.execute(select(versions).where(versions.c.judge == judge).order_by(versions.c.number))
    return tuple(VersionInfo(**{name: row[name] for name in row if name != "judge"}) for row in records.mappings())


def summaries(connection: Connection, judge: int | None = None) -> tuple[JudgeSummary, ...]:
    """Every judge (or one), by name."""
    query = (
        select(judges, versions)
        .join(versions, (versions.c.judge == judges.c.id) & (versions.c.number == judges.c.latest))
        .order_by(judges.c.name)
    )
    settings = select(rows.c.judge, rows.c.key, rows.c.body).where(
        rows.c.kind == "judge", rows.c.key.in_(("value_type", "model")), rows.c.until.is_(None)
    )
    if judge is not None:
        query, settings = query.where(judges.c.id == judge), settings.where(rows.c.judge == judge)
    settings_of = {(of, key): msgspec.json.decode(body) for of, key, body in connection.execute(settings)}
    return tuple(
        JudgeSummary(
            name=row.name,
            versions=row.latest,  # no version is ever taken away
            latest=row.latest,
            value_type=msgspec.convert(settings_of[row.id, "value_type"], ValueType).spec,
            model=settings_of[row.id, "model"],
            cases=row.cases,
            feedback=row.feedback,
            guidelines=row.guidelines,
            pending=row.pending,
            updated_at=row.created_at,
        )
        for row in connection.execute(query)
    )


def remove(connection: Connection, judge: int) -> None:
    """Delete a judge with all versions, kept answers, and what was remembered of its erasures."""
    for table in (rows, versions, erasures, answers):
        connection.execute(delete(table).where(table.c.judge == judge))
    connection.execute(delete(judges).where(judges.c.id == judge))
