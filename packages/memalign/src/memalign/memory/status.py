"""Which guidelines are in force, and where each piece of feedback ended. Both are derived, and stored nowhere.

Nothing is thrown away: what is not in force steps in when that goes which stands before it. So forgetting promotes
another without a model call, and the answer depends on the guidelines alone, never on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from memalign.cache import cached
from memalign.content.normal import word_form
from memalign.types import FeedbackKey, Guideline, LedgerState
from memalign.values import value_text

if TYPE_CHECKING:
    from memalign.memory.model import Annotation, Memory

__all__ = ["GuidelineStatus", "LedgerEntry", "Standing", "ledger_entries", "standings"]

GuidelineStatus = Literal["active", "superseded", "retired"]


class Standing(NamedTuple):
    """Whether a guideline is in force, and the id of the one that is shown instead of it."""

    status: GuidelineStatus
    successor: str | None = None


def standings(guidelines: Sequence[Guideline]) -> dict[str, Standing]:
    """The standing of each guideline beside the others, by id.

    What a person retired is out. One whose place another took is superseded by it, as long as that one exists. Of
    those that say the same, in the same words, one is active: a pinned one before others, then a person's, then the
    oldest. What a person retired supersedes what a model writes in its words.
    """
    replacing = {guideline.id for guideline in guidelines}
    result: dict[str, Standing] = {}
    retired: dict[str, str] = {}
    candidates: list[Guideline] = []
    for guideline in guidelines:
        if guideline.retired_by is not None:
            result[guideline.id] = Standing("retired")
            retired.setdefault(_words(guideline), guideline.id)
        elif guideline.replaced_by in replacing:
            result[guideline.id] = Standing("superseded", guideline.replaced_by)
        else:
            candidates.append(guideline)
    active: dict[str, str] = {}
    for guideline in sorted(
        candidates, key=lambda g: (not g.pinned, g.origin == "distilled", g.number)
    ):
        words = _words(guideline)
        out = (
            retired.get(words) if guideline.origin == "distilled" and not guideline.pinned else None
        )
        winner = out or active.setdefault(words, guideline.id)
        own = winner == guideline.id
        result[guideline.id] = Standing("active") if own else Standing("superseded", winner)
    return result


def _words(guideline: Guideline) -> str:
    return cached(guideline, "words", lambda: word_form(guideline.text))


_STATES: Mapping[str, LedgerState] = {
    "example": "learned",
    "refused": "rejected",
    "waiting": "pending",
}
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
        s.key: LedgerEntry(key=s.key, state=s.state, reason=s.reason) for s in memory.tombstones
    }
    for case in memory.cases:
        label = memory.label(case)
        for annotation in case.annotations:
            if annotation.value is not None and annotation.value != label:
                # Not the label that counts instead: it may be another person's free text, and outlive their feedback.
                why = TIE if label is None else "another label counts"
                reason = f"this annotation gave {value_text(annotation.value)}, and {why}"
                entries[annotation.key] = LedgerEntry(
                    key=annotation.key, state="disputed", reason=reason
                )
            elif carrying := carriers.get(annotation.key):
                entries[annotation.key] = _carried(memory, annotation, carrying)
            elif (outcome := annotation.outcome) is None or outcome.kind == "taught":
                entries[annotation.key] = LedgerEntry(
                    key=annotation.key, state="pending", reason="not yet distilled"
                )
            else:
                state = _STATES[outcome.kind]
                entries[annotation.key] = LedgerEntry(
                    key=annotation.key, state=state, reason=outcome.reason
                )
    return {key: entries[key] for key in sorted(entries)}


def _carried(memory: Memory, annotation: Annotation, carrying: Sequence[Guideline]) -> LedgerEntry:
    """Return the entry of feedback that guidelines state: learned if one was written from it, else merged."""
    ids = tuple(
        dict.fromkeys(memory.successor(guideline) or guideline.id for guideline in carrying)
    )
    state: LedgerState = "merged"
    reason = f"{memory.face(carrying[0]).id} already says it"
    if any(memory.status(g) != "superseded" and annotation.key in g.exposure for g in carrying):
        outcome = annotation.outcome
        state = "learned"
        reason = outcome.reason if outcome is not None and outcome.kind == "taught" else ""
    return LedgerEntry(key=annotation.key, state=state, reason=reason, guideline_ids=ids)
