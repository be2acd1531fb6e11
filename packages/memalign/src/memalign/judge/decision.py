"""A decision model judges: one request, with a question for the verdict and each guideline."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memalign.content import sides_of
from memalign.content.encoding import estimate_tokens
from memalign.errors import ConfigurationError, ModelRejected
from memalign.judge.code_tests import facts
from memalign.judge.prompt import budget_of, guideline_room, too_long
from memalign.judge.task import Item, Task
from memalign.memory import Memory
from memalign.models.base import Decision, DecisionModel, Question
from memalign.models.calls import Calls
from memalign.prompts.fitting import fit_fields, fit_guidelines
from memalign.prompts.rendering import (
    render_guideline_question,
    render_item,
    render_task,
)
from memalign.types import Finding, Guideline, Judgment
from memalign.values import Value, ValueType, value_text

__all__ = ["decided", "decision_request"]

BROKEN = 0.5
"""The probability from which on an item counts as going against a guideline."""
NAMED = 3
"""Guidelines that a reason in words names, the likeliest broken first."""


async def decided(
    task: Task, memory: Memory, item: Item, model: DecisionModel, calls: Calls
) -> Judgment:
    """Return the judgment of a judge whose model is a decision model.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        item: What is to be judged.
        model: Who is asked.
        calls: Within whose limits the model is asked.

    Raises:
        ConfigurationError: The judge's values cannot be listed.
        ModelError: The verdict has no answer.
    """
    if not task.value_type.labels:
        kinds = "true or false, categories and whole numbers; other values need a chat model"
        raise ConfigurationError(
            f"{model.name} is a decision model and answers {kinds}"
        )
    started = time.perf_counter()
    request = decision_request(task, memory, item, model)
    timeout = task.parameters.get("timeout")
    decision = await calls.decide(
        model, request.item, request.questions, timeout=timeout
    )
    chances = decision.probabilities.get("value")
    if not chances:
        why = decision.refused.get("value", f"{model.name} gave no verdict")
        raise ModelRejected(why, usage=decision.usage)
    value = _value(task.value_type, chances)
    findings = _findings(memory, request.guidelines, decision)
    broken = [
        finding.guideline
        for finding in findings
        if (finding.probability or 0.0) >= BROKEN
    ]
    refused = [f"no answer on {name}: {why}" for name, why in decision.refused.items()]
    seconds = decision.usage.seconds | {"model": time.perf_counter() - started}
    return Judgment(
        id=item.example.id,
        value=value,
        confidence=chances.get(value_text(value)),
        rationale=_in_words(memory, broken),
        findings=(*findings, *facts(memory, item.reading)),
        guideline_ids=tuple(broken),
        memory_hash=memory.hash,
        model=model.name,
        answered_by=decision.answered_by,
        usage=replace(decision.usage, seconds=seconds),
        notes=(*refused, *too_long(request.omitted)),
    )


class DecisionRequest(NamedTuple):
    """What a decision model is asked about one item.

    Attributes:
        item: The item as the model reads it.
        questions: That of the verdict, and one about each guideline.
        guidelines: Those that the model has room for.
        omitted: The ids of the others.
    """

    item: str
    questions: list[Question]
    guidelines: tuple[Guideline, ...]
    omitted: tuple[str, ...]


def decision_request(
    task: Task, memory: Memory, item: Item, model: DecisionModel
) -> DecisionRequest:
    """Return what a decision model is asked about an item."""
    guidelines, omitted = fit_guidelines(memory.semantic, guideline_room(model.limits))
    questions = [_verdict_question(task, guidelines)]
    # Of a pair, "does it go against this guideline?" has no answer.
    if not sides_of(item.example.content, task.value_type.choices):
        for guideline in guidelines:
            text = render_guideline_question(guideline)
            questions.append(Question(key=guideline.id, text=text))
    asked = estimate_tokens(*(question.text for question in questions))
    room = budget_of(task, model.limits, asked).item
    shown = render_item(fit_fields(item.seen, room).fields)
    return DecisionRequest(shown, questions, guidelines, omitted)


def _verdict_question(task: Task, guidelines: Sequence[Guideline]) -> Question:
    text = render_task(
        "decide_verdict",
        instructions=task.instructions,
        fields=task.parts,
        value_type=task.value_type,
        guidelines=guidelines,
    )
    return Question(
        key="value",
        text=text,
        kind="score" if task.value_type.numeric else "choice",
        labels=tuple(map(value_text, task.value_type.labels)),
    )


def _findings(
    memory: Memory, guidelines: Sequence[Guideline], decision: Decision
) -> list[Finding]:
    """Return a finding for each answered guideline, the likeliest broken first."""
    findings = []
    for guideline in guidelines:
        chances = decision.probabilities.get(guideline.id)
        if chances:
            finding = Finding(
                guideline=guideline.id,
                probability=chances["yes"],
                taught_by=memory.sources_of(guideline),
            )
            findings.append(finding)
    return sorted(findings, key=lambda finding: -(finding.probability or 0.0))


def _in_words(memory: Memory, broken: Sequence[str]) -> str:
    if not broken:
        return "It goes against no guideline."
    rules = [f"{name}: {memory.guideline(name).text}" for name in broken[:NAMED]]
    return f"Against {' '.join(rules)}"


def _value(value_type: ValueType, chances: Mapping[str, float]) -> Value:
    """Return the likeliest label, or of whole numbers the one nearest to the mean."""
    if not value_type.numeric:
        return max(
            value_type.labels, key=lambda label: chances.get(value_text(label), 0.0)
        )
    mean = sum(float(label) * chance for label, chance in chances.items())
    return min(value_type.labels, key=lambda label: (abs(float(label) - mean), label))
