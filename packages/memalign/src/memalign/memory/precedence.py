"""Which guidelines are in force: one of those that say the same, and none whose place another took.

Nothing is thrown away: what is not in force steps in when that goes which stands before it. So forgetting promotes
another without a model call, and the answer depends on the guidelines alone, never on the order in which they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from memalign.cache import kept
from memalign.memory.guard import normalised
from memalign.types import Guideline

__all__ = ["GuidelineStatus", "Standing", "standings"]

GuidelineStatus = Literal["active", "superseded", "retired", "barred"]


class Standing(NamedTuple):
    """Whether a guideline is in force, and the id of the one that is shown instead of it."""

    status: GuidelineStatus
    successor: str | None = None


def standings(guidelines: Sequence[Guideline]) -> dict[str, Standing]:
    """The standing of each guideline beside the others, by id.

    What a person retired, and what broke a locked case, is out. One whose place another took is superseded by it, as
    long as that one exists and is not barred. Of those that say the same, in the same words, one is active: a pinned one
    before others, then a person's, then the oldest. What a person retired supersedes what a model writes in its words.
    """
    barred = {guideline.id for guideline in guidelines if guideline.barred_for is not None}
    replacing = {guideline.id for guideline in guidelines} - barred
    found: dict[str, Standing] = {}
    retired: dict[str, str] = {}
    candidates: list[Guideline] = []
    for guideline in guidelines:
        if guideline.id in barred:
            found[guideline.id] = Standing("barred")
        elif guideline.retired_by is not None:
            found[guideline.id] = Standing("retired")
            retired.setdefault(_words(guideline), guideline.id)
        elif guideline.replaced_by in replacing:
            found[guideline.id] = Standing("superseded", guideline.replaced_by)
        else:
            candidates.append(guideline)
    shown: dict[str, str] = {}
    for guideline in sorted(candidates, key=_rank):
        words = _words(guideline)
        out = retired.get(words) if guideline.origin == "distilled" and not guideline.pinned else None
        winner = out or shown.setdefault(words, guideline.id)
        own = winner == guideline.id
        found[guideline.id] = Standing("active") if own else Standing("superseded", winner)
    return found


def _words(guideline: Guideline) -> str:
    return kept(guideline, "words", lambda: normalised(guideline.text))


def _rank(guideline: Guideline) -> tuple[bool, bool, int]:
    return (not guideline.pinned, guideline.origin == "distilled", guideline.number)
