"""What changed between two versions of a judge, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator

from memalign.registry import FeedbackChange, GuidelineChange, MemoryDiff
from memalign.types import Check
from memalign.values import value_text

__all__ = ["diff_text"]


def diff_text(diff: MemoryDiff) -> str:
    """The settings, guidelines and feedback that differ: `+` was added, `-` went, `~` is different."""
    lines = [f"{diff.judge}: version {diff.before} -> {diff.after}"]
    if not diff:
        lines.append("  no difference")
    for setting in diff.settings:
        lines += [f"  {setting.name}:", f"    - {_short(setting.before)}", f"    + {_short(setting.after)}"]
    for guideline in diff.guidelines:
        lines += _guideline_lines(guideline)
    for change in (*diff.added, *diff.removed, *diff.reworded, *diff.states):
        lines += _feedback_lines(change)
    return "\n".join(lines)


def _feedback_lines(change: FeedbackChange) -> Iterator[str]:
    before, after = change.entry_before, change.entry_after
    if change.before is None or change.after is None:
        entry, sign = after or before, "+" if change.before is None else "-"
        yield f"  {sign} {change.key}: {_words(change)} [{entry.state if entry else ''}]"
    elif not {"value", "rationale", "meta"}.isdisjoint(change.fields):
        yield f"  ~ {change.key}: {_words(change, old=True)}"
        yield f"    now: {_words(change)} [{after.state if after else ''}]"
    elif before and after:
        yield f"  ~ {change.key}: {before.state} -> {after.state}"


def _words(change: FeedbackChange, *, old: bool = False) -> str:
    annotation = change.before if old or change.after is None else change.after
    if annotation is None:
        return ""
    value = None if annotation.value is None else value_text(annotation.value)
    return " · ".join(part for part in (value, annotation.rationale) if part)


def _guideline_lines(change: GuidelineChange) -> list[str]:
    before, after = change.before, change.after
    if before is None and after is not None:
        source = ", ".join(map(str, after.supported_by)) or after.origin
        lines = [f"  + {change.id} {after.text}  [{change.status_after}, from {source}]"]
    elif after is None and before is not None:
        lines = [f"  - {change.id} {before.text}"]
    elif before is None or after is None:
        return []
    elif before.text != after.text:
        lines = [f"  ~ {change.id} {before.text}", f"    now: {after.text}  [{after.origin}]"]
    else:
        fields = [name for name in change.fields if name != "checks"] or ["checks"] * bool(change.fields)
        both = {"status": (change.status_before, change.status_after)}
        parts = [
            f"{name}: {' -> '.join(map(_short, both.get(name) or (getattr(before, name), getattr(after, name))))}"
            for name in fields
        ]
        lines = [f"  ~ {change.id} {'the checks' if fields == ['checks'] else '; '.join(parts)}"]
    if after is not None:  # with a guideline its checks go
        lines += [f"    - {_question(check)}" for check in change.checks_removed]
        lines += [f"    + {_question(check)}" for check in change.checks_added]
    return lines


def _question(check: Check) -> str:
    value = "" if check.value is None else f" speaks for {value_text(check.value)}"
    return f"{check.question}  [{check.answer}{value}]"


def _short(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return value_text(value) if isinstance(value, bool) else str(value)
