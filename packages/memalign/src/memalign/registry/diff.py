"""What changed from one version of a judge to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memalign.judge import Judge
from memalign.memory import Annotation, LedgerEntry, Memory
from memalign.memory.status import GuidelineStatus
from memalign.registry.judge_rows import Contents, settings_of
from memalign.types import Check, FeedbackKey, Guideline, as_json, guideline_number

__all__ = [
    "FeedbackChange",
    "GuidelineChange",
    "MemoryDiff",
    "SettingChange",
    "compare",
    "summary",
]


C = TypeVar("C", Guideline, Annotation)


@dataclass(frozen=True, kw_only=True)
class _Change(Generic[C]):
    before: C | None
    after: C | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that differ; none where it is in one version only."""
        before, after = self.before, self.after
        if before is None or after is None:
            return ()
        return tuple(name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name))

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {**as_json(self), "fields": list(self.fields)}


@dataclass(frozen=True, kw_only=True)
class GuidelineChange(_Change[Guideline]):
    """One guideline, its checks and its status before and after; None where it was not there."""

    id: str
    status_before: GuidelineStatus | None = None
    status_after: GuidelineStatus | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """What differs: the guideline's own fields, and `status`; none where it is in one version only."""
        differs = self.before and self.after and self.status_before != self.status_after
        return (*super().fields, *(("status",) if differs else ()))

    @property
    def checks_added(self) -> tuple[Check, ...]:
        """The checks that only the guideline as it is after has."""
        return _only_in(self.after, self.before)

    @property
    def checks_removed(self) -> tuple[Check, ...]:
        """The checks that only the guideline as it was before had."""
        return _only_in(self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        changed = {"checks_added": self.checks_added, "checks_removed": self.checks_removed}
        return {**super().to_dict(), **{name: as_json(checks) for name, checks in changed.items() if checks}}


def _only_in(guideline: Guideline | None, without: Guideline | None) -> tuple[Check, ...]:
    checks, common = (() if entry is None else entry.checks for entry in (guideline, without))
    return tuple(check for check in checks if check not in common)


@dataclass(frozen=True, kw_only=True)
class FeedbackChange(_Change[Annotation]):
    """One piece of feedback and where it ended, before and after; None where it was not there."""

    key: FeedbackKey
    entry_before: LedgerEntry | None = None
    entry_after: LedgerEntry | None = None

    @property
    def fields(self) -> tuple[str, ...]:
        """What differs: the annotation's own fields, `state` and `reason`; none where it is in one version only."""
        own = tuple(name for name in super().fields if name != "outcome")
        before, after = self.entry_before, self.entry_after
        if self.before is None or self.after is None or before is None or after is None:
            return own
        return (*own, *(name for name in ("state", "reason") if getattr(before, name) != getattr(after, name)))


@dataclass(frozen=True, kw_only=True)
class SettingChange:
    """One setting of the judge (instructions, model, …) before and after."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class MemoryDiff:
    """What changed between two versions.

    A change without `before` was added, one without `after` was removed. `states` are pieces of feedback that say the
    same as before and ended elsewhere in the ledger, or for another reason; `reworded` say something else.
    """

    judge: str
    before: int
    after: int
    settings: tuple[SettingChange, ...] = ()
    guidelines: tuple[GuidelineChange, ...] = ()
    added: tuple[FeedbackChange, ...] = ()
    removed: tuple[FeedbackChange, ...] = ()
    reworded: tuple[FeedbackChange, ...] = ()
    states: tuple[FeedbackChange, ...] = ()

    def __bool__(self) -> bool:
        return any((self.settings, self.guidelines, self.added, self.removed, self.reworded, self.states))

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        lists = ("guidelines", "added", "removed", "reworded", "states")
        return {**as_json(self), **{name: [change.to_dict() for change in getattr(self, name)] for name in lists}}


_BY_HAND = ("authority", "locks")
"""What of a memory a person sets; the rest follows from what was learned."""


def compare(before: Judge, after: Judge, *, versions: tuple[int, int] = (0, 0)) -> MemoryDiff:
    """What changed from one judge to another, which may be `versions` of it."""
    old, new = _settings(before), _settings(after)
    feedback = [
        change
        for change in _feedback_changes(before.memory, after.memory)
        if change.fields or not (change.before and change.after)
    ]
    reworded = [change for change in feedback if not {"value", "rationale", "meta"}.isdisjoint(change.fields)]
    return MemoryDiff(
        judge=after.name,
        before=versions[0],
        after=versions[1],
        settings=tuple(SettingChange(name=n, before=old[n], after=new[n]) for n in old if old[n] != new[n]),
        guidelines=tuple(_guideline_changes(before.memory, after.memory)),
        added=tuple(change for change in feedback if change.before is None),
        removed=tuple(change for change in feedback if change.after is None),
        reworded=tuple(reworded),
        states=tuple(change for change in feedback if change.fields and change not in reworded),
    )


def _settings(judge: Judge) -> dict[str, Any]:
    return settings_of(judge) | {name: list(getattr(judge.memory, name)) for name in _BY_HAND}


def _guideline_changes(before: Memory, after: Memory) -> Iterator[GuidelineChange]:
    old, new = ({guideline.id: guideline for guideline in memory.guidelines} for memory in (before, after))
    for name in sorted(old.keys() | new.keys(), key=guideline_number):
        was, now = old.get(name), new.get(name)
        change = GuidelineChange(
            id=name,
            before=was,
            after=now,
            status_before=None if was is None else before.status(was),
            status_after=None if now is None else after.status(now),
        )
        if change.fields or was is None or now is None:
            yield change


def _feedback_changes(before: Memory, after: Memory) -> Iterator[FeedbackChange]:
    old, new = ({entry.key: entry for entry in memory.ledger()} for memory in (before, after))
    for key in sorted(old.keys() | new.keys()):
        was, now = before.annotation(key), after.annotation(key)
        if was is not None or now is not None:
            yield FeedbackChange(key=key, before=was, after=now, entry_before=old.get(key), entry_after=new.get(key))


def summary(before: Contents, after: Contents) -> str:
    """One line of counts, setting names and guideline ids: what may be kept for ever, whatever is erased later."""
    changed = [row for row in after | before if before.get(row) != after.get(row)]
    parts = [
        f"{name} changed"
        for kind, name in (changed if before else ())
        if kind == "judge" or (kind == "memory" and name in _BY_HAND)
    ]
    for kind, what in (("annotation", "feedback"), ("guideline", "guideline")):
        verbs: dict[str, list[str]] = {"added": [], "changed": [], "removed": []}
        for row in changed:
            if row[0] == kind:
                verb = "added" if row not in before else "changed" if row in after else "removed"
                verbs[verb].append(row[1])
        for verb, names in verbs.items():
            if names:
                plural = "s" if kind == "guideline" and len(names) > 1 else ""
                examples = f" ({', '.join(sorted(names, key=guideline_number)[:8])})" if kind == "guideline" else ""
                parts.append(f"{len(names)} {what}{plural} {verb}{examples}")
    return ", ".join(parts) or ("created" if not before else "bookkeeping only")
