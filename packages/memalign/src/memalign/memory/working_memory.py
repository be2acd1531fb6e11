"""Working memory: what of memory one judgment sees, within the model's budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from memalign.cache import kept
from memalign.content.parts import part_in
from memalign.memory.budget import Budget
from memalign.memory.model import Case, Memory
from memalign.memory.retrieval import Retrieved
from memalign.prompts import RenderedExample, estimate_tokens
from memalign.prompts.fit import fit_example, fit_fields
from memalign.prompts.truncate import left_out

__all__ = ["WorkingMemory", "assemble", "shown_case"]

MOST_KEPT = 1000
"""Cases whose encoded form is kept with a memory: a few megabytes."""


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one judgment is shown besides the stable prompt, and notes on what did not fit.

    The examples, and the item's encoded fields. `unread` is how many
    tokens are left for what the judge reads in the item's trace, where that is shown in outline only; else 0.
    """

    examples: tuple[RenderedExample, ...]
    example_ids: tuple[str, ...]
    fields: dict[str, str]
    notes: tuple[str, ...]
    unread: int = 0


def assemble(
    memory: Memory,
    hits: Sequence[Retrieved],
    *,
    content: Mapping[str, object],
    parts: Sequence[str],
    budget: Budget,
) -> WorkingMemory:
    """Encode the `parts` of the item's content that the judge is shown, and of the retrieved cases, each cut to its budget; the most useful example comes last.

    Last, next to the item, is where models weigh an example most (Lu et al. 2022, arXiv 2104.08786).
    """
    notes: list[str] = []
    shown: list[tuple[str, RenderedExample]] = []
    used = 0
    for hit in hits:
        example, cost, missing = _kept_case(memory, hit.case, tuple(parts), budget.example)
        if used + cost > budget.examples and not hit.identical:  # what people said of this very item is always shown
            notes.append(f"example {hit.case.id} left out: over the budget of {budget.examples} tokens")
            continue
        used += cost
        shown.append((hit.case.id, example))
        notes.extend(f"example {hit.case.id}: {note}" for note in missing)
    shown.reverse()
    seen = {name: part_in(content, name) for name in parts}
    item = fit_fields(seen, budget.item)
    used = sum(estimate_tokens(text) for text in item.fields.values())
    repaired = (note for name, value in seen.items() for note in left_out(name, value))
    return WorkingMemory(
        examples=tuple(example for _, example in shown),
        example_ids=tuple(example_id for example_id, _ in shown),
        fields=item.fields,
        notes=(*notes, *item.notes, *repaired),
        unread=max(budget.item - used, 1) if item.outlined else 0,
    )


def shown_case(
    memory: Memory, case: Case, parts: Sequence[str], tokens: int
) -> tuple[RenderedExample, tuple[str, ...]]:
    """The `parts` of the case that a judge sees, with the words of all who gave the effective label, and notes on what was cut."""
    label = memory.label(case)
    agreeing = [v.rationale for v in memory.annotations_on(case) if v.rationale and v.value in (None, label)]
    content = {name: value for name in parts if (value := part_in(case.example.content, name)) is not None}
    return fit_example(content, " ".join(agreeing), label, tokens)


def _kept_case(
    memory: Memory, case: Case, parts: tuple[str, ...], tokens: int
) -> tuple[RenderedExample, int, tuple[str, ...]]:
    """The same, with what the case takes of the budget. The same cases are near to item after item."""

    def make() -> tuple[RenderedExample, int, tuple[str, ...]]:
        example, notes = shown_case(memory, case, parts, tokens)
        cost = sum(estimate_tokens(text) for text in (*dict(example.fields).values(), example.answer))
        return example, cost, notes

    return kept(kept(memory, "shown cases", _ShownCases), (case.id, parts, tokens), make, most=MOST_KEPT)


class _ShownCases:
    """Owns what is kept of a memory's shown cases, so that only these make room for each other."""
