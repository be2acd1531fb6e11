"""Guidelines and their checks as people read them: tables, status, what people did."""

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


def guideline_table(
    guidelines: Iterable[Guideline], memory: Memory | None = None, *, title: str | None = None, **options: Any
) -> Table:
    """Id, status, text and origin of guidelines; of `memory`, where they are still in one. `options` as for `table`."""
    rows = []
    for guideline in guidelines:
        origin = "" if guideline.origin == "distilled" else f"by {guideline.origin}"
        source = "; ".join(filter(None, (origin, listed(guideline.supported_by))))
        rows.append((guideline.id, status_words(guideline, memory), guideline.text, source))
    if not any(status for _, status, _, _ in rows):
        plain = [(name, text, source) for name, _, text, source in rows]
        return table(("id", "guideline", "from"), plain, title=title, **options)
    return table(("id", "status", "guideline", "from"), rows, title=title, **options)


def guideline_values(guidelines: Iterable[Guideline], memory: Memory) -> list[dict[str, Any]]:
    """Guidelines of `memory` as JSON values, each with its status."""
    from memalign.types import as_json

    return [
        {**as_json(guideline), "pinned": guideline.pinned, "status": memory.status(guideline)}
        for guideline in guidelines
    ]


def check_table(guidelines: Iterable[Guideline], judge: Judge, *, title: str = "Checks", **options: Any) -> list[Table]:
    """The checks of guidelines of `judge`, each with what a yes counts for; no table where there are none."""
    rows = [(rule.id, check.question, check_words(check, judge)) for rule in guidelines for check in rule.checks]
    return [table(("id", "check", "a yes counts"), rows, title=title, **options)] if rows else []


def check_words(check: Check, judge: Judge) -> str:
    """What a yes to a check counts for, such as `for false`, or `against 5`."""
    if isinstance(check.value, bool):
        return f"for {label_text(check.value == (check.answer == 'yes'))}"
    side = "for" if check.answer == "yes" else "against"
    if check.value is not None:
        return f"{side} {label_text(check.value)}"
    from memalign.content import sides_of

    sided = any(sides_of(case.example.content, judge.value_type.choices) for case in judge.memory.cases)
    return f"{side} a side" if sided else "as the labels show"


def precedence_words(guideline: Guideline, memory: Memory | None = None) -> str:
    """The status of a guideline of `memory`, such as `superseded: G2 says the same`; "" for one in force.

    Without a memory, what people did to it alone.
    """
    words = ""
    if memory is not None and (successor := memory.successor(guideline)) is not None:
        does = "says the same"
        if guideline.replaced_by == successor:
            does = "revises it" if memory.guideline(successor).origin == "distilled" else "took its place"
        words = f"superseded: {successor} {does}"
    elif guideline.barred_for is not None:
        words = f"left out: it broke locked case {guideline.barred_for}"
    elif guideline.retired_by is not None:
        words = f"retired by {guideline.retired_by}"
    return ", ".join(filter(None, (words, f"pinned by {guideline.pinned_by}" if guideline.pinned else "")))


def status_words(guideline: Guideline, memory: Memory | None) -> str:
    """The same with `in force` for a guideline that is."""
    in_force = "in force" if memory is not None and memory.status(guideline) == "active" else ""
    return ", ".join(filter(None, (in_force, precedence_words(guideline, memory))))


def legend(name: str, guidelines: Sequence[Guideline], memory: Memory) -> list[str]:
    """What can be done about guidelines that are not in force, a line for each status."""
    lines = []
    if any(memory.successor(guideline) is not None for guideline in guidelines):
        lines.append("a superseded guideline comes back when the guideline that replaced it is forgotten")
    if barred := [rule.id for rule in guidelines if rule.barred_for is not None]:
        lines.append(f"to use a guideline that was left out: memalign guideline {name} {barred[0]} --restore")
    return lines


def by_people(guideline: Guideline) -> str:
    """What people did to a guideline, such as `words by ana, pinned by ben`; "" when nobody did anything."""
    written = "" if guideline.origin == "distilled" else f"words by {guideline.origin}"
    pinned = f"pinned by {guideline.pinned_by}" if guideline.pinned else ""
    retired = f"retired by {guideline.retired_by}" if guideline.retired_by is not None else ""
    return ", ".join(filter(None, (written, pinned, retired)))


def settling(name: str) -> str:
    """How a person settles comments that contradict each other."""
    return (
        f"to settle a conflict, withdraw one side (memalign unalign {name} KEY) or declare that "
        f"there is none (memalign edit {name} --dismiss KEY KEY)"
    )


def consequences(saved: Saved, *, but: str = "") -> tuple[dict[str, Any], list[str]]:
    """What a change by hand did to guidelines other than `but` and to the ledger: JSON values, lines."""
    from memalign.registry.diff import compare

    changes = compare(saved.before, saved.judge)
    rules = [rule for rule in changes.guidelines if rule.id != but]
    moved = [
        (change.key, change.entry_before, change.entry_after)
        for change in changes.states
        if change.entry_before and change.entry_after and change.entry_before.state != change.entry_after.state
    ]
    lines = []
    for rule in rules:
        if rule.after is None:
            lines.append(f"{rule.id} was forgotten: its feedback no longer counts")
        elif "status" in rule.fields:
            lines.append(f"{rule.id} is now {precedence_words(rule.after, saved.judge.memory) or 'in force'}")
    for key, old, new in moved:
        lines.append(f"{key}: {old.state} -> {new.state}{f' ({new.reason})' if new.reason else ''}")
    if any(new.state == "pending" for _, _, new in moved):
        lines.append(f"to learn the pending feedback: memalign align {saved.judge.name}")
    guidelines = [rule for rule in changes.to_dict()["guidelines"] if rule["id"] != but]
    states = [{"key": key, "before": old.state, "after": new.state, "reason": new.reason} for key, old, new in moved]
    return {"guidelines": guidelines, "feedback": states}, lines
