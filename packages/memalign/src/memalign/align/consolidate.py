"""Consolidation: of guidelines that say the same one is shown, and of two that contradict each other one counts.

Deterministic and without a model: what pairs of guidelines are to each other is in memory (`relate` asks for it), so
forgetting the one that stands in front promotes the next. Code applies it; no model rewrites the memory.
"""

from __future__ import annotations

import msgspec

from memalign.memory import Annotation, Memory
from memalign.memory.precedence import left_out
from memalign.types import FeedbackKey, Guideline

__all__ = ["consolidate", "in_canonical_order"]

replace = msgspec.structs.replace


def consolidate(memory: Memory) -> Memory:
    """`memory` with every guideline in its place, and the annotations behind them in the states that this gives them."""
    known = {guideline.id for guideline in memory.guidelines}
    relations = tuple(relation for relation in memory.relations if known.issuperset(relation.pair))
    if len(relations) < len(memory.relations):
        memory = replace(memory, relations=relations)
    return _credited(memory.settled())


def in_canonical_order(one: Guideline, other: Guideline) -> tuple[Guideline, Guideline]:
    """The older one first."""
    return (one, other) if one.number < other.number else (other, one)


def _credited(memory: Memory) -> Memory:
    """Annotations in the state that their guidelines give them; an annotation that waits, or is an example only, keeps its own.

    Learned: a guideline in force was written from the annotation. Merged: the guideline that carries it was there before,
    or stands behind another that says the same. Disputed: its rule contradicts one that counts by the policy. Rejected:
    its rule was left out because it made verdicts worse.
    """
    by_id = {guideline.id: guideline for guideline in memory.guidelines}
    carried: dict[FeedbackKey, list[Guideline]] = {}
    for guideline in memory.guidelines:
        for key in guideline.supported_by:
            carried.setdefault(key, []).append(guideline)

    def shown(guideline: Guideline) -> Guideline:
        while guideline.superseded_by is not None:  # ends: one is shown by a newer one, or by one that is shown
            guideline = by_id[guideline.superseded_by]
        return guideline

    def credit(annotation: Annotation) -> Annotation:
        mine = carried.get(annotation.key)
        if not mine:
            return _orphaned(annotation)
        if annotation.state == "pending":
            return annotation
        faces = {guideline.id: shown(guideline) for guideline in mine}
        counting = [g for g in mine if faces[g.id].overridden_by is None and not left_out(faces[g.id])]
        if not counting:
            face = faces[mine[0].id]
            if face.overridden_by is not None:
                reason = f"its rule {face.id} contradicts {face.overridden_by}, which counts by the policy"
                return replace(annotation, state="disputed", reason=reason)
            return replace(
                annotation, state="rejected", reason=f"its rule {face.id} was left out: it made verdicts worse"
            )
        if any(g.status != "superseded" and annotation.key in g.exposed_to for g in counting):
            return replace(annotation, state="learned", reason="")
        return replace(annotation, state="merged", reason=f"{faces[counting[0].id].id} already says it")

    cases = tuple(
        replace(case, annotations=annotations)
        if (annotations := tuple(credit(annotation) for annotation in case.annotations)) != case.annotations
        else case
        for case in memory.cases
    )
    return replace(memory, cases=cases)


def _orphaned(annotation: Annotation) -> Annotation:
    """An annotation without a guideline: it waits, if a guideline was all that it had, and keeps its state otherwise."""
    if annotation.state in ("merged", "rejected") or (annotation.state == "learned" and not annotation.reason):
        return replace(annotation, state="pending", reason="its rule is gone; to be derived again")
    return annotation
