"""From an item to the request that a chat model is asked: similar cases, facts of tests, all fitted to the context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memalign.cache import cached
from memalign.content import check_fields, part_in, span_tree
from memalign.content.encoding import estimate_tokens
from memalign.errors import InputError
from memalign.judge.answer import answer_schema
from memalign.judge.code_tests import facts
from memalign.judge.spec import base_fingerprint_of, lacks, named_parts
from memalign.judge.standing import expert_words
from memalign.memory.model import Case, Memory
from memalign.memory.retrieval import embedding_text, similar_cases
from memalign.models.base import ChatModel, ChatRequest, Limits
from memalign.models.calls import Calls
from memalign.models.resolve import resolve_embedding
from memalign.prompts.fitting import fit_example, fit_fields, fit_guidelines, guideline_tokens
from memalign.prompts.rendering import RenderedExample, render_item, render_judge_system
from memalign.types import Example, Finding

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["Prompt", "budget_of", "check_item", "prompt_of", "retrieve", "shown_case", "whole_item"]

_TASK_TOKENS = 500  # what the system message has beside instructions and guidelines, the form of the answer above all


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one item, and what its judgment will say about it."""

    request: ChatRequest
    guideline_ids: tuple[str, ...]
    example_ids: tuple[str, ...] = ()  # the most useful last
    facts: tuple[Finding, ...] = ()  # what tests found
    notes: tuple[str, ...] = ()  # on what was cut or left out
    item_texts: tuple[
        str, ...
    ] = ()  # the encoded texts of the item itself, which evidence may quote


async def prompt_of(judge: Judge, example: Example, model: ChatModel, calls: Calls) -> Prompt:
    """What `judge` asks about an item that `check_item` accepts: the same bytes for the same memory and item."""
    limits = model.limits
    # What tests find is said before the item as a fact; it takes its tokens from what is left for cases and item.
    findings = facts(judge.memory, example.content)
    lines = [f"{finding.test}: {'yes' if finding.holds else 'no'}" for finding in findings]
    budget = budget_of(judge, limits, beside=sum(map(estimate_tokens, lines)))
    # The system message is the same for every item, so that providers serve it from cache.
    stable = _stable(judge, limits, budget)
    # Similar cases, the most useful one next to the item, where models weigh an example most (arXiv 2104.08786).
    similar, notes = await retrieve(judge, example, limits, calls)
    examples, example_notes = _fitted_cases(judge, example, similar, budget)
    # The item comes last, each of its parts cut to an equal share of what is left.
    seen = _seen(judge, example)
    item = fit_fields(seen, budget.item)
    tree = span_tree(seen["trace"]) if "trace" in seen else None
    request = replace(
        stable.request,
        user=render_item(item.fields, [rendered for _, rendered in examples], lines),
        about=example.id,
        max_tokens=_answer_tokens(judge, limits),
        temperature=judge.parameters.get("temperature", 0.0),
        seed=judge.parameters.get("seed"),
        timeout=judge.parameters.get("timeout"),
    )
    return replace(
        stable,
        request=request,
        example_ids=tuple(name for name, _ in examples),
        facts=findings,
        notes=(*notes, *example_notes, *item.notes, *(tree.notes if tree else ()), *stable.notes),
        item_texts=tuple(item.fields.values()),
    )


def check_item(judge: Judge, example: Example) -> None:
    """Raise InputError for an item that lacks a field, or holds what no prompt can."""
    try:
        check_fields(
            example, named_parts(judge.instructions)
        )  # an image, or a conversation that is none
    except InputError as error:
        raise InputError(f"{example.id}: {error}") from None
    if lacking := lacks(judge, example.content, "the item"):
        raise InputError(f"{example.id}: {lacking}")


def whole_item(judge: Judge, example: Example, limits: Limits) -> str:
    """The item as prompts show it."""
    return render_item(fit_fields(_seen(judge, example), budget_of(judge, limits).item).fields)


def _seen(judge: Judge, example: Example) -> dict[str, Any]:
    """The parts of the item that the instructions name."""
    return {name: part_in(example.content, name) for name in named_parts(judge.instructions)}


def _stable(judge: Judge, limits: Limits, budget: Budget) -> Prompt:
    """What is the same for every item: system message, schema of the answer, and notes on guidelines left out."""
    memory, value_type = judge.memory, judge.value_type

    def make() -> Prompt:
        guidelines, omitted = fit_guidelines(memory.semantic, budget.guidelines)
        system = render_judge_system(
            instructions=judge.instructions,
            fields=named_parts(judge.instructions),
            value_type=value_type,
            guidelines=guidelines,
            writes=limits.writes,
        )
        ids = tuple(guideline.id for guideline in guidelines)
        schema = answer_schema(value_type, ids, writes=limits.writes)
        optional = tuple(
            name for name in schema["properties"] if name != "value"
        )  # all that is not the verdict
        request = ChatRequest(
            system=system, user="", schema=schema, schema_name="judgment", optional=optional
        )
        notes = tuple(
            f"guideline {name} was left out because the prompt would be too long"
            for name in omitted
        )
        return Prompt(request=request, guideline_ids=ids, notes=notes)

    return cached(
        memory, ("prompt", judge.instructions, value_type, limits.writes, budget.guidelines), make
    )


class Budget(NamedTuple):
    """Tokens that each part of a judge's prompt may take: all guidelines, one example, all examples, the item."""

    guidelines: int
    example: int
    examples: int
    item: int


def budget_of(judge: Judge, limits: Limits, *, beside: int = 0) -> Budget:
    """Divide what the context leaves: half for the item, a third for examples.

    Before that come the system message, the answer, and the tokens of what is `beside` the item.
    How well a model follows instructions falls with their number (IFScale, arXiv 2507.11538).
    """
    guidelines = judge.memory.semantic
    most = min(limits.context_tokens // 8, 4000)
    fitting = min(sum(map(guideline_tokens, guidelines)), most)
    pinned = sum(guideline_tokens(guideline) for guideline in guidelines if guideline.pinned)
    system = estimate_tokens(judge.instructions) + _TASK_TOKENS + max(fitting, pinned)
    free = max(limits.context_tokens - system - _answer_tokens(judge, limits) - beside, 256)
    return Budget(
        guidelines=most,
        example=min(1500, free // 6),
        examples=free // 3,
        item=free // 2,
    )


def _answer_tokens(judge: Judge, limits: Limits) -> int:
    return int(judge.parameters.get("max_tokens", 1024))


async def retrieve(
    judge: Judge, example: Example, limits: Limits, calls: Calls
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """The past cases that an item is judged beside, the most useful first, and notes; no judge model is asked."""
    memory = judge.memory
    if not memory.cases:  # without the library of vectors, which takes a while to import
        return (), ()
    import numpy as np

    k = limits.examples if judge.retrieval_k is None else judge.retrieval_k
    vector, notes = (
        np.zeros(0, dtype=np.float32),
        tuple[str, ...](),
    )  # nothing to compare the item with
    if k:
        model = resolve_embedding(judge.embedding_model)
        if memory.embedding_model in (None, model.name):
            vector = (await calls.embed(model, [embedding_text(example)]))[0]
        else:  # vectors of two models compare to noise, and with equal lengths nothing else would tell
            notes = (
                f"no similar cases were shown because memory has vectors of {memory.embedding_model}, not "
                f"of {model.name}; to make new ones: memalign align NAME",
            )
    return similar_cases(
        memory, example, vector, judge.value_type, k, judge=base_fingerprint_of(judge)
    ), notes


def _fitted_cases(
    judge: Judge, example: Example, similar: Sequence[Case], budget: Budget
) -> tuple[list[tuple[str, RenderedExample]], tuple[str, ...]]:
    """The cases that fit, by id, the most useful last, and notes. What people said of this very item always fits."""
    fitting: list[tuple[str, RenderedExample]] = []
    notes: list[str] = []
    used = 0
    for case in similar:
        rendered, missing = shown_case(
            judge.memory, case, named_parts(judge.instructions), budget.example
        )
        cost = sum(map(estimate_tokens, (*dict(rendered.fields).values(), rendered.answer)))
        if used + cost > budget.examples and case.example.content_hash != example.content_hash:
            notes.append(
                f"case {case.id} was left out because similar cases have only {budget.examples} tokens"
            )
            continue
        used += cost
        fitting.append((case.id, rendered))
        notes.extend(f"example {case.id}: {note}" for note in missing)
    return fitting[::-1], tuple(notes)


def shown_case(
    memory: Memory, case: Case, parts: Sequence[str], tokens: int
) -> tuple[RenderedExample, tuple[str, ...]]:
    """The `parts` of a case that a judge sees, with the words of all who gave its label; and notes on what was cut."""
    label = memory.label(case)
    content = {
        name: value for name in parts if (value := part_in(case.example.content, name)) is not None
    }
    return fit_example(content, expert_words(memory.annotations_on(case), label), label, tokens)
