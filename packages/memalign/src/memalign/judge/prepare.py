"""From an item to the request that a model is asked: retrieve, fit to the budget, render."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.cache import kept
from memalign.content import check_fields, sides_of
from memalign.content.parts import part_in, parts_of_sides
from memalign.content.sides import each_side
from memalign.errors import InputError
from memalign.judge.answer import answer_schema
from memalign.judge.parameters import SAMPLING_TEMPERATURE
from memalign.judge.retrieve import retrieve
from memalign.judge.samples import label_texts
from memalign.memory.budget import Budget, fit_guidelines
from memalign.memory.working_memory import assemble
from memalign.models.base import ChatModel, ChatRequest, Limits
from memalign.prompts import render_item, render_judge_system
from memalign.prompts.encoding import estimate_tokens
from memalign.prompts.fit import fit_fields
from memalign.types import Example, ToolCall

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["Prepared", "budget_of", "check_item", "is_pair", "items_alone", "prepare"]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one item, and what its judgment will say about it.

    `seconds` by phase: `embed` (the item), `retrieve` (its cases), `assemble` (the prompt). `unread` is how many tokens
    the judge may read in the item's trace before its verdict, 0 where nothing was left out of the prompt; see `read_trace`.
    `guideline_ids` are those in the prompt, and `shown` the encoded texts of the item itself: what evidence may quote.
    """

    request: ChatRequest
    guideline_ids: tuple[str, ...]
    example_ids: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]
    trace_tool_calls: tuple[ToolCall, ...] = ()
    unread: int = 0
    shown: tuple[str, ...] = ()


async def prepare(judge: Judge, example: Example, model: ChatModel) -> Prepared:
    """Put together what `judge` asks `model` about `example`: the same bytes for the same memory and item.

    Raises InputError as `check_item` does.
    """
    check_item(judge, example)
    limits, memory, value_type = model.limits, judge.memory, judge.value_type
    budget = budget_of(judge, limits)
    stable = _stable(judge, limits, budget)
    found = await retrieve(judge, example, limits)
    retrieved = time.perf_counter()
    working = assemble(memory, found.cases, content=example.content, parts=judge.parts, budget=budget)
    samples = judge.parameters.get("samples", 1)
    averages = samples > 1 or judge.parameters.get("swap", False)  # and averages probabilities rather than votes
    request = ChatRequest(
        system=stable.system,
        user=render_item(working.fields, working.examples),
        schema=stable.schema,
        schema_name="judgment",
        max_tokens=_answer_tokens(judge, limits),
        temperature=judge.parameters.get("temperature", SAMPLING_TEMPERATURE if samples > 1 else 0.0),
        seed=judge.parameters.get("seed"),
        timeout=judge.parameters.get("timeout"),
        labels=tuple(label_texts(value_type)) if limits.probabilities or averages else (),
        optional=("findings",) if "findings" in stable.schema["properties"] else (),
    )
    return Prepared(
        request=request,
        guideline_ids=stable.guideline_ids,
        example_ids=working.example_ids,
        notes=(*found.notes, *working.notes, *stable.notes),
        seconds=found.seconds | {"assemble": time.perf_counter() - retrieved},
        unread=working.unread,
        shown=tuple(working.fields.values()),
    )


def check_item(judge: Judge, example: Example) -> None:
    """Raise InputError for an item that lacks a field, or holds what no prompt can."""
    if lacking := judge.lacks(example.content, "the item"):
        raise InputError(f"{example.id}: {lacking}")
    check_fields(example.id, example.content)  # an image, or a conversation that is none
    _ = example.content_hash  # raises InputError for what is no JSON value


def is_pair(judge: Judge, example: Example) -> bool:
    """Whether the item shows two sides. A question about "the reply" has no answer there, unless each side is asked alone."""
    return len(sides_of(example.content, judge.value_type.choices)) == 2


def items_alone(judge: Judge, example: Example, limits: Limits) -> tuple[str, ...]:
    """The texts that checks are asked about, as prompts show items: the item, or each of its two sides alone."""
    tokens, choices = budget_of(judge, limits).item, judge.value_type.choices
    shown: Sequence[Mapping[str, Any]] | None = parts_of_sides(example.content, judge.parts, choices)
    if shown is None:
        shown = each_side({name: part_in(example.content, name) for name in judge.parts}, choices)
    return tuple(render_item(fit_fields(each, tokens).fields, ()) for each in shown)


class _Stable(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every item: the system message, the guidelines in it, and the schema of the answer."""

    system: str
    schema: dict[str, Any]
    guideline_ids: tuple[str, ...]
    notes: tuple[str, ...]


def _stable(judge: Judge, limits: Limits, budget: Budget) -> _Stable:
    memory, value_type = judge.memory, judge.value_type

    def make() -> _Stable:
        guidelines, left_out = fit_guidelines(memory.semantic, budget.guidelines)
        system = render_judge_system(
            instructions=judge.instructions,
            fields=judge.parts,
            value_type=value_type,
            guidelines=guidelines,
            brief=limits.brief,
        )
        ids = tuple(guideline.id for guideline in guidelines)
        return _Stable(
            system=system,
            schema=answer_schema(value_type, ids, brief=limits.brief),
            guideline_ids=ids,
            notes=tuple(f"guideline {left} left out: over the token budget" for left in left_out),
        )

    key = ("prompt", judge.instructions, value_type, limits.brief, budget.guidelines)
    return kept(memory, key, make)


def budget_of(judge: Judge, limits: Limits) -> Budget:
    """Tokens that each part of a prompt for a model of these limits may take."""
    memory, answer = judge.memory, _answer_tokens(judge, limits)
    system = estimate_tokens(judge.instructions) + 500

    def make() -> Budget:
        return Budget.of(
            context_tokens=limits.context_tokens,
            system_tokens=system,
            answer_tokens=answer,
            brief=limits.brief,
            guidelines=memory.semantic,
        )

    return kept(memory, ("budget", limits.context_tokens, limits.brief, system, answer), make)


def _answer_tokens(judge: Judge, limits: Limits) -> int:
    return int(judge.parameters.get("max_tokens", 160 if limits.brief else 1024))
