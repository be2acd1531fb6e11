"""The guidelines in force, and the state of each piece of feedback: derived, never stored.

Nothing is thrown away: a superseded guideline becomes active again when its successor is removed.
So forgetting promotes another one without a model call, and the result depends on the guidelines
alone, never on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from memalign.content.normal import word_form
from memalign.types import FeedbackKey, Guideline, LedgerState
from memalign.values import Value, value_text

if TYPE_CHECKING:
    from memalign.memory.model import Annotation, Memory

__all__ = ["GuidelineStatus", "LedgerEntry", "Standing", "ledger_entries", "standings"]

GuidelineStatus = Literal["active", "superseded", "retired"]


class Standing(NamedTuple):
    """Whether a guideline is in force, and the id of the one that is shown instead of it."""

    status: GuidelineStatus
    successor: str | None = None


def standings(guidelines: Sequence[Guideline]) -> dict[str, Standing]:
    """Return the standing of each guideline beside the others, by id.

    A guideline that a person retired is out of force. One that was replaced is superseded as long
    as its successor exists. Of several in the same words one is active: a pinned one before others,
    then a person's, then the oldest. A retired guideline also supersedes a model's guideline in its
    words.

    Args:
        guidelines: All guidelines, by number.
    """
    ids = {guideline.id for guideline in guidelines}
    result = {}
    retired: dict[str, str] = {}
    active: dict[str, str] = {}
    for guideline in sorted(guidelines, key=_rank):
        name = guideline.id
        words = word_form(guideline.text)
        shown = active.get(words)
        if not guideline.people:
            shown = retired.get(words, shown)
        if guideline.retired_by is not None:
            retired.setdefault(words, name)
            result[name] = Standing("retired")
        elif guideline.replaced_by in ids:
            result[name] = Standing("superseded", guideline.replaced_by)
        elif shown is None:
            active[words] = name
            result[name] = Standing("active")
        else:
            result[name] = Standing("superseded", shown)
    return result


def _rank(guideline: Guideline) -> tuple[bool, bool, bool]:
    unpinned = guideline.pinned_by is None
    by_model = guideline.origin == "distilled"
    return guideline.retired_by is None, unpinned, by_model


_STATES: Mapping[str, LedgerState] = {
    "example": "learned",
    "refused": "rejected",
    "waiting": "pending",
}
TIE = (
    "somebody another one: a tie, in which none counts until somebody settles it "
    "(memalign edit NAME --authority WHO)"
)


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one piece of feedback, the reason, and the guidelines that carry it."""

    key: FeedbackKey
    state: LedgerState
    reason: str = ""
    guideline_ids: tuple[str, ...] = ()


def ledger_entries(memory: Memory) -> dict[FeedbackKey, LedgerEntry]:
    """Return the entry of every annotation in memory, and of feedback that was taken back."""
    carriers: dict[FeedbackKey, list[Guideline]] = {}
    for guideline in memory.guidelines:
        for key in guideline.supported_by:
            carriers.setdefault(key, []).append(guideline)
    entries = {}
    for stone in memory.tombstones:
        entries[stone.key] = LedgerEntry(key=stone.key, state=stone.state)
    for case in memory.cases:
        label = memory.label(case)
        for annotation in case.annotations:
            key = annotation.key
            carrying = carriers.get(key, [])
            entries[key] = _entry(memory, annotation, label, carrying)
    return {key: entries[key] for key in sorted(entries)}


def _entry(
    memory: Memory,
    annotation: Annotation,
    label: Value | None,
    carrying: Sequence[Guideline],
) -> LedgerEntry:
    """Return the entry of one annotation.

    Args:
        memory: The memory.
        annotation: One of its annotations.
        label: The label that counts for the case.
        carrying: The guidelines that the annotation supports.
    """
    key = annotation.key
    value = annotation.value
    outcome = annotation.outcome
    if value is not None and value != label:
        # The other label is not named: it may be another person's free text, and outlive their
        # feedback.
        why = TIE if label is None else "another label counts"
        reason = f"this annotation gave {value_text(value)}, and {why}"
        return LedgerEntry(key=key, state="disputed", reason=reason)
    if carrying:
        return _carried(memory, annotation, carrying)
    if outcome is None or outcome.kind == "taught":
        return LedgerEntry(key=key, state="pending", reason="not yet distilled")
    state = _STATES[outcome.kind]
    return LedgerEntry(key=key, state=state, reason=outcome.reason)


def _carried(
    memory: Memory, annotation: Annotation, carrying: Sequence[Guideline]
) -> LedgerEntry:
    """Return the entry of feedback behind guidelines: learned if one was written from it."""
    key = annotation.key
    remark = annotation.outcome
    state: LedgerState = "merged"
    reason = f"{memory.face(carrying[0]).id} already says it"
    shown = []
    for guideline in carrying:
        shown.append(memory.successor(guideline) or guideline.id)
        superseded = memory.status(guideline) == "superseded"
        if key in guideline.exposure and not superseded:
            state = "learned"
            reason = ""
    if state == "learned" and remark is not None and remark.kind == "taught":
        reason = remark.reason
    ids = tuple(dict.fromkeys(shown))
    return LedgerEntry(key=key, state=state, reason=reason, guideline_ids=ids)
