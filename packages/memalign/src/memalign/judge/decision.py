"""A decision model judges: one request, the verdict as a typed question and a yes/no question for each guideline."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, cast

from memalign.content import sides_of
from memalign.errors import ConfigurationError, ModelRejected
from memalign.judge.code_tests import facts
from memalign.judge.prompt import budget_of, whole_item
from memalign.judge.spec import named_parts
from memalign.models.base import Decision, DecisionModel, Question
from memalign.models.calls import Calls
from memalign.models.judge_models import open_judging_model
from memalign.prompts.fitting import fit_guidelines
from memalign.prompts.rendering import render_guideline_question, render_verdict_question
from memalign.types import Example, Finding, Guideline, Judgment, Usage
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["decided"]

BROKEN = 0.5
"""The probability from which on an item counts as going against a guideline."""
NAMED = 3
"""Guidelines that a reason in words names, the likeliest broken first."""


async def decided(judge: Judge, example: Example, calls: Calls) -> Judgment:
    """Return the judgment of a judge whose model is a decision model.

    Args:
        judge: The judge.
        example: The item.
        calls: Within whose limits the model is asked.

    Raises:
        ConfigurationError: The judge's values cannot be listed.
        ModelError: The verdict has no answer.
    """
    model = cast("DecisionModel", open_judging_model(judge))
    if not judge.value_type.labels:
        kinds = "true or false, categories and whole numbers; other values need a chat model"
        raise ConfigurationError(f"{model.name} is a decision model and answers {kinds}")
    await calls.ready(model)
    started = time.perf_counter()
    guidelines, omitted = _guidelines(judge, model)
    item, questions = decision_request(judge, example, model)
    decision = await calls.decide(model, item, questions, timeout=judge.parameters.get("timeout"))
    chances = decision.probabilities.get("value")
    if not chances:
        why = decision.refused.get("value", f"{model.name} gave no verdict")
        raise ModelRejected(why, usage=decision.usage)
    value = _value(judge.value_type, chances)
    findings = _findings(judge, guidelines, decision)
    broken = [finding.guideline for finding in findings if (finding.probability or 0.0) >= BROKEN]
    notes = [f"no answer on {name}: {why}" for name, why in decision.refused.items()]
    notes += [
        f"guideline {name} was left out because the prompt would be too long" for name in omitted
    ]
    return Judgment(
        id=example.id,
        value=value,
        confidence=chances.get(value_text(value)),
        rationale=_in_words(judge, broken),
        findings=(*findings, *facts(judge.memory, example.content)),
        guideline_ids=tuple(broken),
        memory_hash=judge.memory.hash,
        model=model.name,
        answered_by=decision.answered_by,
        usage=decision.usage + Usage(seconds={"model": time.perf_counter() - started}),
        notes=tuple(notes),
    )


def decision_request(
    judge: Judge, example: Example, model: DecisionModel
) -> tuple[str, list[Question]]:
    """Return the item as the model reads it, and what it is asked about it."""
    guidelines, _ = _guidelines(judge, model)
    questions = [_verdict_question(judge, guidelines)]
    sides = sides_of(example.content, judge.value_type.choices)
    if len(sides) < 2:  # of a pair the question about a guideline has no answer
        questions += [
            Question(key=rule.id, text=render_guideline_question(rule)) for rule in guidelines
        ]
    return whole_item(judge, example, model.limits), questions


def _guidelines(
    judge: Judge, model: DecisionModel
) -> tuple[tuple[Guideline, ...], tuple[str, ...]]:
    """Return the guidelines that fit the model, and the ids of those that do not."""
    return fit_guidelines(judge.memory.semantic, budget_of(judge, model.limits).guidelines)


def _verdict_question(judge: Judge, guidelines: tuple[Guideline, ...]) -> Question:
    value_type = judge.value_type
    text = render_verdict_question(
        instructions=judge.instructions,
        fields=named_parts(judge.instructions),
        value_type=value_type,
        guidelines=guidelines,
    )
    kind: Literal["score", "choice"] = "score" if value_type.numeric else "choice"
    return Question(
        key="value", text=text, kind=kind, labels=tuple(map(value_text, value_type.labels))
    )


def _findings(judge: Judge, guidelines: tuple[Guideline, ...], decision: Decision) -> list[Finding]:
    """Return a finding for each answered guideline, the likeliest broken first."""
    findings = []
    for guideline in guidelines:
        if chances := decision.probabilities.get(guideline.id):
            taught_by = judge.memory.sources_of(guideline)
            findings.append(
                Finding(guideline=guideline.id, probability=chances["yes"], taught_by=taught_by)
            )
    return sorted(findings, key=lambda finding: -(finding.probability or 0.0))


def _in_words(judge: Judge, broken: list[str]) -> str:
    rules = [f"{name}: {judge.memory.guideline(name).text}" for name in broken[:NAMED]]
    return f"Against {' '.join(rules)}" if rules else "It goes against no guideline."


def _value(value_type: ValueType, chances: Mapping[str, float]) -> Value:
    """Return the likeliest label; of whole numbers the one nearest to the mean."""
    if not value_type.numeric:
        return max(value_type.labels, key=lambda label: chances.get(value_text(label), 0.0))
    mean = sum(float(label) * chance for label, chance in chances.items())
    return min(value_type.labels, key=lambda label: (abs(float(label) - mean), label))
