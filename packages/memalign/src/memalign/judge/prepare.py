"""From an item to the request that a model is asked: retrieve, fit to the budget, render."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.cache import kept
from memalign.judge.parameters import SAMPLING_TEMPERATURE
from memalign.judge.samples import label_texts
from memalign.memory.budget import Budget, fit_guidelines
from memalign.memory.retrieval import Neighbourhood, embedding_text
from memalign.memory.working_memory import assemble
from memalign.models.base import ChatModel, ChatRequest, Limits
from memalign.models.resolve import resolve_embedding
from memalign.prompts import render_item, render_judge_system
from memalign.prompts.tokens import estimate_tokens
from memalign.types import Example
from memalign.values import ValueType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from memalign.judge.judge import Judge

__all__ = ["Prepared", "budget_of", "prepare"]

BRIEF_RATIONALE = 240  # characters: about 40 tokens, the length a weak model needs to reach a verdict

RETRIEVED_FROM = 8
"""Nearest cases whose demoted guidelines are shown beside those in force."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one item, and what its judgment will say about it.

    `seconds` by phase: `embed` (the item), `retrieve` (its cases), `assemble` (the prompt). `unread` is how many tokens
    the judge may read in the item's trace before its verdict, 0 where nothing was left out of the prompt; see `read_trace`.
    """

    request: ChatRequest
    guideline_ids: tuple[str, ...]
    example_ids: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]
    unread: int = 0


async def prepare(judge: Judge, example: Example, model: ChatModel) -> Prepared:
    """Put together what `judge` asks `model` about `example`: the same bytes for the same memory and item."""
    started = time.perf_counter()
    limits, memory, value_type = model.limits, judge.memory, judge.value_type
    budget = budget_of(judge, limits)
    stable = _stable(judge, limits, budget)
    k = _wanted_examples(judge, limits)
    calls = bool(memory.demoted) and budget.retrieved > 0
    reach = max(k, RETRIEVED_FROM if calls else 0)
    vector, notes = await _embed(judge, example, reach)
    embedded = time.perf_counter()
    around = Neighbourhood(memory, example, vector, value_type, judge=judge.base_fingerprint)
    hits = around.hits(k)
    retrieved = memory.retrieved_for(hit.case for hit in around.hits(reach)) if calls else ()
    searched = time.perf_counter()
    working = assemble(memory, hits, retrieved, content=example.content, fields=judge.fields, budget=budget)
    samples = judge.parameters.get("samples", 1)
    request = ChatRequest(
        system=stable.system,
        user=render_item(working.fields, working.examples, working.guidelines),
        schema=stable.schema,
        schema_name="judgment",
        max_tokens=_answer_tokens(judge, limits),
        temperature=judge.parameters.get("temperature", SAMPLING_TEMPERATURE if samples > 1 else 0.0),
        seed=judge.parameters.get("seed"),
        timeout=judge.parameters.get("timeout"),
        labels=tuple(label_texts(value_type)) if limits.probabilities or _weighs(judge) else (),
    )
    return Prepared(
        request=request,
        guideline_ids=(*stable.guideline_ids, *(guideline.id for guideline in working.guidelines)),
        example_ids=working.example_ids,
        notes=(*notes, *working.notes, *stable.notes),
        seconds={
            "embed": embedded - started,
            "retrieve": searched - embedded,
            "assemble": time.perf_counter() - searched,
        },
        unread=working.unread,
    )


class _Stable(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for every item: the system message, the guidelines in it, and the schema of the answer."""

    system: str
    schema: dict[str, Any]
    guideline_ids: tuple[str, ...]
    notes: tuple[str, ...]


def _stable(judge: Judge, limits: Limits, budget: Budget) -> _Stable:
    memory, value_type = judge.memory, judge.value_type

    def make() -> _Stable:
        guidelines, left_out = fit_guidelines(
            memory.semantic, budget.guidelines, corrective=lambda: memory.corrective, topics=memory.topics
        )
        reason: Literal["brief", "full"] = "brief" if limits.brief else "full"
        system = render_judge_system(
            instructions=judge.instructions,
            fields=judge.fields,
            value_type=value_type,
            guidelines=guidelines,
            style=reason if _reasoned(judge) else "none",
        )
        return _Stable(
            system=system,
            schema=_answer_schema(value_type, reasoned=_reasoned(judge), brief=limits.brief),
            guideline_ids=tuple(guideline.id for guideline in guidelines),
            notes=tuple(f"guideline {left} left out: over the token budget" for left in left_out),
        )

    key = ("prompt", judge.instructions, value_type, _reasoned(judge), limits.brief, budget.guidelines)
    return kept(memory, key, make)


def budget_of(judge: Judge, limits: Limits) -> Budget:
    """Tokens that each part of a prompt for a model of these limits may take."""
    return Budget.of(
        context_tokens=limits.context_tokens,
        system_tokens=estimate_tokens(judge.instructions) + 400,
        answer_tokens=_answer_tokens(judge, limits),
        brief=limits.brief,
    )


def _reasoned(judge: Judge) -> bool:
    return judge.parameters.get("verdict") != "direct"


def _weighs(judge: Judge) -> bool:
    """Whether the judge needs to know how probable each label was, whatever that costs."""
    return not _reasoned(judge) or judge.parameters.get("abstain_below", 0) > 0


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
