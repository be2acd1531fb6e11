"""The guidelines in force, and the state of each piece of feedback: derived, never stored.

Nothing is thrown away: a superseded guideline becomes active again when its successor is removed.
So forgetting promotes another one without a model call, and the result depends on the guidelines
alone, never on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from memalign.cache import cached
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
    """
    ids = {guideline.id for guideline in guidelines}
    result: dict[str, Standing] = {}
    retired: dict[str, str] = {}
    candidates: list[Guideline] = []
    for guideline in guidelines:
        if guideline.retired_by is not None:
            result[guideline.id] = Standing("retired")
            retired.setdefault(_words(guideline), guideline.id)
        elif guideline.replaced_by in ids:
            result[guideline.id] = Standing("superseded", guideline.replaced_by)
        else:
            candidates.append(guideline)
    active: dict[str, str] = {}
    for guideline in sorted(candidates, key=_rank):
        words = _words(guideline)
        if words in retired and not guideline.people:
            result[guideline.id] = Standing("superseded", retired[words])
        elif words in active:
            result[guideline.id] = Standing("superseded", active[words])
        else:
            active[words] = guideline.id
            result[guideline.id] = Standing("active")
    return result


def _rank(guideline: Guideline) -> tuple[bool, bool, int]:
    return not guideline.pinned, guideline.origin == "distilled", guideline.number


def _words(guideline: Guideline) -> str:
    return cached(guideline, "words", lambda: word_form(guideline.text))


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
            carrying = carriers.get(annotation.key, ())
            entries[annotation.key] = _entry(memory, annotation, label, carrying)
    return dict(sorted(entries.items()))


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
    outcome = annotation.outcome
    if annotation.value is not None and annotation.value != label:
        # The other label is not named: it may be another person's free text, and outlive their
        # feedback.
        why = TIE if label is None else "another label counts"
        reason = f"this annotation gave {value_text(annotation.value)}, and {why}"
        return LedgerEntry(key=annotation.key, state="disputed", reason=reason)
    if carrying:
        return _carried(memory, annotation, carrying)
    if outcome is None or outcome.kind == "taught":
        return LedgerEntry(
            key=annotation.key, state="pending", reason="not yet distilled"
        )
    return LedgerEntry(
        key=annotation.key, state=_STATES[outcome.kind], reason=outcome.reason
    )


def _carried(
    memory: Memory, annotation: Annotation, carrying: Sequence[Guideline]
) -> LedgerEntry:
    """Return the entry of feedback behind guidelines: learned if one was written from it."""
    shown = dict.fromkeys(memory.successor(rule) or rule.id for rule in carrying)
    state: LedgerState = "merged"
    reason = f"{memory.face(carrying[0]).id} already says it"
    for guideline in carrying:
        if (
            memory.status(guideline) != "superseded"
            and annotation.key in guideline.exposure
        ):
            state = "learned"
            remark = annotation.outcome
            reason = (
                remark.reason if remark is not None and remark.kind == "taught" else ""
            )
    return LedgerEntry(
        key=annotation.key, state=state, reason=reason, guideline_ids=tuple(shown)
    )
