"""The guidelines in force, and the state of each piece of feedback: derived, never stored.

Nothing is thrown away: a superseded guideline becomes active again when its successor is removed.
So forgetting promotes another one without a model call, and the result depends on the guidelines
alone, never on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from memalign.content.normal import word_form
from memalign.types import FeedbackKey, Guideline, LedgerState
from memalign.values import Value, value_text

if TYPE_CHECKING:
    from memalign.memory.model import Annotation, Memory

__all__ = ["GuidelineStatus", "LedgerEntry", "ledger_entries", "successors"]

GuidelineStatus = Literal["active", "superseded", "retired"]


def successors(guidelines: Sequence[Guideline]) -> dict[str, str]:
    """Return the ids of superseded guidelines, each with that of the one that is shown instead.

    A guideline that was replaced is superseded as long as its successor exists. Of several in the
    same words one is active: a pinned one before others, then a person's, then the oldest. A
    retired guideline also supersedes a model's guideline in its words.

    Args:
        guidelines: All guidelines, by number.
    """
    ids = {guideline.id for guideline in guidelines}
    found = {}
    retired: dict[str, str] = {}
    active: dict[str, str] = {}
    for guideline in sorted(guidelines, key=_rank):
        name = guideline.id
        words = word_form(guideline.text)
        if guideline.retired_by is not None:
            retired.setdefault(words, name)
        elif guideline.replaced_by in ids:
            found[name] = guideline.replaced_by
        elif words in retired and not guideline.people:
            found[name] = retired[words]
        elif words in active:
            found[name] = active[words]
        else:
            active[words] = name
    return found


def _rank(guideline: Guideline) -> tuple[bool, bool, bool]:
    unpinned = guideline.pinned_by is None
    by_model = guideline.origin == "distilled"
    return guideline.retired_by is None, unpinned, by_model


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
            if annotation.value in (None, label):
                entries[key] = _entry(memory, annotation, carriers.get(key, []))
            else:
                entries[key] = _disputed(annotation, label)
    return {key: entries[key] for key in sorted(entries)}


def _disputed(annotation: Annotation, label: Value | None) -> LedgerEntry:
    # The other label is not named: it may be another person's free text, and outlive their
    # feedback.
    why = TIE if label is None else "another label counts"
    reason = f"this annotation gave {value_text(annotation.value)}, and {why}"
    return LedgerEntry(key=annotation.key, state="disputed", reason=reason)


def _entry(
    memory: Memory, annotation: Annotation, carrying: Sequence[Guideline]
) -> LedgerEntry:
    """Return the entry of an annotation whose label counts, or that has none.

    Args:
        memory: The memory.
        annotation: One of its annotations.
        carrying: The guidelines that the annotation supports. It is learned if one was written
            from it.
    """
    key = annotation.key
    outcome = annotation.outcome
    state: LedgerState = "pending"
    reason = "not yet distilled"
    shown = []
    if carrying:
        learned = False
        for guideline in carrying:
            shown.append(memory.successor(guideline) or guideline.id)
            superseded = memory.status(guideline) == "superseded"
            learned |= key in guideline.exposure and not superseded
        state = "merged"
        last = carrying[0]
        while successor := memory.successor(last):
            last = memory.guideline(successor)
        reason = f"{last.id} already says it"
        if learned:
            state = "learned"
            reason = ""
            if outcome is not None and outcome.kind == "taught":
                reason = outcome.reason
    elif outcome is not None and outcome.kind != "taught":
        state = outcome.kind
        reason = outcome.reason
    ids = tuple(dict.fromkeys(shown))
    return LedgerEntry(key=key, state=state, reason=reason, guideline_ids=ids)
