"""Working memory: what of memory one judgment sees, within the model's budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from memalign.cache import kept
from memalign.memory.budget import Budget
from memalign.memory.model import Case, Memory
from memalign.memory.retrieval import Retrieved
from memalign.prompts import ShownExample, render_answer
from memalign.prompts.tokens import estimate_tokens
from memalign.prompts.truncate import OUTLINED, cut, left_out, whole
from memalign.types import Guideline

__all__ = ["WorkingMemory", "assemble"]

MOST_KEPT = 1000
"""Cases whose encoded form is kept with a memory: a few megabytes."""


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """What one judgment is shown besides the stable prompt, and notes on what did not fit.

    The examples, the demoted guidelines that the item calls for, and the item's encoded fields. `unread` is how many
    tokens are left for what the judge reads in the item's trace, where that is shown in outline only; else 0.
    """

    examples: tuple[ShownExample, ...]
    example_ids: tuple[str, ...]
    guidelines: tuple[Guideline, ...]
    fields: dict[str, str]
    notes: tuple[str, ...]
    unread: int = 0


def assemble(
    memory: Memory,
    hits: Sequence[Retrieved],
    retrieved: Sequence[Guideline] = (),
    *,
    content: Mapping[str, object],
    fields: Sequence[str],
    budget: Budget,
) -> WorkingMemory:
    """Encode the item's `fields` and the retrieved cases, each cut to its budget; the most useful example comes last.

    Of the `retrieved` guidelines, the most useful first, as many as fit are shown.

    Last, next to the item, is where models weigh an example most (Lu et al. 2022, arXiv 2104.08786).
    """
    notes: list[str] = []
    shown: list[tuple[str, ShownExample]] = []
    used = 0
    for hit in hits:
        example, cost, missing = _shown(memory, hit.case, tuple(fields), budget.example)
        if used + cost > budget.examples and not hit.identical:  # what people said of this very item is always shown
            notes.append(f"example {hit.case.id} left out: over the budget of {budget.examples} tokens")
            continue
        used += cost
        shown.append((hit.case.id, example))
        notes.extend(f"example {hit.case.id}: {note}" for note in missing)
    shown.reverse()
    item, missing = _fit({name: content[name] for name in fields}, budget.item)
    outlined = any(note.startswith(OUTLINED) for note in missing)
    used = sum(estimate_tokens(text) for text in item.values())
    missing.extend(note for name in fields for note in left_out(name, content[name]))
    return WorkingMemory(
        examples=tuple(example for _, example in shown),
        example_ids=tuple(example_id for example_id, _ in shown),
        guidelines=_affordable(retrieved, budget.retrieved),
        fields=item,
        notes=(*notes, *missing),
        unread=max(budget.item - used, 1) if outlined else 0,
    )


def _affordable(retrieved: Sequence[Guideline], tokens: int) -> tuple[Guideline, ...]:
    """The first of them that fit, in their own order: what is left out stays demoted, as the memory has it."""
    affordable, used = [], 0
    for guideline in retrieved:
        used += estimate_tokens(guideline.text) + 2
        if used > tokens:
            break
        affordable.append(guideline)
    return tuple(sorted(affordable, key=lambda guideline: guideline.number))


def _shown(memory: Memory, case: Case, fields: tuple[str, ...], tokens: int) -> tuple[ShownExample, int, list[str]]:
    """The case as the judge sees it, what it takes of the budget, and notes on what was cut."""

    def make() -> tuple[ShownExample, int, list[str]]:
        example, missing = _show(memory, case, fields, tokens)
        return example, sum(estimate_tokens(text) for _, text in (*example.fields, ("", example.answer))), missing

    # The same cases are near to item after item.
    return kept(kept(memory, "shown", _Shown), (case.id, fields, tokens), make, most=MOST_KEPT)


class _Shown:
    """Owns what is kept of a memory's shown cases, so that only these make room for each other."""


def _show(memory: Memory, case: Case, fields: Sequence[str], tokens: int) -> tuple[ShownExample, list[str]]:
    """The case as the judge sees it, with the words of an annotation that holds the effective label."""
    label = memory.label(case)
    annotations = memory.annotations_on(case)
    agreeing = [v.rationale for v in annotations if v.rationale and (v.value is None or v.value == label)]
    words = " ".join(agreeing)
    # By bytes, as the budget counts: letters of other scripts take two or three.
    fitting = words.encode("utf-8", "ignore")[: tokens * 4].decode("utf-8", "ignore")
    content = {name: value for name in fields if (value := case.example.content.get(name)) is not None}
    encoded, missing = _fit(content, tokens)
    if len(fitting) < len(words):
        missing.append(f"the comment truncated from {len(words):,} to {len(fitting):,} characters")
    return ShownExample(fields=tuple(encoded.items()), answer=render_answer(fitting or None, label)), missing


def _fit(content: Mapping[str, object], tokens: int) -> tuple[dict[str, str], list[str]]:
    """Encode every field; when together they exceed `tokens`, cut the longest down to an equal share."""
    full = {name: whole(name, value, tokens) for name, value in content.items()}
    sizes = {name: tokens + 1 if text is None else estimate_tokens(text) for name, text in full.items()}
    shown = {name: text for name, text in full.items() if text is not None}
    if sum(sizes.values()) <= tokens:
        return shown, []
    notes = []
    left, names = tokens, sorted(sizes, key=lambda name: sizes[name])
    for position, name in enumerate(names):
        share = left // (len(names) - position)
        if sizes[name] > share:
            shown[name], note = cut(name, content[name], share)
            notes.append(note)
        left -= min(sizes[name], share)
    return {name: shown[name] for name in content}, notes
