"""The answer of a chat model: which JSON object it is asked for, and what is read from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memalign.errors import InvalidOutput, InvalidValue
from memalign.judge.evidence import quotation
from memalign.judge.samples import Sample, label_texts
from memalign.models.base import ChatReply
from memalign.types import Finding
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.judge.prompt import Prompt

__all__ = ["answer_schema", "read_answer"]

BRIEF_RATIONALE = 240  # characters: about 40 tokens, the length a weak model needs to reach a verdict


def answer_schema(value_type: ValueType, guideline_ids: Sequence[str], *, brief: bool) -> dict[str, Any]:
    """The JSON schema of an answer: findings where there are guidelines, a reason, and last the value.

    A verdict that is asked for first is justified afterwards instead of reached. A weak model (`brief`) names no
    findings: it would write on and on.
    """
    properties: dict[str, Any] = {}
    if guideline_ids and not brief:
        finding = {
            "guideline": {"type": "string", "enum": [*guideline_ids]},
            "evidence": {"type": "string"},
            "value": value_type.json_schema(),
        }
        properties["findings"] = {"type": "array", "items": _object(finding)}
    properties["rationale"] = {"type": "string"} | ({"maxLength": BRIEF_RATIONALE} if brief else {})
    properties["value"] = value_type.json_schema()
    return _object(properties)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def read_answer(judge: Judge, prompt: Prompt, reply: ChatReply, model: str) -> Sample:
    """What a model answered: its value, reason and findings.

    A finding of a guideline that was not in the prompt is dropped, and evidence that the item does not have; a note
    says so. Neither note repeats what the model wrote: judgments are kept, and may not carry anyone's words along.

    Raises:
        InvalidOutput: The value is none of the judge's value type.
    """
    value_type = judge.value_type
    try:
        value = value_type.parse(reply.data.get("value"))
    except InvalidValue as error:
        allowed = value_type.allowed
        raise InvalidOutput(
            f"{model} answered outside the value type; allowed: {allowed}", usage=reply.usage
        ) from error
    findings, notes = _findings(judge, prompt, reply.data.get("findings"))
    return Sample(
        value=value,
        rationale=str(reply.data.get("rationale") or "").strip() or None,
        chances=_chances(value_type, reply),
        findings=findings,
        notes=notes,
    )


def _findings(judge: Judge, prompt: Prompt, answer: object) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    memory, findings, notes = judge.memory, dict[str, Finding](), list[str]()
    if "findings" not in prompt.request.schema["properties"]:
        return (), ()
    if not isinstance(answer, list):
        return (), () if answer is None else ("the model's findings are no list, and are dropped",)
    for entry in _entries(answer):
        name, evidence = entry.get("guideline"), entry.get("evidence")
        if name not in prompt.guideline_ids:
            notes.append("a finding dropped: it names a guideline that was not shown")
        elif name not in findings:  # named twice it is one finding
            quoted = quotation(evidence, prompt.shown)
            if quoted is None and isinstance(evidence, str) and evidence.strip():
                notes.append(f"evidence for {name} dropped: the item does not have these words")
            findings[name] = Finding(
                guideline=name,
                evidence=quoted,
                value=_value(judge.value_type, entry.get("value")),
                taught_by=memory.sources_of(memory.guideline(name)),
            )
    return tuple(findings.values()), tuple(dict.fromkeys(notes))


def _entries(answer: list[Any]) -> Iterator[Mapping[str, Any]]:
    return (entry if isinstance(entry, dict) else {} for entry in answer)


def _value(value_type: ValueType, value: object) -> Value | None:
    try:
        return value_type.parse(value)
    except InvalidValue:
        return None


def _chances(value_type: ValueType, reply: ChatReply) -> dict[Value, float] | None:
    if reply.probabilities is None:
        return None
    return {label: reply.probabilities.get(text, 0.0) for text, label in label_texts(value_type).items()}
