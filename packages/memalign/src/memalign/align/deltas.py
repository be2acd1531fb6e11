"""What a distillation call may answer, and the typed deltas that its answer stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from memalign.align.position_terms import without_positions
from memalign.content import sides_of
from memalign.memory import Annotation, Case
from memalign.memory.guard import tidy
from memalign.models.base import ChatReply
from memalign.prompts.language import Language, language_of
from memalign.types import FeedbackKey
from memalign.values import ValueType

__all__ = ["ONE_RULE", "Delta", "deltas_of", "deltas_schema", "rule_of"]


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """One typed change to a shard's guidelines, as a model proposed it (ACE, arXiv 2510.04618).

    `feedback` are the keys it states; `guideline` the id that SUPPORT and REVISE are about.
    """

    action: str
    text: str = ""
    feedback: tuple[FeedbackKey, ...] = ()
    guideline: str | None = None


WHEN_AND: dict[Language, tuple[str, str]] = {
    "English": ("When", "and"),
    "Portuguese": ("Quando", "e"),
    "Spanish": ("Cuando", "y"),
}
PART = 180  # characters of each half of a rule: about 25 words, so that a rule stays below the limit of 60

ONE_RULE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "maxLength": PART},
        "because": {"type": "string", "maxLength": PART},
    },
    "required": ["when", "because"],
    "additionalProperties": False,
}


def rule_of(reply: ChatReply, *, annotation: Annotation, case: Case, value_type: ValueType) -> Delta:
    """The rule that a weak model's two half sentences make, with the expert's own label attached.

    The model is never asked for the value: it inverted rules, or wrote the value without a condition. Where the label
    only names a place (A or B of two answers, not a tie), it is left out, and so are the places in the model's words: in
    the next item they are others.
    """
    places = tuple(sides_of(case.example.content, value_type.choices))
    chosen = str(annotation.value) if annotation.value in places else None
    parts = [str(reply.data.get(part) or "") for part in ("when", "because")]
    if places:
        parts = [without_positions(part, chosen=chosen, choices=places) for part in parts]
    when, because = (_half(part) for part in parts)
    if not because:
        return Delta(action="NOOP", feedback=(annotation.key,))
    opening, link = WHEN_AND[language_of(f"{when} {because}") or "English"]
    condition = f"{opening} {when} {link} {because}" if when else f"{opening} {because}"
    if annotation.value is None or not value_type.closed or chosen is not None:
        text = f"{opening} {when}: {because}." if when else f"{because[0].upper()}{because[1:]}."
    else:
        label = str(annotation.value).lower() if isinstance(annotation.value, bool) else f"{annotation.value}"
        text = f"{condition}: {label}."
    return Delta(action="ADD", text=text, feedback=(annotation.key,))


def _half(part: object) -> str:
    words = tidy(str(part or "")).strip(".,;: ")
    for opening, _ in WHEN_AND.values():
        words = words.removeprefix(f"{opening} ").removeprefix(f"{opening.lower()} ")
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


def deltas_schema(labels: Sequence[str], guideline_ids: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a shard's changes; only its own feedback and guidelines can be named."""
    actions = ["ADD", "SUPPORT", "REVISE", "NOOP"] if guideline_ids else ["ADD", "NOOP"]
    change = {
        "action": {"type": "string", "enum": actions},
        "feedback": {"type": "array", "items": {"type": "string", "enum": list(labels)}},
        "text": {"type": "string"},
        "guideline": {"type": "string", "enum": ["", *guideline_ids]},
    }
    return {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": change,
                    "required": list(change),
                    "additionalProperties": False,
                },
            }
        },
        "required": ["changes"],
        "additionalProperties": False,
    }


def deltas_of(reply: ChatReply, labels: dict[str, FeedbackKey]) -> tuple[Delta, ...]:
    """The model's changes with labels turned into keys; a label that it invented becomes the key of nothing."""
    deltas = []
    changes = reply.data.get("changes")
    for change in changes if isinstance(changes, list) else ():
        if not isinstance(change, dict):
            continue
        named = change.get("feedback")
        deltas.append(
            Delta(
                action=str(change.get("action")),
                text=tidy(str(change.get("text") or "")),
                feedback=tuple(labels.get(str(label), FeedbackKey(str(label), "")) for label in named)
                if isinstance(named, list)
                else (),
                guideline=str(change.get("guideline")) if change.get("guideline") else None,
            )
        )
    return tuple(deltas)
