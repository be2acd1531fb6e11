"""A change that a person makes by hand to the latest version, and what else it changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.cli.common import latest_of, version_line
from memalign.cli.guideline_words import precedence_words

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.registry import Registry

__all__ = ["Changed", "change_by_hand"]


@dataclass(frozen=True, kw_only=True)
class Changed:
    """The judge after a change by hand: its version, and what changed beside, as JSON values and as lines."""

    judge: Judge
    version: int
    version_line: str
    consequences: dict[str, Any]
    lines: list[str]


def change_by_hand(
    registry: Registry, name: str, change: Callable[[Judge], Judge], *, action: str = "edit", but: str | None = None
) -> Changed:
    """Commit `change` as the next version. `but` is the guideline that it changes ("" for the newest)."""
    given: list[Judge] = []

    def watched(judge: Judge) -> Judge:
        given[:] = [judge]  # the last attempt's: somebody else may have committed in between
        return change(judge)

    before = latest_of(registry, name)
    judge = registry.update(name, watched, action)
    number = latest_of(registry, name)
    changed = judge.memory.guidelines[-1].id if but == "" else but
    others, lines = _consequences(given[0], judge, but=changed)
    line = version_line(name, before, number)
    return Changed(judge=judge, version=number, version_line=line, consequences=others, lines=lines)


def _consequences(before: Judge, after: Judge, *, but: str | None) -> tuple[dict[str, Any], list[str]]:
    """What a change did to guidelines other than `but` and to the ledger: JSON values, lines."""
    from memalign.registry.diff import compare

    found = compare(before, after)
    rules = [each for each in found.guidelines if each.id != but]
    moved = [
        (each.key, each.before, each.after)
        for each in found.states
        if each.before and each.after and each.before.state != each.after.state
    ]
    lines = []
    for rule in rules:
        if rule.after is None:
            lines.append(f"{rule.id} went: its feedback no longer counts")
        elif "status" in rule.fields:
            lines.append(f"{rule.id} now: {precedence_words(rule.after, after.memory) or 'in force'}")
    for key, old, new in moved:
        lines.append(f"{key}: {old.state} -> {new.state}{f' ({new.reason})' if new.reason else ''}")
    if any(new.state == "pending" for _, _, new in moved):
        lines.append(f"to learn what is pending: memalign align {after.name}")
    guidelines = [each for each in found.to_dict()["guidelines"] if each["id"] != but]
    states = [{"key": key, "before": old.state, "after": new.state, "reason": new.reason} for key, old, new in moved]
    return {"guidelines": guidelines, "feedback": states}, lines
