"""From an item to the request that a model is asked: retrieve, fit to the budget, render."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from memalign.judge.ballots import label_texts
from memalign.judge.parameters import SAMPLING_TEMPERATURE
from memalign.memory.budget import Budget, estimate_tokens, fit_guidelines
from memalign.memory.retrieval import embedding_text, retrieve
from memalign.memory.working import assemble
from memalign.models.base import ChatModel, ChatRequest, Limits
from memalign.models.resolve import resolve_embedding
from memalign.prompts import render_item, render_judge_system
from memalign.records import Example, Guideline
from memalign.values import ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge

__all__ = ["Prepared", "budget_of", "prepare"]

BRIEF_RATIONALE = 240  # characters: about 40 tokens, the length a weak model needs to reach a verdict

CALLED_FROM = 8
"""Nearest cases whose demoted guidelines are shown beside those in force."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one item, and what its judgment will say about it.

    `seconds` by phase: `embed` (the item), `retrieve` (its cases), `assemble` (the prompt).
    """

    request: ChatRequest
    guideline_ids: tuple[str, ...]
    example_ids: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]


async def prepare(judge: Judge, example: Example, model: ChatModel) -> Prepared:
    """Put together what `judge` asks `model` about `example`: the same bytes for the same memory and item."""
    started = time.perf_counter()
    limits, memory, value_type = model.limits, judge.memory, judge.value_type
    budget = budget_of(judge, limits)
    guidelines, left_out = fit_guidelines(memory.semantic, budget.guidelines, corrective=lambda: memory.corrective)
    k = _wanted_examples(judge, limits)
    calls = bool(memory.demoted) and budget.called > 0
    reach = max(k, CALLED_FROM if calls else 0)
    vector, notes = await _embed(judge, example, reach)
    embedded = time.perf_counter()
    hits = retrieve(memory, example, vector, k, value_type)
    called: tuple[Guideline, ...] = ()
    if calls:
        called = memory.called_for(hit.case for hit in retrieve(memory, example, vector, reach, value_type))
    retrieved = time.perf_counter()
    working = assemble(memory, hits, called, content=example.content, fields=judge.fields, budget=budget)
    samples = judge.parameters.get("samples", 1)
    reasoned = judge.parameters.get("verdict") != "direct"
    system = render_judge_system(
        instructions=judge.instructions,
        fields=judge.fields,
        value_type=value_type,
        guidelines=guidelines,
        style=("brief" if limits.brief else "full") if reasoned else "none",
    )
    request = ChatRequest(
        system=system,
        user=render_item(working.fields, working.examples, working.guidelines),
        schema=_answer_schema(value_type, reasoned=reasoned, brief=limits.brief),
        schema_name="judgment",
        max_tokens=_answer_tokens(judge, limits),
        temperature=judge.parameters.get("temperature", SAMPLING_TEMPERATURE if samples > 1 else 0.0),
        seed=judge.parameters.get("seed"),
        timeout=judge.parameters.get("timeout"),
        labels=tuple(label_texts(value_type)) if limits.probabilities or _weighs(judge) else (),
    )
    return Prepared(
        request=request,
        guideline_ids=tuple(guideline.id for guideline in (*guidelines, *working.guidelines)),
        example_ids=working.example_ids,
        notes=(*notes, *working.notes, *(f"guideline {g} left out: over the token budget" for g in left_out)),
        seconds={
            "embed": embedded - started,
            "retrieve": retrieved - embedded,
            "assemble": time.perf_counter() - retrieved,
        },
    )


def budget_of(judge: Judge, limits: Limits) -> Budget:
    """Tokens that each part of a prompt for a model of these limits may take."""
    return Budget.of(
        context_tokens=limits.context_tokens,
        system_tokens=estimate_tokens(judge.instructions) + 400,
        answer_tokens=_answer_tokens(judge, limits),
        brief=limits.brief,
    )


def _weighs(judge: Judge) -> bool:
    """Whether the judge needs to know how probable each label was, whatever that costs."""
    return judge.parameters.get("verdict") == "direct" or judge.parameters.get("abstain_below", 0) > 0


def _wanted_examples(judge: Judge, limits: Limits) -> int:
    """How many similar cases to show: as the judge says, else as admission found good, else as suits the model."""
    wishes = (judge.retrieval_k, judge.memory.examples, limits.examples)
    return next(wish for wish in wishes if wish is not None)


def _answer_tokens(judge: Judge, limits: Limits) -> int:
    return int(judge.parameters.get("max_tokens", 160 if limits.brief else 1024))


async def _embed(judge: Judge, example: Example, k: int) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """The example's vector, of length 0 where there is nothing to compare it with, and notes."""
    import numpy as np  # not at import: see retrieval

    memory = judge.memory
    if not memory.cases or k == 0:
        return np.zeros(0, dtype=np.float32), ()
    model = resolve_embedding(judge.embedding_model)
    if memory.embedding_model not in (None, model.name):
        # Vectors of two models compare to noise, and with equal lengths nothing else would tell.
        note = f"no similar examples: memory has vectors of {memory.embedding_model}, not of {model.name}"
        return np.zeros(0, dtype=np.float32), (note,)
    return (await model.embed([embedding_text(example)]))[0], ()


def _answer_schema(value_type: ValueType, *, reasoned: bool, brief: bool) -> dict[str, Any]:
    """Rationale first: a verdict that is asked for first is justified afterwards instead of reached."""
    if not reasoned:
        return {
            "type": "object",
            "properties": {"value": value_type.json_schema()},
            "required": ["value"],
            "additionalProperties": False,
        }
    rationale = {"type": "string"} | ({"maxLength": BRIEF_RATIONALE} if brief else {})
    return {
        "type": "object",
        "properties": {"rationale": rationale, "value": value_type.json_schema()},
        "required": ["rationale", "value"],
        "additionalProperties": False,
    }
