"""What changed from one version of a judge to another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memalign.judge import Judge
from memalign.memory import Annotation
from memalign.memory.label_policy import POLICY
from memalign.registry.judge_rows import SETTINGS, Codec, Contents, RowKey, decoded
from memalign.types import Check, FeedbackKey, Guideline, as_json, guideline_number
from memalign.values import Value, value_text

__all__ = [
    "COMPARED",
    "FeedbackChange",
    "GuidelineChange",
    "MemoryDiff",
    "SettingChange",
    "compare",
    "compare_rows",
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
    """One guideline and its checks before and after; None where it was not there. `fields` are those that differ."""

    id: str

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


def _only_in(one: Guideline | None, other: Guideline | None) -> tuple[Check, ...]:
    known = () if other is None else other.checks
    return () if one is None else tuple(check for check in one.checks if check not in known)


@dataclass(frozen=True, kw_only=True)
class FeedbackChange(_Change[Annotation]):
    """One piece of feedback before and after; None where it was not there. `fields` are those that differ."""

    key: FeedbackKey

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that differ; `example_only` goes with the state."""
        return tuple(name for name in super().fields if name != "example_only")


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
        lists = ("guidelines", "added", "removed", "reworded", "states")
        return {**as_json(self), **{name: [change.to_dict() for change in getattr(self, name)] for name in lists}}


_BY_HAND = ("policy", "authority", "locks")
"""What of a memory a person sets; the rest follows from what was learned."""
COMPARED = ("judge", "memory", "guideline", "annotation")
"""The kinds of rows that differences are found in."""


def compare(before: Judge, after: Judge) -> MemoryDiff:
    """What changed from one judge to another."""
    codec = Codec()
    return compare_rows(after.name, codec.contents(before), codec.contents(after))


def compare_rows(name: str, before: Contents, after: Contents, *, versions: tuple[int, int] = (0, 0)) -> MemoryDiff:
    """What changed from one version's rows to another's. Only rows that differ are decoded."""
    changed = [row for row in before.keys() | after.keys() if before.get(row) != after.get(row)]

    def both(kind: str) -> Iterator[tuple[Any, Any]]:
        for row in changed:
            if row[0] == kind:
                old, new = (None if (body := of.get(row)) is None else decoded(kind, body) for of in (before, after))
                yield old, new

    named = [*(("judge", field) for field in SETTINGS), *(("memory", field) for field in _BY_HAND)]
    settings = [SettingChange(name=row[1], before=_setting(before, row), after=_setting(after, row)) for row in named]
    guidelines = [GuidelineChange(id=(new or old).id, before=old, after=new) for old, new in both("guideline")]
    feedback = sorted(
        (FeedbackChange(key=(new or old).key, before=old, after=new) for old, new in both("annotation")),
        key=lambda each: each.key,
    )
    reworded = [each for each in feedback if not {"value", "rationale", "meta"}.isdisjoint(each.fields)]
    return MemoryDiff(
        judge=name,
        before=versions[0],
        after=versions[1],
        settings=tuple(each for each in settings if each.before != each.after),
        guidelines=tuple(
            sorted((g for g in guidelines if g.before != g.after), key=lambda each: guideline_number(each.id))
        ),
        added=tuple(each for each in feedback if each.before is None),
        removed=tuple(each for each in feedback if each.after is None),
        reworded=tuple(reworded),
        states=tuple(each for each in feedback if each.fields and each not in reworded),
    )


def _setting(contents: Contents, row: RowKey) -> Any:
    body = contents.get(row)
    if body is not None:
        return decoded(row[0], body)
    return {"columns": {}, "policy": list(POLICY)}.get(row[1], [])  # which have a row where there are any


def summary(before: Contents, after: Contents) -> str:
    """One line of counts, setting names and guideline ids: what may be kept for ever, whatever is erased later."""
    parts = [
        f"{name} changed"
        for kind, name in after | before
        if (kind == "judge" or (kind == "memory" and name in _BY_HAND))
        and before.get((kind, name), b"") != after.get((kind, name), b"")
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
        source = ", ".join(map(str, after.supported_by)) or after.origin
        lines = [f"  + {change.id} {after.text}  [{after.status}, from {source}]"]
    elif after is None and before is not None:
        lines = [f"  - {change.id} {before.text}"]
    elif before is None or after is None:
        return []
    elif before.text != after.text:
        lines = [f"  ~ {change.id} {before.text}", f"    now: {after.text}  [{after.origin}]"]
    else:
        fields = [name for name in change.fields if name != "checks"] or ["checks"] * bool(change.fields)
        shown = [f"{name}: {_short(getattr(before, name))} -> {_short(getattr(after, name))}" for name in fields]
        lines = [f"  ~ {change.id} {'the checks' if fields == ['checks'] else '; '.join(shown)}"]
    if after is not None:  # with a guideline that is gone its checks are
        lines += [f"    - {_asked(check)}" for check in change.checks_removed]
        lines += [f"    + {_asked(check)}" for check in change.checks_added]
    return lines


def _asked(check: Check) -> str:
    speaks = "" if check.value is None else f" speaks for {value_text(check.value)}"
    return f"{check.question}  [{check.answer}{speaks}]"


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return value_text(value) if isinstance(value, bool) else str(value)


def _said(value: Value | None, rationale: str | None) -> str:
    return " · ".join(part for part in (None if value is None else value_text(value), rationale) if part)
