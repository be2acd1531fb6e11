"""What changed from one version of a judge to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.judge import Judge
from memalign.memory import Annotation
from memalign.registry.store import Contents, settings_of
from memalign.types import FeedbackKey, Guideline, as_json, guideline_number
from memalign.values import Value

if TYPE_CHECKING:
    import msgspec

__all__ = ["FeedbackChange", "GuidelineChange", "MemoryDiff", "SettingChange", "compare", "summary"]


@dataclass(frozen=True, kw_only=True)
class GuidelineChange:
    """One guideline before and after; None where it was not there. `fields` are those that differ."""

    id: str
    before: Guideline | None
    after: Guideline | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that differ, where the guideline is in both versions."""
        return _differing(self.before, self.after)


@dataclass(frozen=True, kw_only=True)
class FeedbackChange:
    """One piece of feedback before and after; None where it was not there."""

    key: FeedbackKey
    before: Annotation | None
    after: Annotation | None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that differ, where the feedback is in both versions."""
        return _differing(self.before, self.after)


@dataclass(frozen=True, kw_only=True)
class SettingChange:
    """One setting of the judge (instructions, model, …) before and after."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, kw_only=True)
class MemoryDiff:
    """What changed between two versions. Reads as text (`str`), and as JSON values (`to_dict`).

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

    def __str__(self) -> str:
        lines = [f"{self.judge}: version {self.before} -> {self.after}"]
        if not self:
            lines.append("  no difference")
        for setting in self.settings:
            lines += [f"  {setting.name}:", f"    - {_short(setting.before)}", f"    + {_short(setting.after)}"]
        for guideline in self.guidelines:
            lines += _guideline_lines(guideline)
        for mark, changes in (("+", self.added), ("-", self.removed)):
            for change in changes:
                annotation = change.after or change.before
                if annotation is not None:
                    lines.append(
                        f"  {mark} {change.key}: {_said(annotation.value, annotation.rationale)} [{annotation.state}]"
                    )
        for change in self.reworded:
            if change.before is not None and change.after is not None:
                lines.append(f"  ~ {change.key}: {_said(change.before.value, change.before.rationale)}")
                lines.append(f"    now: {_said(change.after.value, change.after.rationale)} [{change.after.state}]")
        for change in self.states:
            if change.before is not None and change.after is not None:
                lines.append(f"  ~ {change.key}: {change.before.state} -> {change.after.state}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "judge": self.judge,
            "before": self.before,
            "after": self.after,
            "settings": as_json(self.settings),
            "guidelines": [as_json(g) | {"fields": list(g.fields)} for g in self.guidelines],
            **{
                name: [as_json(c) | {"fields": list(c.fields)} for c in changes]
                for name, changes in (
                    ("added", self.added),
                    ("removed", self.removed),
                    ("reworded", self.reworded),
                    ("states", self.states),
                )
            },
        }


def compare(before: Judge, after: Judge, *, versions: tuple[int, int] = (0, 0)) -> MemoryDiff:
    """What changed from one judge to another."""
    old, new = _settings(before), _settings(after)
    rules = {g.id: g for g in before.memory.guidelines}, {g.id: g for g in after.memory.guidelines}
    annotations = {v.key: v for v in before.memory.annotations()}, {v.key: v for v in after.memory.annotations()}
    both = [
        FeedbackChange(key=key, before=annotations[0][key], after=annotations[1][key])
        for key in sorted(annotations[0].keys() & annotations[1].keys())
        if annotations[0][key] != annotations[1][key]
    ]
    said = {change.key: bool({"value", "rationale", "meta"} & set(change.fields)) for change in both}
    return MemoryDiff(
        judge=after.name,
        before=versions[0],
        after=versions[1],
        settings=tuple(SettingChange(name=k, before=old[k], after=new[k]) for k in old if old[k] != new[k]),
        guidelines=tuple(
            GuidelineChange(id=name, before=rules[0].get(name), after=rules[1].get(name))
            for name in sorted(rules[0].keys() | rules[1].keys(), key=guideline_number)
            if rules[0].get(name) != rules[1].get(name)
        ),
        added=tuple(
            FeedbackChange(key=k, before=None, after=annotations[1][k])
            for k in sorted(annotations[1].keys() - annotations[0])
        ),
        removed=tuple(
            FeedbackChange(key=k, before=annotations[0][k], after=None)
            for k in sorted(annotations[0].keys() - annotations[1])
        ),
        reworded=tuple(change for change in both if said[change.key]),
        states=tuple(change for change in both if not said[change.key]),
    )


_BY_HAND = ("policy", "authority", "locks")
"""What of a memory a person sets; the rest follows from what was learned."""


def _settings(judge: Judge) -> dict[str, Any]:
    return settings_of(judge) | {name: list(getattr(judge.memory, name)) for name in _BY_HAND}


def summary(before: Contents, after: Contents) -> str:
    """One line of counts, setting names and guideline ids: what may be kept for ever, whatever is erased later."""
    parts = [
        f"{name} changed"
        for kind, name in after
        if (kind == "judge" or (kind == "memory" and name in _BY_HAND))
        and before.get((kind, name), b"") != after[kind, name]
    ]
    if not before:
        parts = []
    for kind, what in (("annotation", "feedback"), ("guideline", "guideline")):
        old = {key: body for (of, key), body in before.items() if of == kind}
        new = {key: body for (of, key), body in after.items() if of == kind}
        for verb, names in (
            ("added", new.keys() - old.keys()),
            ("changed", {key for key in new.keys() & old.keys() if old[key] != new[key]}),
            ("removed", old.keys() - new.keys()),
        ):
            if names:
                plural = "s" if kind == "guideline" and len(names) > 1 else ""
                shown = f" ({', '.join(sorted(names, key=lambda g: int(g[1:]))[:8])})" if kind == "guideline" else ""
                parts.append(f"{len(names)} {what}{plural} {verb}{shown}")
    return ", ".join(parts) or ("created" if not before else "bookkeeping only")


def _guideline_lines(change: GuidelineChange) -> list[str]:
    before, after = change.before, change.after
    if before is None and after is not None:
        return [
            f"  + {change.id} {after.text}  [{after.status}, from {', '.join(map(str, after.supported_by)) or after.origin}]"
        ]
    if after is None and before is not None:
        return [f"  - {change.id} {before.text}"]
    if before is None or after is None:
        return []
    if before.text != after.text:
        return [f"  ~ {change.id} {before.text}", f"    now: {after.text}  [{after.origin}]"]
    shown = [f"{name}: {_short(getattr(before, name))} -> {_short(getattr(after, name))}" for name in change.fields]
    return [f"  ~ {change.id} {'; '.join(shown)}"]


def _short(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)


def _said(value: Value | None, rationale: str | None) -> str:
    return " · ".join(part for part in (None if value is None else str(value), rationale) if part)


def _differing(before: msgspec.Struct | None, after: msgspec.Struct | None) -> tuple[str, ...]:
    if before is None or after is None:
        return ()
    return tuple(name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name))
