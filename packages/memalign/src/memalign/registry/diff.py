"""What changed from one version of a judge to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from memalign.judge import Judge
from memalign.memory import Memory
from memalign.registry.judge_rows import settings_of
from memalign.types import guideline_number

__all__ = ["BY_HAND", "Change", "MemoryDiff", "compare"]

BY_HAND = ("authority", "locks")
"""What of a memory a person sets; the rest follows from what was learned."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One setting, guideline or piece of feedback before and after; None where it was not there.

    `name` is the setting's name, the guideline's id or the feedback's key. `state_before` and `state_after` are a
    guideline's status, and of feedback the ledger's entry.
    """

    name: str
    before: Any
    after: Any
    state_before: Any = None
    state_after: Any = None


@dataclass(frozen=True, kw_only=True)
class MemoryDiff:
    """What changed between two versions. A change without `before` was added, one without `after` was removed."""

    judge: str
    before: int
    after: int
    settings: tuple[Change, ...] = ()
    guidelines: tuple[Change, ...] = ()
    feedback: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return any((self.settings, self.guidelines, self.feedback))


def compare(before: Judge, after: Judge, *, versions: tuple[int, int] = (0, 0)) -> MemoryDiff:
    """What changed from one judge to another, which may be `versions` of it."""
    old, new = (
        settings_of(judge) | {name: list(getattr(judge.memory, name)) for name in BY_HAND}
        for judge in (before, after)
    )
    return MemoryDiff(
        judge=after.name,
        before=versions[0],
        after=versions[1],
        settings=tuple(
            Change(name=n, before=old[n], after=new[n]) for n in old if old[n] != new[n]
        ),
        guidelines=tuple(_guideline_changes(before.memory, after.memory)),
        feedback=tuple(_feedback_changes(before.memory, after.memory)),
    )


def _guideline_changes(before: Memory, after: Memory) -> Iterator[Change]:
    old, new = (
        {guideline.id: guideline for guideline in memory.guidelines} for memory in (before, after)
    )
    for name in sorted(old.keys() | new.keys(), key=guideline_number):
        was, now = old.get(name), new.get(name)
        state, other = was and before.status(was), now and after.status(now)
        if (was, state) != (now, other):
            yield Change(name=name, before=was, after=now, state_before=state, state_after=other)


def _feedback_changes(before: Memory, after: Memory) -> Iterator[Change]:
    old, new = ({entry.key: entry for entry in memory.ledger()} for memory in (before, after))
    for key in sorted(
        {annotation.key for memory in (before, after) for annotation in memory.annotations()}
    ):
        was, now, entry, other = (
            before.annotation(key),
            after.annotation(key),
            old.get(key),
            new.get(key),
        )
        same_words = was and now and msgspec.structs.replace(was, outcome=now.outcome) == now
        if not (
            same_words
            and entry
            and other
            and (entry.state, entry.reason) == (other.state, other.reason)
        ):
            yield Change(
                name=str(key), before=was, after=now, state_before=entry, state_after=other
            )
