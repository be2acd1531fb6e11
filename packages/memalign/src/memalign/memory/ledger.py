"""Where each piece of feedback ended. Derived from guidelines and labels, and stored nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from memalign.types import FeedbackKey, Guideline, LedgerState
from memalign.values import value_text

if TYPE_CHECKING:
    from memalign.memory.model import Annotation, Memory

__all__ = ["LedgerEntry", "ledger_entries"]

TIE = "somebody another one: a tie, in which none counts until somebody settles it (memalign edit NAME --authority WHO)"


class LedgerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Where one piece of feedback ended: exactly one state, the reason, and the guidelines that carry it."""

    key: FeedbackKey
    state: LedgerState
    reason: str = ""
    guideline_ids: tuple[str, ...] = ()


def ledger_entries(memory: Memory) -> dict[FeedbackKey, LedgerEntry]:
    """The entry of every annotation in memory, and of what was taken back."""
    carriers: dict[FeedbackKey, list[Guideline]] = {}
    for guideline in memory.guidelines:
        for key in guideline.supported_by:
            carriers.setdefault(key, []).append(guideline)
    entries = {
        stone.key: LedgerEntry(key=stone.key, state=stone.state, reason=stone.reason) for stone in memory.tombstones
    }
    for case in memory.cases:
        label = memory.label(case)
        for annotation in case.annotations:
            if annotation.value is not None and annotation.value != label:
                # Not the label that counts instead: it may be another person's free text, and outlive their feedback here.
                reason = f"this annotation gave {value_text(annotation.value)}, and "
                reason += TIE if label is None else "another label counts"
                entries[annotation.key] = LedgerEntry(key=annotation.key, state="disputed", reason=reason)
            elif carrying := carriers.get(annotation.key):
                entries[annotation.key] = _carried(memory, annotation, carrying)
            else:
                entries[annotation.key] = _uncarried(annotation)
    return {key: entries[key] for key in sorted(entries)}


def _carried(memory: Memory, annotation: Annotation, carrying: Sequence[Guideline]) -> LedgerEntry:
    """Learned: a guideline was written from it. Merged: one that was there says it. Rejected: its rule broke a locked case."""
    shown = {guideline.id: memory.face(guideline) for guideline in carrying}
    counting = [guideline for guideline in carrying if shown[guideline.id].barred_for is None]
    ids = tuple(dict.fromkeys(memory.successor(guideline) or guideline.id for guideline in carrying))
    state: LedgerState
    if not counting:
        state, reason = "rejected", f"its rule {shown[carrying[0].id].id} broke a locked case"
    elif any(memory.status(g) != "superseded" and annotation.key in g.exposed_to for g in counting):
        outcome = annotation.outcome
        state, reason = "learned", outcome.reason if outcome is not None and outcome.kind == "taught" else ""
    else:
        state, reason = "merged", f"{shown[counting[0].id].id} already says it"
    return LedgerEntry(key=annotation.key, state=state, reason=reason, guideline_ids=ids)


_STATES: Mapping[str, LedgerState] = {"example": "learned", "refused": "rejected", "waiting": "pending"}


def _uncarried(annotation: Annotation) -> LedgerEntry:
    outcome = annotation.outcome
    if outcome is None or outcome.kind == "taught":
        return LedgerEntry(key=annotation.key, state="pending", reason="not yet distilled")
    return LedgerEntry(key=annotation.key, state=_STATES[outcome.kind], reason=outcome.reason)
