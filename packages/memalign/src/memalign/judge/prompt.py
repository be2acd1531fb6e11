"""From an item to the request that a chat model is asked, fitted to the model's context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from memalign.cache import cached
from memalign.content import span_tree
from memalign.content.encoding import estimate_tokens
from memalign.judge.code_tests import facts
from memalign.judge.rules import kept_rules
from memalign.judge.standing import expert_words
from memalign.judge.task import Item, Task
from memalign.memory import Case, Memory
from memalign.memory.label_policy import policy_label
from memalign.memory.retrieval import embedding_text, similar_cases
from memalign.models.base import ChatModel, ChatRequest, Limits
from memalign.models.calls import Calls
from memalign.models.resolve import resolve_embedding
from memalign.prompts.fitting import fit_example, fit_fields, fit_guidelines
from memalign.prompts.rendering import RenderedExample, render_item, render_task
from memalign.types import Example, FeedbackKey, Finding
from memalign.values import ValueType

__all__ = [
    "Prompt",
    "budget_of",
    "guideline_room",
    "object_schema",
    "prompt_of",
    "retrieve",
    "shown_case",
    "too_long",
]

_SHORT_RATIONALE = 240
"""Characters: about 40 tokens, the length a weak model needs to reach a verdict."""

_MOST_GUIDELINE_TOKENS = 4000
"""Models follow instructions worse the more there are (IFScale, arXiv 2507.11538)."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """The request for one item, and what its judgment will say about it.

    Attributes:
        request: What the model is asked.
        taught_by: The guidelines in the prompt, each with the feedback behind it.
        example_ids: The similar cases in it, the most useful last.
        facts: What tests of guidelines found in the item.
        notes: What was cut or left out.
        item_texts: The encoded texts of the item itself, which evidence may quote.
    """

    request: ChatRequest
    taught_by: Mapping[str, tuple[FeedbackKey, ...]]
    example_ids: tuple[str, ...] = ()
    facts: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    item_texts: tuple[str, ...] = ()


async def prompt_of(
    task: Task, memory: Memory, item: Item, model: ChatModel, calls: Calls
) -> Prompt:
    """Return what a judge asks about an item; the same bytes for the same memory and item.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        item: What is to be judged.
        model: Who is asked.
        calls: Within whose limits the item is embedded.
    """
    # The system message is the same for every item, so that providers serve it from cache.
    stable, tokens = _stable(task, memory, model.limits)
    # What tests find is said before the item as a fact, and takes its tokens from the item's.
    found: tuple[Finding, ...] = ()
    said: list[str] = []
    if memory.tests:
        found = facts(memory, item.reading)
        said = _said(task, memory, found)
        tokens += estimate_tokens(*said)
    budget = budget_of(task, model.limits, tokens)
    # Similar cases, the most useful one next to the item, where models weigh an example most
    # (arXiv 2104.08786).
    similar, notes = await retrieve(task, memory, item.example, model.limits, calls)
    examples, example_notes = _fitted_cases(task, memory, item.example, similar, budget)
    # The item comes last, each of its parts cut to an equal share of what is left.
    fitted = fit_fields(item.seen, budget.item)
    tree = span_tree(item.seen["trace"]) if "trace" in item.seen else None
    request = replace(
        stable.request,
        user=render_item(fitted.fields, [rendered for _, rendered in examples], said),
        about=item.example.id,
        max_tokens=_answer_tokens(task),
        temperature=task.parameters.get("temperature", 0.0),
        seed=task.parameters.get("seed"),
        timeout=task.parameters.get("timeout"),
    )
    return replace(
        stable,
        request=request,
        example_ids=tuple(name for name, _ in examples),
        facts=found,
        notes=(
            *notes,
            *example_notes,
            *fitted.notes,
            *(tree.notes if tree else ()),
            *stable.notes,
        ),
        item_texts=tuple(fitted.fields.values()),
    )


def _said(task: Task, memory: Memory, found: Sequence[Finding]) -> list[str]:
    """Return facts as a prompt says them, without the rules that the item keeps."""
    kept = kept_rules(memory, task.value_type, found)
    said = []
    for finding in found:
        if finding.test not in kept:
            answer = "yes" if finding.holds else "no"
            said.append(f"{finding.test}: {answer}")
    return said


def _stable(task: Task, memory: Memory, limits: Limits) -> tuple[Prompt, int]:
    """Return the prompt without an item, and its tokens."""
    room = guideline_room(limits)

    def make() -> tuple[Prompt, int]:
        guidelines, omitted = fit_guidelines(memory.semantic, room)
        system = render_task(
            "judge_system",
            instructions=task.instructions,
            fields=task.parts,
            value_type=task.value_type,
            guidelines=guidelines,
            writes=limits.writes,
        )
        taught_by = {each.id: memory.sources[each.id] for each in guidelines}
        schema = _answer_schema(task.value_type, [*taught_by], writes=limits.writes)
        optional = tuple(name for name in schema["properties"] if name != "value")
        request = ChatRequest(
            system=system,
            user="",
            schema=schema,
            schema_name="judgment",
            optional=optional,
        )
        notes = too_long(omitted)
        stable = Prompt(request=request, taught_by=taught_by, notes=notes)
        return stable, estimate_tokens(system)

    key = ("prompt", task.instructions, task.value_type, limits.writes, room)
    return cached(memory, key, make)


def too_long(omitted: Sequence[str]) -> tuple[str, ...]:
    """Return a note for each guideline that a prompt has no room for."""
    reason = "was left out because the prompt would be too long"
    return tuple(f"guideline {name} {reason}" for name in omitted)


def _answer_schema(
    value_type: ValueType, guideline_ids: Sequence[str], *, writes: bool
) -> dict[str, Any]:
    """Return the JSON schema of an answer: findings, a reason, and last the value.

    A verdict that is asked for first is justified afterwards instead of reached.

    Args:
        value_type: What may be answered.
        guideline_ids: The guidelines that a finding may name; without any there are no findings.
        writes: Whether the model can write findings; a weak one would write on and on.
    """
    value = value_type.json_schema()
    properties: dict[str, Any] = {}
    if guideline_ids and writes:
        finding = {
            "guideline": {"type": "string", "enum": [*guideline_ids]},
            "evidence": {"type": "string"},
            "value": value,
        }
        properties["findings"] = {"type": "array", "items": object_schema(finding)}
    properties["rationale"] = {"type": "string"}
    if not writes:
        properties["rationale"]["maxLength"] = _SHORT_RATIONALE
    properties["value"] = value
    return object_schema(properties)


def object_schema(
    properties: dict[str, Any], required: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties, all required unless some are."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*(required or properties)],
        "additionalProperties": False,
    }


# -- room --------------------------------------------------------------------------------------


class Budget(NamedTuple):
    """Tokens that each part of a judge's user message may take.

    Attributes:
        example: One similar case.
        examples: All similar cases.
        item: The item.
    """

    example: int
    examples: int
    item: int


def guideline_room(limits: Limits) -> int:
    """Return the tokens that the guidelines of a prompt may take; pinned ones always stay."""
    return min(limits.context_tokens // 8, _MOST_GUIDELINE_TOKENS)


def budget_of(task: Task, limits: Limits, taken: int) -> Budget:
    """Divide what the context leaves: half for the item, a third for examples.

    Args:
        task: Says how long the answer may be.
        limits: The model's.
        taken: Tokens of what is asked, and of what else is said about the item.
    """
    free = max(limits.context_tokens - taken - _answer_tokens(task), 256)
    return Budget(
        example=min(1500, free // 6),
        examples=free // 3,
        item=free // 2,
    )


def _answer_tokens(task: Task) -> int:
    return int(task.parameters.get("max_tokens", 1024))


# -- similar cases -----------------------------------------------------------------------------


async def retrieve(
    task: Task, memory: Memory, example: Example, limits: Limits, calls: Calls
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Return the past cases that an item is judged beside, the most useful first, and notes.

    Args:
        task: What the judge asks.
        memory: Holds the cases.
        example: The item.
        limits: Those of the model that will see the cases.
        calls: Within whose limits the item is embedded; no judge model is asked.
    """
    if not memory.cases:
        # Without the library of vectors, which takes a while to import.
        return (), ()
    import numpy as np

    vector = np.zeros(0, dtype=np.float32)
    notes: tuple[str, ...] = ()
    k = limits.examples if task.retrieval_k is None else task.retrieval_k
    if k:
        model = resolve_embedding(task.embedding_model)
        if memory.embedding_model in (None, model.name):
            vector = (await calls.embed(model, [embedding_text(example)]))[0]
        else:  # vectors of two models compare to noise
            notes = (
                "no similar cases were shown because memory has vectors of "
                f"{memory.embedding_model}, not of {model.name}; to make new ones: "
                "memalign align NAME",
            )
    fingerprint = task.base_fingerprint
    cases = similar_cases(
        memory, example, vector, task.value_type, k, judge=fingerprint
    )
    return cases, notes


def _fitted_cases(
    task: Task,
    memory: Memory,
    example: Example,
    similar: Sequence[Case],
    budget: Budget,
) -> tuple[list[tuple[str, RenderedExample]], list[str]]:
    """Return the cases that fit, by id, the most useful last, and notes.

    What people said of this very item always fits.
    """
    fitting: list[tuple[str, RenderedExample]] = []
    notes: list[str] = []
    used = 0
    for case in similar:
        rendered, missing = shown_case(task, memory, case, budget.example)
        texts = [text for _, text in rendered.fields]
        cost = estimate_tokens(rendered.answer, *texts)
        identical = case.example.content_hash == example.content_hash
        if identical or used + cost <= budget.examples:
            used += cost
            fitting.append((case.id, rendered))
            notes += [f"example {case.id}: {note}" for note in missing]
        else:
            room = f"similar cases have only {budget.examples} tokens"
            notes.append(f"case {case.id} was left out because {room}")
    fitting.reverse()
    return fitting, notes


def shown_case(
    task: Task, memory: Memory, case: Case, tokens: int
) -> tuple[RenderedExample, tuple[str, ...]]:
    """Return a case as a prompt shows it, with the words of all who gave its label, and notes.

    Args:
        task: Which parts of the case a judge sees.
        memory: Knows what people said of the case.
        case: The case.
        tokens: The room for its fields, and again for the words.
    """
    content = task.shown(case.example.content)
    annotations = memory.annotations_on(case)
    label = policy_label(annotations, memory.authority)
    words = expert_words(annotations, label)
    return fit_example(content, words, label, tokens)
