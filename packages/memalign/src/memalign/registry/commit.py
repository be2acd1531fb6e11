"""The next version of a judge, in one transaction or not at all."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, select

from memalign.errors import InvalidRows, JudgeExists, JudgeNotFound, RowError, VersionConflict
from memalign.judge import Judge
from memalign.memory import Memory
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erased_hashes import ALLOW, ErasedHashes
from memalign.registry.judge_rows import Contents, contents_of, decoded, memory_of
from memalign.registry.paid_answers import forget_answers
from memalign.registry.tables import rows
from memalign.types import Guideline

__all__ = ["commit"]

replace = msgspec.structs.replace

_FOREIGN = ("save", "import")
"""Actions whose judge need not come from the latest version: others may have its guidelines' numbers here."""


def commit(
    database: Database,
    judge: Judge,
    *,
    action: versions.Action,
    note: str | None = None,
    parent: int | None = None,
    new: bool = False,
    allow_erased: bool = False,
    erased_anywhere: bool = False,
) -> int:
    """Keep `judge` as the version after `parent` (None: whatever is latest), and return its number.

    One that equals the latest adds none. A guideline whose number was given to another one here gets a new number, and
    the version's note says so. Raises JudgeExists, VersionConflict, and InvalidRows for feedback that was erased.
    """
    with database.write(judge.name) as connection:
        try:
            number, latest = versions.find(connection, judge.name)
        except JudgeNotFound:
            if parent is not None:
                raise
            number, latest = versions.add_judge(connection, judge.name), 0
        if new and latest:
            raise JudgeExists(
                f"a judge {judge.name!r} is in the registry already; save or edit it, or take another name"
            )
        if parent is not None and parent != latest:
            raise VersionConflict(f"judge {judge.name!r} is at version {latest}, no longer at {parent}; load it again")
        before: Contents = versions.read(connection, number, latest, name=judge.name) if latest else {}
        if before and action in _FOREIGN:
            judge, moved = _numbered(connection, number, judge, before)
            note = "; ".join(filter(None, (note, moved))) or None
        after = contents_of(judge)
        if after == before:
            return latest
        erased = ErasedHashes(database, connection, None if erased_anywhere else number)
        if allow_erased:
            ErasedHashes(database, connection, number).readmit(connection, judge.memory)
        elif erased and (refused := erased.refusals(judge.memory, memory_of(before) if before else Memory())):
            faults = [RowError(line=n, id=str(key), reason=why) for n, (key, why) in enumerate(refused.items(), 1)]
            raise InvalidRows(f"judge {judge.name!r} holds feedback that was erased", faults, hint=ALLOW)
        if action == "unalign":
            forget_answers(connection, number)  # which may quote what was withdrawn
        return versions.add_version(
            connection, number, parent=latest, before=before, after=after, memory=judge.memory, action=action, note=note
        )


def _numbered(connection: Connection, number: int, judge: Judge, before: Contents) -> tuple[Judge, str]:
    """`judge` with guidelines that have no number of another one of this registry, and what was changed for that."""
    memory = judge.memory
    start = int(decoded("memory", before["memory", "next_guideline"]))
    query = select(rows.c.body).where(rows.c.judge == number, rows.c.kind == "guideline")
    earlier = [decoded("guideline", body) for body in connection.execute(query).scalars()]
    free = max(start, memory.next_guideline)
    names: dict[str, str] = {}
    for guideline in memory.guidelines:
        if guideline.number < start and not any(_same(guideline, other) for other in earlier):
            names[guideline.id] = f"G{free}"
            free += 1
    moved = ", ".join(f"{old} is {new} here" for old, new in names.items())
    return judge.replace(memory=_renamed(memory, names, free)), moved


def _same(guideline: Guideline, other: Guideline) -> bool:
    """Whether it is the one that had the number here: in the same words, or in those that a person gave it since."""
    if guideline.id != other.id or guideline.text == other.text:
        return guideline.id == other.id
    distilled = guideline.origin == other.origin == "distilled"
    # One that a person wrote was exposed to nothing: there the person tells.
    same = guideline.exposed_to == other.exposed_to and (bool(other.exposed_to) or guideline.origin == other.origin)
    return same and not distilled


def _renamed(memory: Memory, names: dict[str, str], free: int) -> Memory:
    def renamed(guideline: Guideline) -> Guideline:
        replaced = guideline.replaced_by
        return replace(
            guideline,
            id=names.get(guideline.id, guideline.id),
            replaced_by=names.get(replaced, replaced) if replaced else None,
        )

    return replace(
        memory,
        guidelines=tuple(sorted(map(renamed, memory.guidelines), key=lambda guideline: guideline.number)),
        next_guideline=free,
    )
