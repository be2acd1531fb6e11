"""Versions in the database: reading one, writing the next, and what history says of each.

`commit` and `import_judges` are transactions; every other function works inside the caller's.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

import msgspec
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from memalign.errors import (
    InputError,
    InvalidRows,
    JudgeExists,
    JudgeNotFound,
    RowError,
    VersionConflict,
)
from memalign.judge import Judge
from memalign.memory import Memory
from memalign.registry.database import Database
from memalign.registry.diff import BY_HAND
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import (
    Contents,
    RowKey,
    contents_of,
    decoded,
    is_unicode,
    memory_of,
    named_damage,
)
from memalign.registry.tables import answers, erasures, judges, rows, versions
from memalign.types import FeedbackKey, guideline_number
from memalign.values import ValueType

Action = Literal[
    "create", "save", "edit", "align", "unalign", "erase", "rollback", "import", "lock"
]
"""What made a version. Never free text: an erasure could not reach what somebody wrote there."""
ACTIONS: tuple[str, ...] = get_args(Action)

_MANY = 500  # rows at a time
_SIZES = ("cases", "feedback", "guidelines", "pending")

Timeline = dict[RowKey, list[tuple[int, int, bytes]]]
"""What every row was from one version up to another (exclusive)."""


@dataclass(frozen=True, kw_only=True)
class JudgeSummary:
    """One judge of a registry, in its latest version."""

    name: str
    latest: int
    value_type: str
    model: str | None
    cases: int
    feedback: int
    guidelines: int
    pending: int
    updated_at: str


@dataclass(frozen=True, kw_only=True)
class VersionInfo:
    """One version: what made it, and what it holds; `guidelines` counts those in force.

    `redacted` versions have lost what was erased later; their `memory_hash` is empty.
    """

    number: int
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
        raise JudgeNotFound(f"judge {name!r} has no version {number}; the latest is {highest}")
    query = select(rows.c.kind, rows.c.key, rows.c.body).where(rows.c.judge == judge)
    if number == highest:  # which an index finds
        query = query.where(rows.c.until.is_(None))
    else:
        query = query.where(
            rows.c.since <= number, rows.c.until.is_(None) | (rows.c.until > number)
        )
    return {(kind, key): body for kind, key, body in connection.execute(query).all()}


def memory_hash(connection: Connection, judge: int, number: int) -> str:
    """Return the hash of a version's memory as it was written; empty where an erasure has changed it since."""
    query = select(versions.c.memory_hash).where(
        versions.c.judge == judge, versions.c.number == number
    )
    return str(connection.execute(query).scalar() or "")


def timeline(connection: Connection, judge: int, latest: int) -> Timeline:
    """Every row of a judge: its first version, the one after its last, and its body."""
    columns = (rows.c.kind, rows.c.key, rows.c.since, rows.c.until, rows.c.body)
    spans: Timeline = {}
    query = select(*columns).where(rows.c.judge == judge).order_by(rows.c.since)
    for kind, key, since, until, body in connection.execute(query):
        spans.setdefault((kind, key), []).append((since, until or latest + 1, body))
    return spans


def commit(
    database: Database,
    judge: Judge,
    *,
    action: Action,
    note: str | None = None,
    parent: int | None = None,
    new: bool = False,
    allow_erased: bool = False,
    erased_anywhere: bool = False,
) -> int:
    """Keep `judge` as the version after `parent` (None: whatever is latest), and return its number; see `Registry`."""
    with database.write(judge.name) as connection:
        try:
            number, latest = find(connection, judge.name)
        except JudgeNotFound:
            if parent is not None:
                raise
            number, latest = add_judge(connection, judge.name), 0
        if new and latest:
            raise JudgeExists(
                f"a judge {judge.name!r} is there already; save or edit it, or take another name"
            )
        if parent is not None and parent != latest:
            raise VersionConflict(
                f"judge {judge.name!r} is at version {latest}, no longer at {parent}; load it again"
            )
        before: Contents = read(connection, number, latest, name=judge.name) if latest else {}
        if before and action in ("save", "import"):  # which need not come from the latest version
            judge = _numbered(judge, before)
        after = contents_of(judge)
        if after == before:
            return latest
        hashes = ErasedHashes(connection, None if erased_anywhere else number)
        if allow_erased:
            hashes.readmit(connection, number, judge.memory)
        elif refused := hashes.refusals(judge.memory, memory_of(before) if before else Memory()):
            faults = [
                RowError(line=n, id=str(key), reason=why)
                for n, (key, why) in enumerate(refused.items(), 1)
            ]
            raise InvalidRows(f"judge {judge.name!r} holds feedback that was erased", faults)
        if action == "unalign":
            forget_answers(connection, number)  # which may quote what was withdrawn
        return add_version(
            connection,
            number,
            parent=latest,
            before=before,
            after=after,
            memory=judge.memory,
            action=action,
            note=note,
        )


def _numbered(judge: Judge, before: Contents) -> Judge:
    """`judge`, which gives no number of a guideline again. Raises VersionConflict where it has given one to another."""
    for guideline in judge.memory.guidelines:
        written = before.get(("guideline", guideline.id))
        other = guideline if written is None else decoded("guideline", written)
        if guideline.text != other.text and guideline.exposed_to != other.exposed_to:
            both = f"{guideline.id} of this judge is another guideline than {guideline.id} of {judge.name!r}"
            raise VersionConflict(
                f"{both}; load that judge and change it, or store this one under another name"
            )
    free = max(decoded("memory", before["memory", "next_guideline"]), judge.memory.next_guideline)
    return judge.replace(memory=msgspec.structs.replace(judge.memory, next_guideline=free))


def add_judge(connection: Connection, name: str) -> int:
    """A judge without a version yet; `add_version` must follow in the same transaction. Returns its id."""
    new = insert(judges).values(name=name, latest=0, secret=secrets.token_hex(32))
    return int(connection.execute(new.returning(judges.c.id)).scalar_one())


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
    """Write what differs of `after` as the version that follows `parent` (0: none), which holds `before`."""
    if action not in ACTIONS or not is_unicode(note or ""):
        raise InputError(
            f"what made a version is one of {', '.join(ACTIONS)}; a note, of valid Unicode, says more"
        )
    number = parent + 1
    same = (judges.c.id == judge, judges.c.latest == parent)
    if connection.execute(update(judges).where(*same).values(latest=number)).rowcount != 1:
        raise VersionConflict("somebody else committed a version in the meantime")
    now = datetime.now(UTC).isoformat()
    version: dict[str, Any] = {
        "judge": judge,
        "number": number,
        "action": action,
        "created_at": now,
    }
    version |= {"summary": line or summary(before, after), "note": note, "memory_hash": memory.hash}
    connection.execute(insert(versions).values(version | sizes(memory)))
    ended = [key for key, body in before.items() if after.get(key) != body]
    if ended:
        # A sum, so that the row is found by its key, and not among all living rows by the index on `until`.
        living = (rows.c.judge == judge, (rows.c.until + 0).is_(None))
        row = (rows.c.kind == bindparam("of_kind"), rows.c.key == bindparam("of_key"))
        keys = [{"of_kind": kind, "of_key": key} for kind, key in ended]
        connection.execute(update(rows).where(*living, *row).values(until=number), keys)
    begun = [
        {"judge": judge, "kind": kind, "key": key, "since": number, "until": None, "body": body}
        for (kind, key), body in after.items()
        if before.get((kind, key)) != body
    ]
    if begun:
        connection.execute(insert(rows), begun)
    return number


def summary(before: Contents, after: Contents) -> str:
    """One line of counts, setting names and guideline ids: what may be kept for ever, whatever is erased later."""
    parts = [
        f"{name} changed"
        for kind, name in (after if before else ())
        if (kind == "judge" or name in BY_HAND) and before.get((kind, name)) != after[kind, name]
    ]
    for kind, noun in (("annotation", "feedback"), ("guideline", "guideline")):
        old, new = (
            {key: body for (of, key), body in rows.items() if of == kind}
            for rows in (before, after)
        )
        changed = {key for key in old.keys() & new.keys() if old[key] != new[key]}
        for verb, keys in (
            ("added", new.keys() - old),
            ("changed", changed),
            ("removed", old.keys() - new),
        ):
            plural = "s" if kind == "guideline" and len(keys) > 1 else ""
            names = (
                f" ({', '.join(sorted(keys, key=guideline_number)[:8])})"
                if kind == "guideline"
                else ""
            )
            parts += [f"{len(keys)} {noun}{plural} {verb}{names}"] if keys else []
    return ", ".join(parts) or ("created" if not before else "bookkeeping only")


def sizes(memory: Memory) -> dict[str, int]:
    """Return what history says of a memory's size."""
    return {
        "cases": len(memory.cases),
        "feedback": len(memory),
        "guidelines": len(memory.semantic),
        "pending": len(memory.pending),
    }


def sizes_of(info: VersionInfo) -> dict[str, int]:
    """Return the same of a version, as it was counted when it was written."""
    return {name: getattr(info, name) for name in _SIZES}


def history(connection: Connection, judge: int) -> tuple[VersionInfo, ...]:
    """Every version, the oldest first."""
    records = connection.execute(
        select(versions).where(versions.c.judge == judge).order_by(versions.c.number)
    )
    return tuple(
        VersionInfo(**{name: row[name] for name in row if name != "judge"})
        for row in records.mappings()
    )


def summaries(connection: Connection) -> tuple[JudgeSummary, ...]:
    """Every judge, by name."""
    newest = (versions.c.judge == judges.c.id) & (versions.c.number == judges.c.latest)
    query = select(judges, versions).join(versions, newest).order_by(judges.c.name)
    named = (
        rows.c.kind == "judge",
        rows.c.key.in_(("value_type", "model")),
        rows.c.until.is_(None),
    )
    settings = select(rows.c.judge, rows.c.key, rows.c.body).where(*named)
    values = {(of, key): decoded("judge", body) for of, key, body in connection.execute(settings)}
    columns = ("name", "latest", "cases", "feedback", "guidelines", "pending")
    found = list[JudgeSummary]()
    for row in connection.execute(query):
        with named_damage(f"the judge {row.name!r}"):
            value_type = msgspec.convert(values[row.id, "value_type"], ValueType).spec
            model = values[row.id, "model"]
        counted = {column: getattr(row, column) for column in columns}
        found.append(
            JudgeSummary(value_type=value_type, model=model, updated_at=row.created_at, **counted)
        )
    return tuple(found)


def import_judges(
    source: Database, target: Database, *, allow_erased: bool = False
) -> tuple[JudgeSummary, ...]:
    """Copy all judges of `source` into `target`, in one transaction or not at all; see `Registry.import_registry`."""
    with source.read() as reading:
        listed = summaries(reading)
        with target.write(*(judge.name for judge in listed)) as writing:
            if taken := {judge.name for judge in listed} & set(
                writing.execute(select(judges.c.name)).scalars()
            ):
                names = f"{target.url} has judges of these names: {', '.join(sorted(taken))}"
                raise JudgeExists(
                    f"{names}. Nothing was imported; import one bundle at a time with --name"
                )
            erased = ErasedHashes(writing, None)
            for judge in reading.execute(select(judges)).mappings().all():
                if not allow_erased:
                    _refuse_erased(
                        erased, judge["name"], timeline(reading, judge["id"], judge["latest"])
                    )
                values = {name: value for name, value in judge.items() if name != "id"}
                new = writing.execute(
                    insert(judges).values(values).returning(judges.c.id)
                ).scalar_one()
                for table in (versions, rows, erasures):
                    query = (
                        select(table)
                        .where(table.c.judge == judge["id"])
                        .execution_options(yield_per=_MANY)
                    )
                    for batch in reading.execute(query).mappings().partitions():
                        writing.execute(insert(table), [{**row, "judge": new} for row in batch])
    return listed


def _refuse_erased(erased: ErasedHashes, name: str, spans: Timeline) -> None:
    """Raise InvalidRows if any version of a judge holds feedback or a case that was erased."""
    if not erased:
        return
    contents: dict[str, set[str]] = {}
    for (kind, key), bodies in spans.items():
        if kind == "case":
            contents[key] = {decoded(kind, body).content_hash for _, _, body in bodies}
    faults = list[RowError]()
    for kind, key in sorted(spans):
        if kind in ("annotation", "tombstone", "case"):
            feedback = FeedbackKey(key, "") if kind == "case" else FeedbackKey.parse(key)
            if why := erased.refusal(feedback, contents.get(feedback.id, ())):
                faults.append(RowError(line=len(faults) + 1, id=key, reason=why))
    if faults:
        raise InvalidRows(
            f"judge {name!r} of the other registry holds feedback that was erased", faults
        )


def forgettings(connection: Connection, judge: int) -> int | None:
    """Return how often answers of a judge were forgotten; None if it is gone."""
    return connection.execute(select(judges.c.forgettings).where(judges.c.id == judge)).scalar()


def forget_answers(connection: Connection, judge: int) -> None:
    """Remove all answers kept for aligns of a judge. Running aligns go on, and keep nothing more."""
    connection.execute(
        update(judges).where(judges.c.id == judge).values(forgettings=judges.c.forgettings + 1)
    )
    connection.execute(delete(answers).where(answers.c.judge == judge))


def remove(connection: Connection, judge: int) -> None:
    """Delete a judge with all versions, kept answers, and what was remembered of its erasures."""
    for table in (rows, versions, erasures, answers):
        connection.execute(delete(table).where(table.c.judge == judge))
    connection.execute(delete(judges).where(judges.c.id == judge))
