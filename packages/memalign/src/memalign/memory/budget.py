"""How many tokens the parts of a prompt may take, and which guidelines fit."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from memalign.prompts.encoding import estimate_tokens
from memalign.types import Guideline

__all__ = ["Budget", "cost_of", "fit_guidelines"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that each part of a judge's prompt may take."""

    guidelines: int
    example: int
    examples: int
    item: int

    @classmethod
    def of(
        cls,
        *,
        context_tokens: int,
        system_tokens: int,
        answer_tokens: int,
        brief: bool,
        guidelines: Sequence[Guideline] = (),
    ) -> Budget:
        """Divide what the context leaves after the system message and the answer: half for the item, a third for examples.

        Of the `guidelines` as many are in the system message as may be, and all that are pinned.

        A weak or slow model (`brief`) gets short examples and few guidelines: it reads 30 tokens a second, and how well
        a model follows instructions falls with their number (IFScale, arXiv 2507.11538).
        """
        most = min(context_tokens // 8, 500 if brief else 4000)
        shown = min(sum(map(cost_of, guidelines)), most)
        pinned = sum(cost_of(guideline) for guideline in guidelines if guideline.pinned)
        taken = system_tokens + max(shown, pinned) + answer_tokens + 64
        free = max(context_tokens - taken, 256)
        return cls(
            guidelines=most,
            example=min(200 if brief else 1500, free // 6),
            examples=min(600, free // 3) if brief else free // 3,
            item=free // 2,
        )


def cost_of(guideline: Guideline) -> int:
    """Tokens that a guideline takes in a prompt, with its dash and the end of its line."""
    return estimate_tokens(guideline.text) + 2


def fit_guidelines(guidelines: Sequence[Guideline], tokens: int) -> tuple[tuple[Guideline, ...], tuple[str, ...]]:
    """The guidelines that fit into `tokens`, in their order, and the ids of those left out.

    Pinned ones go first and are never left out, then those that a person wrote, then the best supported, and among equals
    the oldest. The choice depends on the memory only, so the prompt's prefix stays the same for every item.
    """
    costs = {guideline.id: cost_of(guideline) for guideline in guidelines}
    if sum(costs.values()) <= tokens:
        return tuple(guidelines), ()

    def rank(guideline: Guideline) -> tuple[bool, bool, int, int]:
        written = guideline.origin != "distilled"
        return (not guideline.pinned, not written, -len(guideline.supported_by), guideline.number)

    chosen: set[str] = set()
    used = 0
    for guideline in sorted(guidelines, key=rank):
        if used + costs[guideline.id] <= tokens or guideline.pinned:
            chosen.add(guideline.id)
            used += costs[guideline.id]
    shown = tuple(guideline for guideline in guidelines if guideline.id in chosen)
    return shown, tuple(guideline.id for guideline in guidelines if guideline.id not in chosen)
