"""Guidelines in words: the status of each, and what people did to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memalign.cli.output import label_text, listed, table

if TYPE_CHECKING:
    from rich.table import Table

    from memalign.judge import Judge
    from memalign.memory import Memory
    from memalign.registry import Saved
    from memalign.types import Check, Guideline

__all__ = [
    "by_people",
    "check_table",
    "check_words",
    "consequences",
    "guideline_table",
    "legend",
    "precedence_words",
]


def guideline_table(
    guidelines: Iterable[Guideline], memory: Memory | None = None, *, title: str | None = None, **shown: Any
) -> Table:
    """Id, status, text and origin of guidelines; of `memory`, where they are still in one. `shown` as for `table`."""
    rows = []
    for guideline in guidelines:
        origin = "" if guideline.origin == "distilled" else f"by {guideline.origin}"
        source = "; ".join(filter(None, (origin, listed(guideline.supported_by))))
        in_force = "in force" if memory is not None and guideline.status == "active" else ""
        status = ", ".join(filter(None, (in_force, precedence_words(guideline, memory))))
        rows.append((guideline.id, status, guideline.text, source))
    if not any(status for _, status, _, _ in rows):
        plain = [(name, text, source) for name, _, text, source in rows]
        return table(("id", "guideline", "from"), plain, title=title, **shown)
    return table(("id", "status", "guideline", "from"), rows, title=title, **shown)


def check_table(guidelines: Iterable[Guideline], judge: Judge, *, title: str = "Checks", **shown: Any) -> list[Table]:
    """The checks of guidelines of `judge`, each with what a yes speaks for; no table where there are none."""
    rows = [(each.id, check.question, check_words(check, judge)) for each in guidelines for check in each.checks]
    return [table(("id", "check", "a yes speaks"), rows, title=title, **shown)] if rows else []


def check_words(check: Check, judge: Judge) -> str:
    """What a yes to a check speaks for, such as `for false`, or `against 5`."""
    if isinstance(check.value, bool):
        return f"for {label_text(check.value == (check.answer == 'yes'))}"
    speaks = "for" if check.answer == "yes" else "against"
    if check.value is not None:
        return f"{speaks} {label_text(check.value)}"
    from memalign.content import sides_of

    sided = any(sides_of(case.example.content, judge.value_type.choices) for case in judge.memory.cases)
    return f"{speaks} a side" if sided else "as the labels tell"


def precedence_words(guideline: Guideline, memory: Memory | None = None) -> str:
    """The status of a guideline, such as `superseded: G2 says the same`; "" for one that is plainly in force.

    With `memory`, a revision is told from a person's words in its place.
    """
    by = guideline.status_by
    match guideline.status:
        case "active":
            words = ""
        case "superseded":
            does = "says the same"
            if guideline.replaced_by is not None and guideline.replaced_by == guideline.superseded_by:
                winner = memory.guideline(guideline.replaced_by) if memory is not None else None
                does = "took its place" if winner is None or winner.origin != "distilled" else "revises it"
            words = f"superseded: {guideline.superseded_by} {does}"
        case _ if guideline.barred_for is not None:
            words = f"left out: it broke locked case {guideline.barred_for}"
        case _:
            words = f"retired by {by}" if by else "retired: a person retired the same words"
    pinned = f"pinned by {by}" if by and guideline.status != "retired" else "pinned"
    return ", ".join(filter(None, (words, pinned if guideline.pinned else "")))


def legend(name: str, guidelines: Sequence[Guideline]) -> list[str]:
    """What can be done about guidelines that are not in force, a line for each status."""
    lines = []
    if any(g.status == "superseded" for g in guidelines):
        lines.append("superseded: it comes back when the other guideline goes")
    if left := [g.id for g in guidelines if g.barred_for is not None]:
        lines.append(f"left out: to use it anyway, memalign guideline {name} {left[0]} --restore")
    return lines


def by_people(guideline: Guideline) -> str:
    """What people did to a guideline, such as `words by ana, pinned by ben`; "" when nobody did anything."""
    by = guideline.status_by
    found = [] if guideline.origin == "distilled" else [f"words by {guideline.origin}"]
    if guideline.pinned:
        found.append(f"pinned by {by}" if by and guideline.status != "retired" else "pinned")
    if guideline.status == "retired" and guideline.barred_for is None:
        found.append(f"retired by {by}" if by else "retired")
    return ", ".join(found)


def consequences(saved: Saved, *, but: str = "") -> tuple[dict[str, Any], list[str]]:
    """What a change by hand did to guidelines other than `but` and to the ledger: JSON values, lines."""
    from memalign.registry.diff import compare

    found = compare(saved.before, saved.judge)
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
            lines.append(f"{rule.id} now: {precedence_words(rule.after, saved.judge.memory) or 'in force'}")
    for key, old, new in moved:
        lines.append(f"{key}: {old.state} -> {new.state}{f' ({new.reason})' if new.reason else ''}")
    if any(new.state == "pending" for _, _, new in moved):
        lines.append(f"to learn what is pending: memalign align {saved.judge.name}")
    guidelines = [each for each in found.to_dict()["guidelines"] if each["id"] != but]
    states = [{"key": key, "before": old.state, "after": new.state, "reason": new.reason} for key, old, new in moved]
    return {"guidelines": guidelines, "feedback": states}, lines
