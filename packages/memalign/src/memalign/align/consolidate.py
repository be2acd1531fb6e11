"""Consolidation: of guidelines that say the same in the same words one is shown, and people see where their own ended.

Code decides, without a model, so forgetting the guideline that is shown promotes the next.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from memalign.align.states import change_annotations
from memalign.memory import Annotation, Memory
from memalign.types import FeedbackKey, Guideline

__all__ = ["bar", "consolidate", "new_guidelines"]

replace = msgspec.structs.replace


def consolidate(memory: Memory) -> Memory:
    """`memory` with every guideline in its place, and the annotations behind them in the states that this gives them."""
    return _credited(memory.settled())


def bar(memory: Memory, ids: Iterable[str], case_id: str) -> Memory:
    """`memory` with these guidelines out of force for the locked case; what stood behind them steps in."""
    out = frozenset(ids)
    changes = {"status": "retired", "status_by": None, "superseded_by": None, "barred_for": case_id}
    return consolidate(
        replace(memory, guidelines=tuple(replace(g, **changes) if g.id in out else g for g in memory.guidelines))
    )


def new_guidelines(before: Memory, after: Memory, locked_case: str) -> frozenset[str]:
    """What a model wrote since and is in force now, or would be once the others of these are barred, by id."""
    earlier = {guideline.id for guideline in before.guidelines}
    fresh: frozenset[str] = frozenset()
    while True:
        rest = bar(after, fresh, locked_case) if fresh else after
        more = {g.id for g in rest.semantic if g.id not in earlier and g.origin == "distilled" and not g.pinned}
        if not more:
            return fresh
        fresh |= more


def _credited(memory: Memory) -> Memory:
    """Annotations in the state that their guidelines give them; one that waits, or is an example only, keeps its own.

    Learned: a guideline in force was written from the annotation. Merged: the guideline that carries it was there before,
    or stands behind another that says the same. Rejected: its rule broke a locked case.
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
        in_place = {guideline.id: shown(guideline) for guideline in mine}
        counting = [g for g in mine if in_place[g.id].barred_for is None]
        if not counting:
            reason = f"its rule {in_place[mine[0].id].id} broke a locked case"
            return replace(annotation, state="rejected", reason=reason)
        if any(g.status != "superseded" and annotation.key in g.exposed_to for g in counting):
            return annotation if annotation.state == "learned" else replace(annotation, state="learned", reason="")
        return replace(annotation, state="merged", reason=f"{in_place[counting[0].id].id} already says it")

    return change_annotations(memory, (new for each in memory.annotations() if (new := credit(each)) is not each))


def _orphaned(annotation: Annotation) -> Annotation:
    """An annotation without a guideline: it waits, unless it is an example only or its label does not count."""
    if annotation.state in ("pending", "disputed") or annotation.example_only:
        return annotation
    return replace(annotation, state="pending", reason="its rule is gone; to be derived again")
