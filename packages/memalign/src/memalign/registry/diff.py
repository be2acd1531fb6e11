"""What changed from one version of a judge to another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import eq
from typing import Any

import msgspec

from memalign.judge import Judge
from memalign.memory import Memory
from memalign.registry.judge_rows import settings_of
from memalign.registry.kinds import LESSONS, Kind
from memalign.types import FeedbackKey

__all__ = ["BY_HAND", "Change", "MemoryDiff", "compare"]

BY_HAND = ("authority", "locks")
"""The fields of a memory that a person sets; the rest follows from what was learned."""

_Stated = tuple[Any, Any]
"""A value and its state."""
_ABSENT = (None, None)


@dataclass(frozen=True, kw_only=True)
class Change:
    """One setting, guideline or piece of feedback before and after.

    Attributes:
        name: The setting's name, the guideline's id or the feedback's key.
        before: What it was; None if it was not there.
        after: What it is; None if it is not there.
        state_before: A guideline's status before, or of feedback the ledger's entry.
        state_after: The same afterwards.
    """

    name: str
    before: Any
    after: Any
    state_before: Any = None
    state_after: Any = None


@dataclass(frozen=True, kw_only=True)
class MemoryDiff:
    """What changed between two versions.

    A change without `before` was added, one without `after` was removed.
    """

    judge: str
    before: int
    after: int
    settings: tuple[Change, ...] = ()
    guidelines: tuple[Change, ...] = ()
    feedback: tuple[Change, ...] = ()

    @property
    def lessons(self) -> Iterator[tuple[Kind, Change]]:
        """The changes of what was learned or written for the judge, each with its kind."""
        for kind in LESSONS.values():
            for change in getattr(self, kind.field):
                yield kind, change

    def __bool__(self) -> bool:
        return bool(self.settings or self.feedback or any(self.lessons))


def compare(
    before: Judge, after: Judge, *, versions: tuple[int, int] = (0, 0)
) -> MemoryDiff:
    """Return what changed from one judge to another.

    Args:
        before: The judge before.
        after: The judge after.
        versions: Their numbers, if a registry has them.
    """
    old, new = versions
    lessons = {}
    for kind in LESSONS.values():
        was = _lessons(kind, before.memory)
        now = _lessons(kind, after.memory)
        changes = list(_changes(was, now))
        changes.sort(key=lambda change: kind.order(change.after or change.before))
        lessons[kind.field] = tuple(changes)
    said = _keys(before.memory, after.memory)
    feedback = _changes(
        _feedback(before.memory, said), _feedback(after.memory, said), _same_feedback
    )
    return MemoryDiff(
        judge=after.name,
        before=old,
        after=new,
        settings=tuple(_changes(_settings(before), _settings(after))),
        feedback=tuple(feedback),
        **lessons,
    )


def _changes(
    old: Mapping[Any, _Stated],
    new: Mapping[Any, _Stated],
    same: Callable[[_Stated, _Stated], bool] = eq,
) -> Iterator[Change]:
    """Yield what is not the same, by name."""
    for name in {**old, **new}:
        was = old.get(name, _ABSENT)
        now = new.get(name, _ABSENT)
        if same(was, now):
            continue
        yield Change(
            name=str(name),
            before=was[0],
            after=now[0],
            state_before=was[1],
            state_after=now[1],
        )


def _settings(judge: Judge) -> dict[str, _Stated]:
    settings = settings_of(judge)
    for name in BY_HAND:
        settings[name] = list(getattr(judge.memory, name))
    return {name: (value, None) for name, value in settings.items()}


def _lessons(kind: Kind, memory: Memory) -> dict[str, _Stated]:
    entries = getattr(memory, kind.field)
    return {kind.key(entry): (entry, kind.status(memory, entry)) for entry in entries}


def _keys(*memories: Memory) -> list[FeedbackKey]:
    keys = set()
    for memory in memories:
        for annotation in memory.annotations():
            keys.add(annotation.key)
    return sorted(keys)


def _feedback(memory: Memory, keys: Iterable[FeedbackKey]) -> dict[Any, _Stated]:
    entries = {entry.key: entry for entry in memory.ledger()}
    return {key: (memory.annotation(key), entries.get(key)) for key in keys}


def _same_feedback(was: _Stated, now: _Stated) -> bool:
    """Return whether somebody said the same, and it ended in the same place."""
    if None in (*was, *now):
        return False
    said, entry = now
    before, entry_before = was
    if msgspec.structs.replace(before, outcome=said.outcome) != said:
        return False
    return (entry_before.state, entry_before.reason) == (entry.state, entry.reason)
