"""Guidelines in words: where each stands, what people did to it, and why one of two counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memalign.judge import Judge
    from memalign.memory import Memory
    from memalign.types import Guideline

__all__ = ["by_people", "consequences", "legend", "precedence_words", "why_it_counts", "word"]


def precedence_words(guideline: Guideline, memory: Memory | None = None) -> str:
    """Where a guideline stands, such as `superseded: G2 says the same`; "" for one that is plainly in force.

    With `memory`, one that was replaced by a revision is told from one that says the same.
    """
    from memalign.memory.precedence import LOCK, left_out

    by = guideline.status_by or ""
    match guideline.status:
        case "active":
            words = ""
        case "demoted":
            words = "demoted: over the budget"
        case "superseded" if guideline.overridden_by is not None:
            words = f"superseded: overridden by {guideline.overridden_by}, which contradicts it"
        case "superseded":
            verb = "revises it" if memory is not None and guideline.id in _revised(memory) else "says the same"
            words = f"superseded: {guideline.superseded_by} {verb}"
        case _ if by.startswith(LOCK):
            words = f"left out by checks: it broke locked case {by.removeprefix(LOCK)}"
        case _ if left_out(guideline):
            words = "left out by checks: it made verdicts worse"
        case _:
            words = f"retired by {by}" if by else "retired: a person retired the same words"
    pinned = f"pinned by {by}" if by and guideline.status != "retired" else "pinned"
    return ", ".join(filter(None, (words, pinned if guideline.pinned else "")))


def _revised(memory: Memory) -> frozenset[str]:
    from memalign.memory.precedence import revised

    return revised(memory.guidelines, memory.relations)


def legend(name: str, guidelines: Sequence[Guideline], memory: Memory) -> list[str]:
    """What can be done about guidelines that are not in force, a line for each way of not being it."""
    from memalign.memory.precedence import left_out

    lines = []
    if any(g.status == "demoted" for g in guidelines):
        room = f" of {memory.guideline_tokens:,} tokens" if memory.guideline_tokens is not None else ""
        lines.append(f"demoted: over the budget{room}; shown where a similar case calls for it; --pin brings it back")
    if any(g.status == "superseded" for g in guidelines):
        lines.append("superseded: steps in when the other one goes")
    if left := [g.id for g in guidelines if left_out(g)]:
        lines.append(f"left out by checks: memalign guideline {name} {left[0]} --restore brings it back all the same")
    return lines


def by_people(guideline: Guideline) -> str:
    """What people did to a guideline, such as `text by ana, pinned by ben`; "" when nobody did anything."""
    from memalign.memory.precedence import left_out

    by = guideline.status_by
    found = [] if guideline.origin == "distilled" else [f"text by {guideline.origin}"]
    if guideline.pinned:
        found.append(f"pinned by {by}" if by and guideline.status != "retired" else "pinned")
    if guideline.status == "retired" and not left_out(guideline):
        found.append(f"retired by {by}" if by else "retired")
    return ", ".join(found)


def why_it_counts(memory: Memory, winner: Guideline, loser: Guideline) -> str:
    """Why of two guidelines that contradict each other the one counts, by the rules that `memory.precedence` follows."""
    from memalign.memory.label_policy import policy_strength

    if winner.pinned and not loser.pinned:
        return f"it is {precedence_words(winner) or 'pinned'}"
    if winner.origin != "distilled" and loser.origin == "distilled":
        return f"{winner.origin} wrote it"
    behind = [[v for key in memory.sources_of(g) if (v := memory.annotation(key))] for g in (winner, loser)]
    weights = zip(
        memory.policy,
        *(policy_strength(annotations, memory.authority, memory.policy) for annotations in behind),
        strict=True,
    )
    decided = next((rule for rule, ours, theirs in weights if ours > theirs), None)
    if decided == "authority":
        who = next(
            source for source in memory.authority if any(annotation.source == source for annotation in behind[0])
        )
        return f"by authority: {who} stands behind it"
    if decided == "majority":
        return f"by majority: {len(behind[0])} pieces of feedback stand behind it, {len(behind[1])} behind the other"
    if decided == "recency":
        return "by recency: the latest feedback stands behind it"
    return "nothing else tells them apart, and it is the older one"


def consequences(before: Judge, after: Judge, *, but: str = "") -> tuple[dict[str, Any], list[str]]:
    """What a change by hand did to guidelines (`but` the one that was changed) and to the ledger: JSON values, lines."""
    from memalign.registry.diff import compare

    found = compare(before, after)
    rules = [each for each in found.guidelines if each.id != but]
    moved = [each for each in found.states if each.before and each.after and each.before.state != each.after.state]
    lines = []
    for rule in rules:
        if rule.after is None:
            lines.append(f"{rule.id} went: feedback behind it does not count any more")
        elif "status" in rule.fields:
            lines.append(f"{rule.id} now: {precedence_words(rule.after, after.memory) or 'in force'}")
    for each in moved:
        if each.before is not None and each.after is not None:
            why = f" ({each.after.reason})" if each.after.reason else ""
            lines.append(f"{each.key}: {each.before.state} -> {each.after.state}{why}")
    if any(each.after and each.after.state == "pending" for each in moved):
        lines.append(f"what is pending is learned by: memalign align {after.name}")
    data = found.to_dict()
    states = [
        {"key": each.key, "before": each.before.state, "after": each.after.state, "reason": each.after.reason}
        for each in moved
        if each.before is not None and each.after is not None
    ]
    return {"guidelines": [each for each in data["guidelines"] if each["id"] != but], "feedback": states}, lines


def word(value: Any) -> str:
    """A label as files write it: `true`, `4`, `Refuted`."""
    from memalign.values import value_text

    return value_text(value)
