"""What changed from one version of a judge to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.judge import Judge
from memalign.memory import Annotation, LedgerEntry, Memory
from memalign.registry.judge_rows import settings_of
from memalign.registry.kinds import LESSONS, Kind

__all__ = ["BY_HAND", "Change", "MemoryDiff", "compare"]

BY_HAND = ("authority", "locks")
"""The fields of a memory that a person sets; the rest follows from what was learned."""


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
        changes = _lesson_changes(kind, before.memory, after.memory)
        lessons[kind.field] = tuple(changes)
    return MemoryDiff(
        judge=after.name,
        before=old,
        after=new,
        settings=tuple(_setting_changes(before, after)),
        feedback=tuple(_feedback_changes(before.memory, after.memory)),
        **lessons,
    )


def _setting_changes(before: Judge, after: Judge) -> Iterator[Change]:
    new = _settings(after)
    for name, value in _settings(before).items():
        if value != new[name]:
            yield Change(name=name, before=value, after=new[name])


def _settings(judge: Judge) -> dict[str, Any]:
    settings = settings_of(judge)
    for name in BY_HAND:
        settings[name] = list(getattr(judge.memory, name))
    return settings


def _lesson_changes(kind: Kind, before: Memory, after: Memory) -> Iterator[Change]:
    old = {kind.key(entry): entry for entry in getattr(before, kind.field)}
    new = {kind.key(entry): entry for entry in getattr(after, kind.field)}
    both = {**old, **new}
    for name in sorted(both, key=lambda name: kind.order(both[name])):
        was = old.get(name)
        now = new.get(name)
        status_before = kind.status(before, was) if was else None
        status_after = kind.status(after, now) if now else None
        if (was, status_before) != (now, status_after):
            yield Change(
                name=name,
                before=was,
                after=now,
                state_before=status_before,
                state_after=status_after,
            )


def _feedback_changes(before: Memory, after: Memory) -> Iterator[Change]:
    old = {entry.key: entry for entry in before.ledger()}
    new = {entry.key: entry for entry in after.ledger()}
    keys = set()
    for memory in (before, after):
        for annotation in memory.annotations():
            keys.add(annotation.key)
    for key in sorted(keys):
        was = before.annotation(key)
        now = after.annotation(key)
        state_before = old.get(key)
        state_after = new.get(key)
        if _same_words(was, now) and _same_state(state_before, state_after):
            continue
        yield Change(
            name=str(key),
            before=was,
            after=now,
            state_before=state_before,
            state_after=state_after,
        )


def _same_words(was: Annotation | None, now: Annotation | None) -> bool:
    if was is None or now is None:
        return False
    return msgspec.structs.replace(was, outcome=now.outcome) == now


def _same_state(was: LedgerEntry | None, now: LedgerEntry | None) -> bool:
    if was is None or now is None:
        return False
    return was.state == now.state and was.reason == now.reason
