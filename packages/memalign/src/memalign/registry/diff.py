"""What changed from one version of a judge to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.judge import Judge
from memalign.memory import Annotation, LedgerEntry, Memory
from memalign.memory.status import GuidelineStatus
from memalign.registry.judge_rows import settings_of
from memalign.types import FeedbackKey, Guideline, guideline_number

__all__ = ["BY_HAND", "FeedbackChange", "GuidelineChange", "MemoryDiff", "SettingChange", "compare"]

BY_HAND = ("authority", "locks")
"""What of a memory a person sets; the rest follows from what was learned."""


@dataclass(frozen=True, kw_only=True)
class SettingChange:
    """One setting of the judge (instructions, model, …) before and after."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class GuidelineChange:
    """One guideline with its checks, and its status, before and after; None where it was not there."""

    id: str
    before: Guideline | None
    after: Guideline | None
    status_before: GuidelineStatus | None
    status_after: GuidelineStatus | None


@dataclass(frozen=True, kw_only=True)
class FeedbackChange:
    """One piece of feedback and where it ended, before and after; None where it was not there."""

    key: FeedbackKey
    before: Annotation | None
    after: Annotation | None
    entry_before: LedgerEntry | None
    entry_after: LedgerEntry | None


@dataclass(frozen=True, kw_only=True)
class MemoryDiff:
    """What changed between two versions. A change without `before` was added, one without `after` was removed."""

    judge: str
    before: int
    after: int
    settings: tuple[SettingChange, ...] = ()
    guidelines: tuple[GuidelineChange, ...] = ()
    feedback: tuple[FeedbackChange, ...] = ()

    def __bool__(self) -> bool:
        return any((self.settings, self.guidelines, self.feedback))


def compare(before: Judge, after: Judge, *, versions: tuple[int, int] = (0, 0)) -> MemoryDiff:
    """What changed from one judge to another, which may be `versions` of it."""
    old, new = _settings(before), _settings(after)
    return MemoryDiff(
        judge=after.name,
        before=versions[0],
        after=versions[1],
        settings=tuple(SettingChange(name=n, before=old[n], after=new[n]) for n in old if old[n] != new[n]),
        guidelines=tuple(_guideline_changes(before.memory, after.memory)),
        feedback=tuple(_feedback_changes(before.memory, after.memory)),
    )


def _settings(judge: Judge) -> dict[str, Any]:
    return settings_of(judge) | {name: list(getattr(judge.memory, name)) for name in BY_HAND}


def _guideline_changes(before: Memory, after: Memory) -> Iterator[GuidelineChange]:
    old, new = ({guideline.id: guideline for guideline in memory.guidelines} for memory in (before, after))
    for name in sorted(old.keys() | new.keys(), key=guideline_number):
        was, now = old.get(name), new.get(name)
        status_before, status_after = was and before.status(was), now and after.status(now)
        if (was, status_before) != (now, status_after):
            yield GuidelineChange(
                id=name, before=was, after=now, status_before=status_before, status_after=status_after
            )


def _feedback_changes(before: Memory, after: Memory) -> Iterator[FeedbackChange]:
    old, new = ({entry.key: entry for entry in memory.ledger()} for memory in (before, after))
    for key in sorted({annotation.key for memory in (before, after) for annotation in memory.annotations()}):
        was, now, entry, other = before.annotation(key), after.annotation(key), old.get(key), new.get(key)
        same_words = was and now and msgspec.structs.replace(was, outcome=now.outcome) == now
        if not (same_words and entry and other and (entry.state, entry.reason) == (other.state, other.reason)):
            yield FeedbackChange(key=key, before=was, after=now, entry_before=entry, entry_after=other)
