"""Forgetting: pure functions, no model. What was written with a withdrawn word in view goes.

Exposure decides, not similarity: a guideline whose writing prompt held a withdrawn piece of feedback is removed, whether
or not it seems to say anything of it; the survivors of that prompt become pending, and their lesson is distilled again.
Retraining only what was touched is SISA's idea (Bourtoule et al. 2021, arXiv 1912.03817).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from memalign.align.states import with_outcomes
from memalign.memory import Annotation, Case, Memory, Outcome, PreAlignmentVerdict, Tombstone
from memalign.memory.check_answers import without_answers_beside
from memalign.types import FeedbackKey, Guideline

__all__ = ["forget", "forget_lessons", "unbarred"]

replace = msgspec.structs.replace


def forget(
    memory: Memory,
    keys: Collection[FeedbackKey],
    *,
    state: Literal["withdrawn", "erased"] = "withdrawn",
    reason: str = "",
) -> Memory:
    """`memory` without the feedback of `keys`, without cases that nobody else spoke about, without what they taught.

    Every annotation that loses its guideline is pending afterwards. Tombstones keep the keys, and no word. Keys that are
    not there are ignored.
    """
    live = [annotation for key in keys if (annotation := memory.annotation(key))]
    gone, touched = frozenset(annotation.key for annotation in live), frozenset(annotation.id for annotation in live)
    memory = forget_lessons(memory, gone, why="to be derived again without withdrawn feedback")
    cases = []
    for case in memory.cases:
        if case.id not in touched:
            cases.append(case)
        elif annotations := tuple(annotation for annotation in case.annotations if annotation.key not in gone):
            cases.append(replace(case, annotations=annotations, pre_alignment=_verdict_for(annotations, case)))
    stones = {stone.key: stone for stone in memory.tombstones}
    stones |= {key: Tombstone(key=key, state=state, reason=reason) for key in gone}
    memory = replace(memory, cases=tuple(cases))
    # Without a label nobody can say when a case breaks.
    locked = (memory.case(name) for name in memory.locks)
    locks = tuple(case.id for case in locked if case is not None and memory.label(case) is not None)
    return replace(
        memory,
        locks=locks,
        guidelines=tuple(unbarred(guideline, locks) for guideline in memory.guidelines),
        embedding_model=memory.embedding_model if cases else None,
        tombstones=tuple(stones[key] for key in sorted(stones)),
    )


def _verdict_for(annotations: Collection[Annotation], case: Case) -> PreAlignmentVerdict | None:
    """The case's pre-alignment verdict, if one of these annotations is a reason to ask for it."""
    verdict = case.pre_alignment
    if verdict is None or verdict.contrast or any(not annotation.rationale for annotation in annotations):
        return verdict
    return None


def forget_lessons(memory: Memory, keys: Collection[FeedbackKey], *, why: str) -> Memory:
    """`memory` without any guideline exposed to `keys`; annotations that lose their guideline by it become pending.

    Verdicts that were given with their cases in view go as well.

    The annotations of `keys` themselves stay, pending: this is also what happens to an annotation that changed its mind.
    """
    lost = frozenset(keys)
    gone = {guideline.id for guideline in memory.guidelines if not lost.isdisjoint(guideline.exposed_to)}
    carried = {key for guideline in memory.guidelines if guideline.id in gone for key in guideline.supported_by}
    # An example may have been covered by what is lost now; one that waits does so for a reason that may stem from it.
    beside = {
        annotation.key
        for annotation in memory.annotations()
        if annotation.outcome is not None and not lost.isdisjoint(annotation.outcome.exposed_to)
    }
    met = (case for key in lost if (case := memory.case(key.id)))
    shown = {duplicate.id for case in met for duplicate in memory.duplicates(case.example)}
    waiting = Outcome(kind="waiting", reason=why)
    memory = replace(memory, cases=without_answers_beside(memory.cases, shown)).without_guidelines(gone)
    supported = tuple(
        g
        if lost.isdisjoint(g.supported_by)
        else replace(g, supported_by=tuple(k for k in g.supported_by if k not in lost))
        for g in memory.guidelines
    )
    conflicts = tuple(conflict for conflict in memory.conflicts if lost.isdisjoint(conflict.exposed_to))
    memory = replace(memory, guidelines=supported, conflicts=conflicts)
    return with_outcomes(memory, dict.fromkeys(lost | carried | beside, waiting))


def unbarred(guideline: Guideline, locks: Collection[str]) -> Guideline:
    """The guideline in force again if the case that it was barred for is no longer locked."""
    if guideline.barred_for is None or guideline.barred_for in locks:
        return guideline
    return replace(guideline, barred_for=None)
