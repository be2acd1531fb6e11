"""Versions in the database: reading one, writing the next, and what history says of each.

`commit` and `import_judges` are transactions; every other function works inside the caller's.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    bindparam,
    delete,
    insert,
    select,
    update,
)

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
from memalign.registry.kinds import LESSONS, Held, values_of
from memalign.registry.receipt import in_words
from memalign.registry.tables import (
    ANSWER,
    JUDGE,
    ROW,
    VERSION,
    answers,
    erasures,
    judges,
    rows,
    versions,
)
from memalign.types import FeedbackKey
from memalign.values import ValueType

Action = Literal[
    "create", "save", "edit", "align", "unalign", "erase", "rollback", "import", "lock"
]
"""What made a version. Never free text: an erasure could not reach what somebody wrote there."""
ACTIONS: tuple[str, ...] = get_args(Action)

_MANY = 500  # rows at a time
_NEXT_GUIDELINE = ("memory", "next_guideline")
_SIZES = ("cases", "feedback", "guidelines", "pending")
_VERBS = ("added", "changed", "removed")

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


_INFO = [versions.c[field.name] for field in fields(VersionInfo)]


class Rollback(NamedTuple):
    """The version that a rollback made, with the rows before and after.

    It is the newest one if that equals it.
    """

    number: int
    parent: int
    before: Contents
    after: Contents


class Head(NamedTuple):
    """A judge's place in its history: as long as it stays, no version has been added or changed.

    Attributes:
        judge: The judge's id.
        latest: The number of its newest version.
        forgettings: How often the answers that are kept for it were forgotten.
    """

    judge: int
    latest: int
    forgettings: int


def find(connection: Connection, name: str) -> Head:
    """Return a judge's place in its history.

    Raises JudgeNotFound, which names the judges that there are.
    """
    if is_unicode(name):
        query = select(JUDGE.id, JUDGE.latest, JUDGE.forgettings)
        row = connection.execute(query.where(JUDGE.name == name)).one_or_none()
        if row is not None:
            return Head(*row)
    everyone = select(JUDGE.name).order_by(JUDGE.name)
    names = connection.scalars(everyone).all()
    listed = ", ".join(names[:20])
    if len(names) > 20:
        listed += ", …"
    raise JudgeNotFound(
        f"no judge {name!r} in the registry; judges: {listed or 'none yet'}"
    )


def read(connection: Connection, head: Head, number: int, *, name: str) -> Contents:
    """Return all rows of a version.

    Raises JudgeNotFound, which says how many versions there are.
    """
    if not 1 <= number <= head.latest:
        raise JudgeNotFound(
            f"judge {name!r} has no version {number}; the latest is {head.latest}"
        )
    held: ColumnElement[bool] = ROW.until.is_(None)  # which an index finds
    if number != head.latest:
        held |= ROW.until > number
        held &= ROW.since <= number
    query = select(ROW.kind, ROW.key, ROW.body)
    query = query.where(ROW.judge == head.judge, held)
    contents = {}
    for kind, key, body in connection.execute(query):
        contents[kind, key] = body
    return contents


def memory_hash(connection: Connection, judge: int, number: int) -> str:
    """Return the hash of a version's memory as it was written; empty if an erasure changed it."""
    query = select(VERSION.memory_hash).where(
        VERSION.judge == judge,
        VERSION.number == number,
    )
    return connection.execute(query).scalar() or ""


def timeline(connection: Connection, judge: int, latest: int) -> Timeline:
    """Return every row of a judge: its first version, the one after its last, and its body."""
    query = select(rows).where(ROW.judge == judge)
    following = latest + 1
    spans: Timeline = {}
    for row in connection.execute(query.order_by(ROW.since)):
        _, kind, key, since, until, body = row
        held = spans.setdefault((kind, key), [])
        held.append((since, until or following, body))
    return spans


def held_in(spans: Timeline, decode: Callable[[str, bytes], Any]) -> Iterator[Held]:
    """Yield every value of a timeline; `decode` may be a codec's."""
    for (kind, key), bodies in spans.items():
        for _, _, body in bodies:
            yield Held(kind, key, decode(kind, body))


def history(connection: Connection, judge: int) -> tuple[VersionInfo, ...]:
    """Return every version, the oldest first."""
    query = select(*_INFO).where(VERSION.judge == judge)
    found = connection.execute(query.order_by(VERSION.number))
    return tuple(VersionInfo(**row) for row in found.mappings())


def summaries(connection: Connection) -> tuple[JudgeSummary, ...]:
    """Return what `Registry.list` says of every judge, by name."""
    settings = select(ROW.judge, ROW.key, ROW.body).where(
        ROW.kind == "judge",
        ROW.key.in_(("value_type", "model")),
        ROW.until.is_(None),
    )
    values = {}
    for judge, key, body in connection.execute(settings):
        values[judge, key] = decoded("judge", body)
    newest = VERSION.number == JUDGE.latest
    newest &= VERSION.judge == JUDGE.id
    query = select(judges, versions).join(versions, newest)
    found = []
    for row in connection.execute(query.order_by(JUDGE.name)):
        with named_damage(f"the judge {row.name!r}"):
            written = values[row.id, "value_type"]
            summary = JudgeSummary(
                name=row.name,
                latest=row.latest,
                value_type=msgspec.convert(written, ValueType).spec,
                model=values[row.id, "model"],
                updated_at=row.created_at,
                **sizes_of(row),
            )
        found.append(summary)
    return tuple(found)


# -- the next version ------------------------------------------------------------------------------


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
    """Keep a judge as the next version, in one transaction, and return its number; see `Registry`.

    Args:
        database: The registry's.
        judge: The judge.
        action: What made the version.
        note: What history says of it.
        parent: The version that must be the newest still; None for whatever is.
        new: Whether there must be no judge of this name.
        allow_erased: Whether feedback may come back that was erased.
        erased_anywhere: Whether that counts which was erased from any judge, and not from this one
            only.

    Raises:
        JudgeExists: There is a judge of this name, and it must be new.
        VersionConflict: `parent` is not the newest any more.
        InvalidRows: The judge holds feedback that was erased.
    """
    with database.write(judge.name) as connection:
        head = _place(connection, judge.name, parent=parent, new=new)
        before: Contents = {}
        if head.latest:
            before = read(connection, head, head.latest, name=judge.name)
            if action in ("save", "import"):  # which need not come from this version
                judge = _numbered(judge, before)
        after = contents_of(judge)
        if after == before:
            return head.latest
        hashes = ErasedHashes(connection, None if erased_anywhere else head.judge)
        if allow_erased:
            hashes.readmit(connection, head.judge, judge.memory)
        elif hashes:
            known = values_of(memory_of(before))
            refused = hashes.refusals(values_of(judge.memory), known)
            _refuse(f"judge {judge.name!r}", refused)
        if action == "unalign":
            forget_answers(connection, head.judge)  # they may quote what was withdrawn
        return add_version(
            connection,
            head.judge,
            parent=head.latest,
            before=before,
            after=after,
            memory=judge.memory,
            action=action,
            note=note,
        )


def _place(connection: Connection, name: str, *, parent: int | None, new: bool) -> Head:
    """Return the place of the judge that is to be kept; without a version if it is added."""
    try:
        head = find(connection, name)
    except JudgeNotFound:
        if parent is not None:
            raise
        return Head(add_judge(connection, name), latest=0, forgettings=0)
    if new:
        raise JudgeExists(
            f"a judge {name!r} is there already; edit it, or take another name"
        )
    if parent not in (None, head.latest):
        raise VersionConflict(
            f"judge {name!r} is at version {head.latest}, no longer at {parent}; load it again"
        )
    return head


def _refuse(judge: str, reasons: Mapping[FeedbackKey, str]) -> None:
    """Raise InvalidRows if a judge holds what was erased, for reasons by key."""
    faults = list[RowError]()
    for key, reason in reasons.items():
        line = len(faults) + 1
        faults.append(RowError(line=line, id=str(key), reason=reason))
    if faults:
        raise InvalidRows(f"{judge} holds feedback that was erased", faults)


def _numbered(judge: Judge, before: Contents) -> Judge:
    """Return a judge that gives no number of a guideline again.

    Raises VersionConflict if it has given a number to another guideline already.
    """
    memory = judge.memory
    for guideline in memory.guidelines:
        written = before.get(("guideline", guideline.id))
        if written is None:
            continue
        other = decoded("guideline", written)
        if guideline.text != other.text and guideline.exposed_to != other.exposed_to:
            raise VersionConflict(
                f"{guideline.id} of this judge is another guideline than {guideline.id} of "
                f"{judge.name!r}; load that judge and change it, or store this one under another "
                "name"
            )
    given = decoded("memory", before[_NEXT_GUIDELINE])
    following = max(given, memory.next_guideline)
    return judge.replace(memory=replace(memory, next_guideline=following))


def roll_back(connection: Connection, name: str, to: int) -> Rollback:
    """Make the content of an earlier version the next one, in the caller's transaction.

    It is read and written in one, or an erase in between would be undone. Raises JudgeNotFound.
    """
    head = find(connection, name)
    number = head.latest
    before = read(connection, head, number, name=name)
    after = read(connection, head, to, name=name)
    # A guideline's id is never given twice, whatever comes back.
    following = (before[_NEXT_GUIDELINE], after[_NEXT_GUIDELINE])
    after[_NEXT_GUIDELINE] = max(following, key=int)
    if before != after:
        number = add_version(
            connection,
            head.judge,
            parent=head.latest,
            before=before,
            after=after,
            memory=memory_of(after),
            action="rollback",
            line=f"back to version {to}",
        )
    return Rollback(number=number, parent=head.latest, before=before, after=after)


def add_judge(connection: Connection, name: str) -> int:
    """Add a judge without a version and return its id.

    `add_version` must follow in the same transaction.
    """
    secret = secrets.token_hex(32)
    new = insert(judges).values(name=name, latest=0, secret=secret)
    added = connection.execute(new.returning(JUDGE.id))
    return int(added.scalar_one())


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
    """Write what differs as the version that follows another one, and return its number.

    Args:
        connection: The transaction.
        judge: The judge's id.
        parent: The version that it follows; 0 for none.
        before: The rows of that version.
        after: The rows of the new one.
        memory: The new version's memory.
        action: What made it.
        note: What a person says of it.
        line: What history says of it; None for what differs.

    Raises:
        VersionConflict: Somebody else committed a version in the meantime.
    """
    if action not in ACTIONS or not is_unicode(note or ""):
        raise InputError(
            f"what made a version is one of {', '.join(ACTIONS)}; a note, of valid Unicode, says "
            "more"
        )
    number = parent + 1
    is_parent = (JUDGE.id == judge, JUDGE.latest == parent)
    moved = connection.execute(update(judges).where(*is_parent).values(latest=number))
    if moved.rowcount != 1:
        raise VersionConflict("somebody else committed a version in the meantime")
    version = insert(versions).values(
        judge=judge,
        number=number,
        action=action,
        created_at=datetime.now(UTC).isoformat(),
        summary=line or _summary(before, after),
        note=note,
        memory_hash=memory.hash,
        **sizes(memory),
    )
    connection.execute(version)
    _write_difference(connection, judge, number, before, after)
    return number


def _write_difference(
    connection: Connection, judge: int, number: int, before: Contents, after: Contents
) -> None:
    """End the rows that a version has no longer, and begin those that are new in it."""
    ended = []
    for row, body in before.items():
        if after.get(row) != body:
            ended.append({"of_kind": row[0], "of_key": row[1]})
    if ended:
        end = update(rows).where(
            ROW.judge == judge,
            ROW.kind == bindparam("of_kind"),
            ROW.key == bindparam("of_key"),
            # A sum, so that the row is found by its key, and not among all living rows by the index
            # on `until`.
            (ROW.until + 0).is_(None),
        )
        connection.execute(end.values(until=number), ended)
    begun = []
    for row, body in after.items():
        if before.get(row) != body:
            kind, key = row
            values = {
                "judge": judge,
                "since": number,
                "until": None,
                "kind": kind,
                "key": key,
                "body": body,
            }
            begun.append(values)
    if begun:
        connection.execute(insert(rows), begun)


def _summary(before: Contents, after: Contents) -> str:
    """Return a line of counts, setting names and guideline ids.

    It may be kept for ever, whatever is erased later.
    """
    changes = _changes(before, after)
    named = [name for name in changes["memory", "changed"] if name in BY_HAND]
    named += changes["judge", "changed"]
    parts = [f"{name} changed" for name in named]
    for verb in _VERBS:
        number = len(changes["annotation", verb])
        if number:
            parts.append(f"{number} feedback {verb}")
    for lesson, kind in LESSONS.items():
        for verb in _VERBS:
            keys = sorted(changes[lesson, verb])
            keys.sort(key=len)  # G2 before G10
            if keys:
                lessons = in_words({kind.noun: len(keys)})
                names = ", ".join(keys[:8])
                parts.append(f"{lessons} {verb} ({names})")
    if parts:
        return ", ".join(parts)
    return "bookkeeping only" if before else "created"


def _changes(before: Contents, after: Contents) -> dict[tuple[str, str], list[str]]:
    """Return the keys of the rows that were added, changed and removed, by kind and by that."""
    changes = defaultdict[tuple[str, str], list[str]](list)
    for row in after | before:
        kind, key = row
        if row not in before:
            changes[kind, "added"].append(key)
        elif row not in after:
            changes[kind, "removed"].append(key)
        elif before[row] != after[row]:
            changes[kind, "changed"].append(key)
    return changes


def sizes(memory: Memory) -> dict[str, int]:
    """Return what history says of a memory's size."""
    return {
        "cases": len(memory.cases),
        "feedback": len(memory),
        "guidelines": len(memory.semantic),
        "pending": len(memory.pending),
    }


def sizes_of(info: Any) -> dict[str, int]:
    """Return the same of a version or its row, as it was counted when it was written."""
    return {name: getattr(info, name) for name in _SIZES}


# -- whole registries, and what goes ---------------------------------------------------------------


def import_judges(
    source: Database, target: Database, *, allow_erased: bool = False
) -> tuple[JudgeSummary, ...]:
    """Copy all judges of a registry into another one, in one transaction or not at all.

    Args:
        source: The database to read.
        target: The database to write.
        allow_erased: Whether feedback may come along that was erased in the target.

    Returns:
        The judges that came.

    Raises:
        JudgeExists: One of the names is taken.
        InvalidRows: A version holds feedback that was erased in the target.
    """
    with source.read() as reading:
        listed = summaries(reading)
        names = {judge.name for judge in listed}
        with target.write(*names) as writing:
            taken = names.intersection(writing.scalars(select(JUDGE.name)))
            if taken:
                raise JudgeExists(
                    f"{target.url} has judges of these names: {', '.join(sorted(taken))}. "
                    "Nothing was imported; import one bundle at a time with --name"
                )
            erased = ErasedHashes(writing, None)
            for judge in reading.execute(select(judges)).all():
                if erased and not allow_erased:
                    spans = timeline(reading, judge.id, judge.latest)
                    reasons = erased.refusals(held_in(spans, decoded))
                    _refuse(f"judge {judge.name!r} of the other registry", reasons)
                _copy(reading, writing, judge)
    return listed


def _copy(reading: Connection, writing: Connection, judge: Row[Any]) -> None:
    """Copy a judge with everything but kept answers."""
    values = judge._asdict()  # SQLAlchemy's public name for it
    del values["id"]
    new = insert(judges).values(values).returning(JUDGE.id)
    number = writing.execute(new).scalar_one()
    for table in (versions, rows, erasures):
        query = select(table).where(table.c.judge == judge.id)
        found = reading.execute(query.execution_options(yield_per=_MANY))
        for batch in found.mappings().partitions():
            moved = [{**row, "judge": number} for row in batch]
            writing.execute(insert(table), moved)


def forget_answers(connection: Connection, judge: int) -> None:
    """Remove all answers kept for aligns of a judge.

    Running aligns go on, and keep nothing more.
    """
    own = update(judges).where(JUDGE.id == judge)
    more = JUDGE.forgettings + 1
    connection.execute(own.values(forgettings=more))
    connection.execute(delete(answers).where(ANSWER.judge == judge))


def rename(connection: Connection, name: str, to: str) -> None:
    """Give a judge another name; its number stays, and with it all that refers to it.

    Raises:
        JudgeNotFound: No judge has the name.
        JudgeExists: Another judge has the new name.
    """
    judge = find(connection, name).judge
    same_name = select(JUDGE.id).where(JUDGE.name == to)
    if connection.scalar(same_name) not in (None, judge):
        raise JudgeExists(
            f"judge {to!r} is in the registry already: choose another name"
        )
    renamed = update(judges).where(JUDGE.id == judge)
    connection.execute(renamed.values(name=to))


def remove(connection: Connection, judge: int) -> None:
    """Delete a judge with all versions, kept answers, and what was remembered of its erasures."""
    for table in (rows, versions, erasures, answers):
        connection.execute(delete(table).where(table.c.judge == judge))
    connection.execute(delete(judges).where(JUDGE.id == judge))
