"""The answer of a chat model: which JSON object it is asked for, what is read from it, and what it quotes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memalign.content.normal import quote_form
from memalign.errors import InvalidOutput, InvalidValue
from memalign.judge.code_tests import places
from memalign.models.base import ChatModel, ChatReply
from memalign.types import Finding, Judgment
from memalign.values import ValueType

if TYPE_CHECKING:
    from memalign.judge.judge import Judge
    from memalign.judge.prompt import Prompt

__all__ = ["answer_schema", "quotation", "read_answer"]

SHORT_RATIONALE = (
    240  # characters: about 40 tokens, the length a weak model needs to reach a verdict
)


def answer_schema(
    value_type: ValueType, guideline_ids: Sequence[str], *, writes: bool
) -> dict[str, Any]:
    """The JSON schema of an answer: findings where there are guidelines, a reason, and last the value.

    A verdict that is asked for first is justified afterwards instead of reached. A model that does not write names no
    findings: it would write on and on.
    """
    properties: dict[str, Any] = {}
    if guideline_ids and writes:
        finding = {
            "guideline": {"type": "string", "enum": [*guideline_ids]},
            "evidence": {"type": "string"},
            "value": value_type.json_schema(),
        }
        properties["findings"] = {"type": "array", "items": _object(finding)}
    properties["rationale"] = (
        {"type": "string"} if writes else {"type": "string", "maxLength": SHORT_RATIONALE}
    )
    properties["value"] = value_type.json_schema()
    return _object(properties)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def read_answer(judge: Judge, prompt: Prompt, reply: ChatReply, model: ChatModel) -> Judgment:
    """The judgment that a model's answer comes to. Raises InvalidOutput for a value outside the judge's value type.

    A finding of a guideline that was not in the prompt is dropped, and evidence that the item does not have; a note
    says so. Neither note repeats what the model wrote: judgments are kept, and may not carry anyone's words along.
    """
    value_type = judge.value_type
    try:
        value = value_type.parse(reply.data.get("value"))
    except InvalidValue as error:
        wrong = f"{model.name} answered outside the value type; allowed: {value_type.allowed}"
        raise InvalidOutput(wrong, usage=reply.usage) from error
    findings, notes = _findings(judge, prompt, reply.data.get("findings"))
    applied = tuple(finding.guideline for finding in findings if finding.guideline)
    return Judgment(
        id=prompt.request.about,
        value=value,
        rationale=_words(reply.data.get("rationale")),
        findings=(*findings, *prompt.facts),
        # Of a model that names no findings all that it read may have counted.
        guideline_ids=applied if model.limits.writes else prompt.guideline_ids,
        example_ids=prompt.example_ids,
        memory_hash=judge.memory.hash,
        model=model.name,
        answered_by=reply.answered_by,
        usage=reply.usage,
        notes=(*prompt.notes, *notes),
    )


def _words(reason: object) -> str | None:
    """Return a reason as text, in whatever form a model gave it; None without one."""
    if isinstance(reason, list) and all(isinstance(part, str) for part in reason):
        reason = " ".join(reason)
    if reason is None or isinstance(reason, bool):
        return None
    text = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
    return text.strip() or None


def _findings(
    judge: Judge, prompt: Prompt, answer: object
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    memory, findings, notes = judge.memory, dict[str, Finding](), list[str]()
    if "findings" not in prompt.request.schema["properties"]:
        return (), ()
    if not isinstance(answer, list):
        return (), () if answer is None else (
            "the model's findings were ignored because they are not a list",
        )
    for entry in (entry if isinstance(entry, dict) else {} for entry in answer):
        name, evidence = entry.get("guideline"), entry.get("evidence")
        if name not in prompt.guideline_ids:
            notes.append("a finding was ignored because it names a guideline that was not shown")
        elif name not in findings:  # named twice it is one finding
            quoted = quotation(evidence, prompt.item_texts)
            if quoted is None and isinstance(evidence, str) and evidence.strip():
                notes.append(
                    f"the evidence for {name} was ignored because the item does not contain these words"
                )
            try:
                value = judge.value_type.parse(entry.get("value"))
            except InvalidValue:
                value = None
            taught_by = memory.sources_of(memory.guideline(name))
            findings[name] = Finding(
                guideline=name, evidence=quoted, value=value, taught_by=taught_by
            )
    return tuple(findings.values()), tuple(dict.fromkeys(notes))


_OUTER = " \"'`‘’“”„«»…"  # noqa: RUF001  # the marks are what is searched for


def quotation(evidence: object, texts: Iterable[str]) -> str | None:
    """The words that `evidence` quotes, if one of the texts that a model was shown has them; else None.

    Compared is the normal form of tests, with all quotation marks as the same one and JSON's escapes as what they stand
    for, on both sides: the texts are JSON, and a model may escape a second time. A piece of a word is no quotation, for
    "not safe" is not in "not safety", and neither are marks alone.
    """
    if not isinstance(evidence, str):
        return None
    words, plain = " ".join(evidence.split()), [quote_form(text) for text in texts]
    for quoted in (words, words.strip(_OUTER)):
        wanted = quote_form(quoted)
        if any(map(str.isalnum, wanted)) and any(
            next(places(text, wanted), -1) >= 0 for text in plain
        ):
            return quoted
    return None
