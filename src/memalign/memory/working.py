"""Working memory: what of memory one judgment sees, within the model's budget of tokens."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from memalign.memory.model import Memory
from memalign.memory.retrieval import Hit
from memalign.prompts import ShownExample, encode, render_answer
from memalign.records import Guideline

__all__ = ["Budget", "WorkingMemory", "assemble", "estimate_tokens", "fit_guidelines", "shorten"]

BYTES_PER_TOKEN = 3.0  # low on purpose: English is nearer four, and a prompt that is too long is an error


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` takes, rather too many than too few; no tokenizer is loaded for it."""
    return int(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN) + 1


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens that each part of a judge's prompt may take."""

    guidelines: int
    example: int
    examples: int
    item: int

    @classmethod
    def of(cls, *, context_tokens: int, system_tokens: int, answer_tokens: int, brief: bool) -> Budget:
        """Divide what the context leaves after `system_tokens` and the answer: half for the item, a third for examples.

        A weak or slow model (`brief`) gets short examples and few guidelines: it reads 30 tokens a second, and how well
        a model follows instructions falls with their number (IFScale, arXiv 2507.11538).
        """
        free = max(context_tokens - system_tokens - answer_tokens - 64, 256)
        return cls(
            guidelines=min(context_tokens // 8, 500 if brief else 4000),
            example=min(200 if brief else 1500, free // 6),
            examples=min(600, free // 3) if brief else free // 3,
            item=free // 2,
        )


class WorkingMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The examples shown to one judgment, the item's encoded fields, and notes on what did not fit."""

    examples: tuple[ShownExample, ...]
    example_ids: tuple[str, ...]
    fields: dict[str, str]
    notes: tuple[str, ...]


def fit_guidelines(
    guidelines: Sequence[Guideline], tokens: int, *, corrective: Collection[str] = ()
) -> tuple[tuple[Guideline, ...], tuple[str, ...]]:
    """The guidelines that fit into `tokens`, in their order, and the ids of those left out.

    Pinned ones go first, then those that a person wrote, then those that stem from `corrective` feedback (the judge had
    been wrong there), then the best supported, then the oldest. The choice depends on the memory only, so the prompt's
    prefix stays the same for every item.
    """

    def rank(guideline: Guideline) -> tuple[bool, bool, bool, int, int]:
        corrects = not set(corrective).isdisjoint(guideline.supported_by)
        written = guideline.origin != "distilled"
        return (not guideline.pinned, not written, not corrects, -len(guideline.supported_by), guideline.number)

    kept: set[str] = set()
    used = 0
    for guideline in sorted(guidelines, key=rank):
        cost = estimate_tokens(guideline.text) + 2
        if used + cost <= tokens or guideline.pinned:
            kept.add(guideline.id)
            used += cost
    chosen = tuple(guideline for guideline in guidelines if guideline.id in kept)
    return chosen, tuple(guideline.id for guideline in guidelines if guideline.id not in kept)


def assemble(
    memory: Memory, hits: Sequence[Hit], *, content: Mapping[str, object], fields: Sequence[str], budget: Budget
) -> WorkingMemory:
    """Encode the item's `fields` and the retrieved cases, each cut to its budget; the most useful example comes last.

    Last, next to the item, is where models weigh an example most (Lu et al. 2022, arXiv 2104.08786).
    """
    notes: list[str] = []
    shown: list[tuple[str, ShownExample]] = []
    used = 0
    for hit in hits:
        example, cut = _show(memory, hit, fields, budget.example)
        cost = sum(estimate_tokens(text) for _, text in example.fields) + estimate_tokens(example.answer)
        if used + cost > budget.examples:
            notes.append(f"example {hit.case.id} left out: over the budget of {budget.examples} tokens")
            continue
        used += cost
        shown.append((hit.case.id, example))
        notes.extend(f"example {hit.case.id}: {note}" for note in cut)
    shown.reverse()
    item, cut = _fit({name: content[name] for name in fields}, budget.item)
    return WorkingMemory(
        examples=tuple(example for _, example in shown),
        example_ids=tuple(example_id for example_id, _ in shown),
        fields=item,
        notes=(*notes, *cut),
    )


def _show(memory: Memory, hit: Hit, fields: Sequence[str], tokens: int) -> tuple[ShownExample, list[str]]:
    """The case as the judge sees it, with the words of a voice that holds the effective label."""
    label = memory.label(hit.case)
    voices = memory.voices_on(hit.case)
    agreeing = [v.rationale for v in voices if v.rationale and (v.value is None or v.value == label)]
    answer = render_answer(" ".join(agreeing)[: tokens * 4] or None, label)
    content = {name: value for name in fields if (value := hit.case.example.content.get(name)) is not None}
    encoded, cut = _fit(content, tokens)
    return ShownExample(fields=tuple(encoded.items()), answer=answer), cut


def _fit(content: Mapping[str, object], tokens: int) -> tuple[dict[str, str], list[str]]:
    """Encode every field; when together they exceed `tokens`, cut the longest down to an equal share."""
    # A text over the whole budget is cut in any case: to encode megabytes of it first would hold everybody up.
    vast = {name: len(value) for name, value in content.items() if isinstance(value, str) and len(value) > tokens * 3}
    encoded = {name: encode(value) for name, value in content.items() if name not in vast}
    sizes = {name: tokens + 1 if name in vast else estimate_tokens(encoded[name]) for name in content}
    if sum(sizes.values()) <= tokens:
        return encoded, []
    notes = []
    left, names = tokens, sorted(sizes, key=lambda name: sizes[name])
    for position, name in enumerate(names):
        share = left // (len(names) - position)
        if sizes[name] > share:
            whole = vast.get(name) or len(encoded[name])
            encoded[name] = shorten(content[name], share)
            notes.append(f"{name} truncated from {whole:,} to {len(encoded[name]):,} characters")
        left -= min(sizes[name], share)
    return {name: encoded[name] for name in content}, notes


def shorten(value: object, tokens: int) -> str:
    """`value` encoded and cut to about `tokens`: its beginning and end, and how much is missing between them."""
    text = value if isinstance(value, str) else encode(value)
    room = max(int(tokens * BYTES_PER_TOKEN) - 60, 40)
    while True:
        head, tail = text[: room * 2 // 3], text[-(room // 3) :]
        shortened = encode(f"{head} …[{len(text) - len(head) - len(tail):,} characters left out]… {tail}")
        if estimate_tokens(shortened) <= tokens or room <= 40:
            return shortened
        room = room * 3 // 4  # wide characters and escapes take more bytes than the estimate of one each
