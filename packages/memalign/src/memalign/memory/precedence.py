"""Which guidelines are in force: one of those that say the same, and none whose place another took.

Nothing is thrown away: what does not stand steps in when that goes which stands before it. So forgetting promotes
another without a model call, and the answer depends on the memory alone, never on the order in which it grew.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from memalign.memory.guard import normalised
from memalign.types import Guideline

__all__ = ["precedence"]

replace = msgspec.structs.replace


def precedence(guidelines: Iterable[Guideline]) -> tuple[Guideline, ...]:
    """`guidelines`, each with the status that it has beside the others; deciding again changes nothing.

    One whose place another took is superseded by it, as long as that one is there and not barred. Of those that say the
    same, in the same words, one is active: a pinned one before others, then a person's, then the oldest; the others are
    superseded by it. What a person retired stays so, and supersedes what a model writes in its words.
    """
    before = tuple(guidelines)
    ids = {guideline.id for guideline in before}
    barred = {guideline.id for guideline in before if guideline.barred_for is not None}
    released = [_released(guideline, ids, barred) for guideline in before]
    words = {guideline.id: normalised(guideline.text) for guideline in before}
    retired: dict[str, str] = {}
    for guideline in released:
        if guideline.status == "retired" and guideline.id not in barred:
            retired.setdefault(words[guideline.id], guideline.id)
    shown: dict[str, Guideline] = {}
    for guideline in released:
        if guideline.status == "active" and _retiring(guideline, words[guideline.id], retired) is None:
            shown[words[guideline.id]] = min(shown.get(words[guideline.id], guideline), guideline, key=_rank)

    def settled(guideline: Guideline) -> Guideline:
        if guideline.status != "active":
            return guideline
        text = words[guideline.id]
        winner = _retiring(guideline, text, retired) or shown[text].id
        if winner == guideline.id:
            return guideline
        return replace(guideline, status="superseded", superseded_by=winner)

    return tuple(map(settled, released))


def _released(guideline: Guideline, ids: set[str], barred: set[str]) -> Guideline:
    """Free of what earlier decisions said of it, but for the place that another took."""
    if guideline.replaced_by is not None and guideline.replaced_by not in ids:
        guideline = replace(guideline, replaced_by=None)
    if guideline.status == "retired":
        return guideline
    if guideline.replaced_by is not None and guideline.replaced_by not in barred:
        return replace(guideline, status="superseded", superseded_by=guideline.replaced_by)
    return replace(guideline, status="active", superseded_by=None)


def _retiring(guideline: Guideline, words: str, retired: dict[str, str]) -> str | None:
    """The retired guideline of the same words: what a person retired does not come back because a model writes it again."""
    return retired.get(words) if guideline.origin == "distilled" and not guideline.pinned else None


def _rank(guideline: Guideline) -> tuple[bool, bool, int]:
    return (not guideline.pinned, guideline.origin == "distilled", guideline.number)
