"""The answer of a chat model: what is read from it, and what it quotes of the item."""

from __future__ import annotations

import json
from typing import Any

from memalign.content.normal import quote_form, quote_lines
from memalign.errors import InvalidOutput, InvalidValue
from memalign.judge.code_tests import has_word
from memalign.judge.prompt import Prompt
from memalign.judge.task import Task
from memalign.memory import Memory
from memalign.models.base import ChatModel, ChatReply
from memalign.types import Finding, Judgment
from memalign.values import Value

__all__ = ["quotation", "read_answer"]


def read_answer(
    task: Task, memory: Memory, prompt: Prompt, reply: ChatReply, model: ChatModel
) -> Judgment:
    """Return the judgment that a model's answer comes to.

    No note repeats what the model wrote: judgments are kept, and may carry nobody's words along.

    Args:
        task: What the judge asks.
        memory: What it was taught.
        prompt: What the model was asked.
        reply: What it answered.
        model: Who answered.

    Raises:
        InvalidOutput: The value is outside the judge's value type.
    """
    try:
        value = task.value_type.meant(reply.data.get("value"))
    except InvalidValue as error:
        allowed = f"allowed: {task.value_type.allowed}"
        fault = f"{model.name} answered outside the value type; {allowed}"
        raise InvalidOutput(fault, usage=reply.usage) from error
    notes: list[str] = []
    findings: tuple[Finding, ...] = ()
    guideline_ids = tuple(prompt.taught_by)
    if "findings" in prompt.request.schema["properties"]:
        findings = _findings(task, prompt, reply.data.get("findings"), notes)
    if model.limits.writes:
        # Of one that names no findings, all that it read may have counted.
        guideline_ids = tuple(finding.guideline for finding in findings)
    return Judgment(
        id=prompt.request.about,
        value=value,
        rationale=_words(reply.data.get("rationale")),
        findings=(*findings, *prompt.facts),
        guideline_ids=guideline_ids,
        example_ids=prompt.example_ids,
        memory_hash=memory.hash,
        model=model.name,
        answered_by=reply.answered_by,
        usage=reply.usage,
        notes=(*prompt.notes, *dict.fromkeys(notes)),
    )


def _words(reason: object) -> str | None:
    """Return a reason as text, in whatever form a model gave it, or None without one."""
    if isinstance(reason, list) and all(isinstance(part, str) for part in reason):
        reason = " ".join(reason)
    if reason is None or isinstance(reason, bool):
        return None
    text = reason if isinstance(reason, str) else json.dumps(reason, ensure_ascii=False)
    return text.strip() or None


# -- findings ----------------------------------------------------------------------------------


def _findings(
    task: Task, prompt: Prompt, answer: object, notes: list[str]
) -> tuple[Finding, ...]:
    """Read the findings; one of a guideline that was not in the prompt is dropped, with a note."""
    if not isinstance(answer, list):
        if answer is not None:
            notes.append(
                "the model's findings were ignored because they are not a list"
            )
        return ()
    shown = quote_lines(prompt.item_texts)
    findings: dict[str, Finding] = {}
    for entry in answer:
        name = entry.get("guideline") if isinstance(entry, dict) else None
        if not isinstance(name, str) or name not in prompt.taught_by:
            notes.append(
                "a finding was ignored because it names a guideline that was not shown"
            )
        elif name not in findings:
            quoted = _evidence(entry, shown, notes)
            findings[name] = Finding(
                guideline=name,
                evidence=quoted,
                value=_value(task, entry),
                taught_by=prompt.taught_by[name],
            )
    return tuple(findings.values())


def _evidence(entry: dict[str, Any], shown: str, notes: list[str]) -> str | None:
    """Return the words that a finding quotes; what the item does not have is noted."""
    evidence = entry.get("evidence")
    if not isinstance(evidence, str) or not evidence.strip():
        return None
    quoted = quotation(evidence, shown)
    if quoted is None:
        reason = "the item does not contain these words"
        notes.append(
            f"the evidence for {entry['guideline']} was ignored because {reason}"
        )
    return quoted


def _value(task: Task, entry: dict[str, Any]) -> Value | None:
    try:
        return task.value_type.meant(entry.get("value"))
    except InvalidValue:
        return None


_OUTER = " \"'`‘’“”„«»…"  # noqa: RUF001  # the marks are what is searched for


def quotation(evidence: str, shown: str) -> str | None:
    """Return the words that a model quotes, or None if no text has them.

    A model may escape a second time what is JSON already. A piece of a word is no quotation, for
    "not safe" is not in "not safety", and neither are marks alone.

    Args:
        evidence: What the model wrote as its evidence.
        shown: The texts that it was shown, as `quote_lines` has them.
    """
    words = " ".join(evidence.split())
    for quoted in (words, words.strip(_OUTER)):
        wanted = quote_form(quoted)
        if any(map(str.isalnum, wanted)) and has_word(shown, wanted):
            return quoted
    return None
