"""How many tokens the parts of a prompt may take, and which guidelines fit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from memalign.prompts.encoding import estimate_tokens
from memalign.types import FeedbackKey, Guideline

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Topics = Callable[[Sequence[Guideline]], "NDArray[np.float32] | None"]

__all__ = ["Budget", "fit_guidelines"]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that each part of a judge's prompt may take."""

    guidelines: int
    retrieved: int
    example: int
    examples: int
    item: int

    @classmethod
    def of(cls, *, context_tokens: int, system_tokens: int, answer_tokens: int, brief: bool) -> Budget:
        """Divide what the context leaves after `system_tokens` and the answer: half for the item, a third for examples.

        A weak or slow model (`brief`) gets short examples and few guidelines: it reads 30 tokens a second, and how well
        a model follows instructions falls with their number (IFScale, arXiv 2507.11538). It is shown no demoted ones:
        retrieved by similar cases, they misled it as those did (docs/decisions/0009-stages.md).
        """
        free = max(context_tokens - system_tokens - answer_tokens - 64, 256)
        guidelines = min(context_tokens // 8, 500 if brief else 4000)
        return cls(
            guidelines=guidelines,
            retrieved=0 if brief else guidelines // 4,
            example=min(200 if brief else 1500, free // 6),
            examples=min(600, free // 3) if brief else free // 3,
            item=free // 2,
        )


def fit_guidelines(
    guidelines: Sequence[Guideline],
    tokens: int,
    *,
    corrective: Callable[[], Collection[FeedbackKey]] = frozenset,
    topics: Topics | None = None,
) -> tuple[tuple[Guideline, ...], tuple[str, ...]]:
    """The guidelines that fit into `tokens`, in their order, and the ids of those left out.

    Pinned ones go first and are never left out, then those that a person wrote, then those that stem from `corrective`
    feedback (the judge had been wrong there), then the best supported. Among equals the oldest goes first, and then, by
    their `topics`, always the one that is least like those that are in: ids often follow a subject, and the oldest ten of
    fifty rules would be about the same one. The choice depends on the memory only, so the prompt's prefix stays the same
    for every item.
    """
    costs = {guideline.id: estimate_tokens(guideline.text) + 2 for guideline in guidelines}
    if sum(costs.values()) <= tokens:
        return tuple(guidelines), ()
    corrects = frozenset(corrective())  # dear in a large memory, and asked for only when something must go

    def rank(guideline: Guideline) -> tuple[bool, bool, bool, int]:
        helped = not corrects.isdisjoint(guideline.supported_by)
        written = guideline.origin != "distilled"
        return (not guideline.pinned, not written, not helped, -len(guideline.supported_by))

    kept: set[str] = set()
    used, least = 0, min(costs.values())
    for guideline in _spread(guidelines, rank, topics):
        if used + least > tokens and not guideline.pinned:
            break
        if used + costs[guideline.id] <= tokens or guideline.pinned:
            kept.add(guideline.id)
            used += costs[guideline.id]
    chosen = tuple(guideline for guideline in guidelines if guideline.id in kept)
    return chosen, tuple(guideline.id for guideline in guidelines if guideline.id not in kept)


def _spread(
    guidelines: Sequence[Guideline], rank: Callable[[Guideline], tuple[object, ...]], topics: Topics | None
) -> Iterator[Guideline]:
    """By rank; of one rank the oldest first, then always the one whose topic is farthest from all before it."""
    in_order = sorted(guidelines, key=lambda guideline: (rank(guideline), guideline.number))
    vectors = topics(in_order) if topics else None
    if vectors is None:
        yield from in_order
        return
    import numpy as np  # see Memory.matrix

    nearest = np.full(len(in_order), -1.0)  # the likeness to the most alike of those before it
    for _, ranked in groupby(range(len(in_order)), key=lambda place: rank(in_order[place])):
        left = np.array(list(ranked))
        while len(left):
            place = left[np.argmin(nearest[left])]  # of equals the oldest
            yield in_order[place]
            left = left[left != place]
            # Rounded: two that are alike must be so on every machine.
            nearest = np.maximum(nearest, (vectors @ vectors[place]).round(5))
