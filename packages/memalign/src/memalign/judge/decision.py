"""Decision models: typed questions about an item, asked at once, and what they come to.

A decision model may be a judge's `check_model` beside a chat model, or its `model`: then it is asked for the verdict in
the same request. Of a pair each side is asked alone, and the difference counts: swapping the sides turns the sign.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, cast

from msgspec.structs import replace

from memalign.cache import cached
from memalign.errors import ConfigurationError, ModelError, ModelRejected
from memalign.judge.code_tests import asked_by, facts
from memalign.judge.observations import contrast, expectations, labelled_cases, observe, pair_in
from memalign.judge.prompt import budget_of, items_alone, whole_item
from memalign.judge.spec import base_fingerprint_of, named_parts
from memalign.memory.model import Answers, Memory, questions_of
from memalign.models.base import Decision, DecisionModel, Limits, Question
from memalign.models.calls import Calls
from memalign.models.judge_models import check_model_of, open_judging_model
from memalign.prompts.fitting import fit_guidelines
from memalign.prompts.rendering import render_verdict_question
from memalign.types import Example, Finding, Guideline, Judgment, Usage
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge.calibrator import Calibrator
    from memalign.judge.judge import Judge

__all__ = ["answered_about", "asked_checks", "calibrator_of", "decided", "margin_of", "with_checks"]

MOST_LABELS = 10  # with more there is no calibrator
NAMED = 3  # guidelines that a reason in words names, the weightiest first


async def with_checks(judge: Judge, example: Example, own: Judgment, calls: Calls) -> Judgment:
    """A chat model's judgment, weighed with what the check model answers; as it is without one, or if that fails."""
    model = check_model_of(judge)
    if model is None:
        return own
    try:
        answers, checked = await answered_about(judge, example, model, calls)
    except ModelError as error:
        notes, usage = (*own.notes, f"no answer to checks: {error}"), own.usage + (error.usage or Usage())
        return replace(own, notes=notes, usage=usage)
    findings, notes = (*own.findings, *checked.findings), (*own.notes, *checked.notes)
    own = replace(own, findings=findings, notes=notes, usage=own.usage + checked.usage)
    return _weighed(judge, example, own, answers)


async def decided(judge: Judge, example: Example, calls: Calls) -> Judgment:
    """The judgment of a judge whose model is a decision model: one request for the verdict and all questions.

    Raises ConfigurationError where the judge's values cannot be listed, and ModelError where the verdict has no answer.
    """
    model = cast("DecisionModel", open_judging_model(judge))
    if not judge.value_type.labels:
        kinds = "true or false, categories and whole numbers; other values need a chat model"
        raise ConfigurationError(f"{model.name} is a decision model and answers {kinds}")
    answers, own = await answered_about(judge, example, model, calls, verdict=True)
    if own.value is None:
        raise ModelRejected("; ".join(own.notes) or f"{model.name} gave no verdict", usage=own.usage)
    memory = judge.memory
    own = replace(own, findings=(*own.findings, *facts(memory, example.content, judge.value_type.choices)))
    judgment = _weighed(judge, example, own, answers)
    return replace(
        judgment,
        guideline_ids=tuple(guideline.id for guideline in _firing(memory, judgment.findings)),
        rationale=judgment.rationale or _in_words(memory, judgment.findings),
    )


def calibrator_of(judge: Judge) -> Calibrator | None:
    """The calibrator fitted to what this very judge's models answered, once for all who ask; None without one."""
    value_type, memory = judge.value_type, judge.memory
    if not 0 < len(value_type.labels) <= MOST_LABELS or not memory.cases:
        return None

    def make() -> Calibrator | None:
        from memalign.judge.calibrator import fit  # computes with vectors, whose library takes a while to import

        calibrator = fit(value_type, labelled_cases(judge), pair_in(judge))
        return calibrator if calibrator.fitted or any(guideline.checks for guideline in memory.semantic) else None

    return cached(memory, ("calibrator", base_fingerprint_of(judge)), make)


def _weighed(judge: Judge, example: Example, own: Judgment, answers: Answers) -> Judgment:
    """The judgment with the calibrator's say: its value where held-out cases say it is better, and its confidence."""
    calibrator, memory = calibrator_of(judge), judge.memory
    if calibrator is None:
        return own
    answers = replace(answers, verdict=own.value, expected=expectations(memory.semantic))
    observation = observe(judge, example, answers)
    decides, rationale = calibrator.worth.decides, own.rationale
    value = calibrator.verdict(observation) if decides or own.value is None else own.value
    findings = _contributing(own.findings, calibrator.parts(observation, value))
    if decides:
        also = f" The model's own verdict: {value_text(own.value)}. {rationale or ''}".rstrip()
        rationale = _in_words(memory, findings) + also
    return replace(
        own,
        value=value,
        decided_by="calibrator" if decides else "model",
        findings=findings,
        # How sure the verdict delivered is, the calibrator says where labelled cases taught it; else the model itself.
        confidence=calibrator.says(observation).get(value) if calibrator.fitted else own.confidence,
        rationale=rationale,
    )


def _contributing(findings: Sequence[Finding], parts: Mapping[str, float]) -> tuple[Finding, ...]:
    """The findings with what each contributes to the verdict, and with what no expert taught, the weightiest first."""
    taught = [replace(f, contribution=parts.get(f.check)) if f.check else f for f in findings]
    rest = {name: part for name, part in parts.items() if part and all(f.check != name for f in findings)}
    untaught = [Finding(guideline=None, check=name, contribution=part) for name, part in rest.items()]
    return tuple(sorted((*taught, *untaught), key=lambda finding: -abs(finding.contribution or 0.0)))


def _firing(memory: Memory, findings: Sequence[Finding]) -> list[Guideline]:
    """The guidelines of which every answer is as their experts would expect it, the weightiest first."""
    order = {(finding.check, finding.answer): place for place, finding in enumerate(findings)}
    expected = {rule.id: [(check.question, check.answer) for check in rule.checks] for rule in memory.semantic}
    firing = [rule for rule in memory.semantic if rule.checks and order.keys() >= {*expected[rule.id]}]
    return sorted(firing, key=lambda rule: min(order[answer] for answer in expected[rule.id]))


def _in_words(memory: Memory, findings: Sequence[Finding]) -> str:
    """The weightiest guidelines that fire, with the answers for which they do; of a pair the weightiest answers."""
    reasons = [
        f"{rule.id}: {rule.text} Here: {'; '.join(f'{c.question} {c.answer}' for c in rule.checks)}."
        for rule in _firing(memory, findings)[:NAMED]
    ]
    if not reasons:
        weighty = [finding.guideline for finding in findings if finding.guideline and finding.contribution][:NAMED]
        reasons = [f"{name}: {memory.guideline(name).text}" for name in weighty]
    return " ".join(reasons) or "No guideline applies."


def asked_checks(memory: Memory) -> tuple[Finding, ...]:
    """The questions that a judgment asks, each once, as findings without answers in the order of the guidelines."""

    def make() -> tuple[Finding, ...]:
        return tuple(asked_by(memory, question, rules) for question, rules in questions_of(memory.semantic).items())

    return cached(memory, "asked checks", make)


async def answered_about(
    judge: Judge, example: Example, model: DecisionModel, calls: Calls, *, verdict: bool = False
) -> tuple[Answers, Judgment]:
    """What a model answers about an item, to all questions of the guidelines and for `verdict`; and its judgment.

    It is one request; of a pair one a side, and one for the verdict. Raises ModelError where nothing has an answer.
    """
    started, limits = time.perf_counter(), model.limits
    asking = {f"q{n}": check for n, check in enumerate(asked_checks(judge.memory), 1)}
    items = items_alone(judge, example, limits)
    requests = [(item, [Question(key=key, text=check.check) for key, check in asking.items()]) for item in items]
    if verdict:
        requests += [(whole_item(judge, example, limits), [])] if len(items) > 1 else []
        requests[-1][1].append(_verdict_question(judge, limits))
    decisions, spent = list[Decision](), Usage()
    try:
        for state, questions in requests:
            if questions:
                decisions.append(await calls.decide(model, state, questions, timeout=judge.parameters.get("timeout")))
                spent += decisions[-1].usage
    except ModelError as error:
        error.usage = spent + (error.usage or Usage())
        raise
    margins, findings = dict[str, float | None](), list[Finding]()
    for key, check in asking.items():
        sides = [decision.probabilities[key] for decision in decisions if key in decision.probabilities]
        if len(sides) == len(items):
            margins[check.check] = contrast([margin_of(side) for side in sides])
            findings.append(check if len(sides) > 1 else _answered(check, sides[0]))
    chances = decisions[-1].probabilities.get("value", {}) if verdict else {}
    value = _value(judge.value_type, chances) if chances else None
    names = {key: f"no answer to a check of {check.guideline}" for key, check in asking.items()}
    refused = {key: why for decision in decisions for key, why in decision.refused.items()}
    answers = Answers(judge=base_fingerprint_of(judge), margins=margins, verdict=value, chances=chances)
    return answers, Judgment(
        id=example.id,
        value=value,
        own_value=value,
        confidence=chances.get(value_text(value)),
        findings=tuple(findings),
        memory_hash=judge.memory.hash,
        model=model.name,
        usage=spent + Usage(seconds={"checks": time.perf_counter() - started}),
        notes=tuple(f"{names.get(key, 'no verdict')}: {why}" for key, why in refused.items()),
    )


def _answered(check: Finding, chances: Mapping[str, float]) -> Finding:
    answers: tuple[Literal["yes", "no", "n/a"], ...] = ("yes", "no", "n/a")
    answer = max(answers, key=lambda label: chances.get(label, 0.0))
    return replace(check, answer=answer, probability=chances.get("yes", 0.0))


def margin_of(chances: Mapping[str, float]) -> float | None:
    """The log-odds of yes, of the probabilities of yes, no and n/a; None where "does not apply" is the likeliest."""
    yes, no = chances.get("yes", 0.0), chances.get("no", 0.0)
    return None if chances.get("n/a", 0.0) > max(yes, no) else math.log(max(yes, 1e-9) / max(no, 1e-9))


def _verdict_question(judge: Judge, limits: Limits) -> Question:
    value_type, fields = judge.value_type, named_parts(judge.instructions)
    guidelines, _ = fit_guidelines(judge.memory.semantic, budget_of(judge, limits).guidelines)
    text = render_verdict_question(
        instructions=judge.instructions, fields=fields, value_type=value_type, guidelines=guidelines
    )
    kind: Literal["score", "choice"] = "score" if value_type.numeric else "choice"
    return Question(key="value", text=text, kind=kind, labels=tuple(map(value_text, value_type.labels)))


def _value(value_type: ValueType, chances: Mapping[str, float]) -> Value:
    """The likeliest label; of whole numbers that nearest to the mean."""
    if not value_type.numeric:
        return max(value_type.labels, key=lambda label: chances.get(value_text(label), 0.0))
    mean = sum(float(label) * chance for label, chance in chances.items())
    return min(value_type.labels, key=lambda label: (abs(float(label) - mean), label))
