"""Typed deltas: what a distillation call may answer, whether it may be carried out, and what it does to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from memalign.align.distil_checks import CHECKS_SCHEMA, ReadChecks
from memalign.align.position_terms import without_positions
from memalign.align.proposed_tests import proposals_schema
from memalign.content import sides_of
from memalign.memory import Annotation, Case, FeedbackConflict, Memory, Outcome
from memalign.memory.guard import tidy
from memalign.models.base import ChatReply
from memalign.prompts.language import Language, language_of
from memalign.types import FeedbackKey, Guideline, Usage
from memalign.values import ValueType

__all__ = ["ONE_RULE", "CallAnswer", "Delta", "apply_answer", "changes_schema", "refused_rules", "rule_of"]

replace = msgspec.structs.replace


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """One typed change to the guidelines, as a model proposed it (ACE, arXiv 2510.04618).

    Attributes:
        action: ADD, SUPPORT, REVISE or NOOP; anything else is carried out by nobody.
        text: The rule of ADD and REVISE.
        fault: Why that text may not enter a prompt.
        feedback: The keys that it states.
        guideline: The id that SUPPORT and REVISE are about.
        checks: The tests and questions of a text, and why others were left out.
    """

    action: str
    text: str = ""
    fault: str | None = None
    feedback: tuple[FeedbackKey, ...] = ()
    guideline: str | None = None
    checks: ReadChecks = ReadChecks()

    @property
    def writes(self) -> bool:
        """Whether it has a text of its own."""
        return self.action in ("ADD", "REVISE")


class CallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one call about some feedback gave.

    Attributes:
        keys: The feedback that the call was about.
        shown: The ids of the guidelines that its prompt held.
        exposed_to: Every feedback whose words, or whose guidelines' exposure, the prompt held.
        deltas: The changes, in the model's order.
        conflicts: Feedback of which the model says that it contradicts other feedback.
        faults: Why there are no changes for some of the feedback.
        usage: What the call cost.
    """

    keys: tuple[FeedbackKey, ...]
    shown: tuple[str, ...] = ()
    exposed_to: tuple[FeedbackKey, ...] = ()
    deltas: tuple[Delta, ...] = ()
    conflicts: tuple[FeedbackConflict, ...] = ()
    faults: dict[FeedbackKey, str] = {}
    usage: Usage = Usage()

    def failed(self, why: str, usage: Usage) -> CallAnswer:
        """The answer of a call that failed."""
        return replace(self, faults=dict.fromkeys(self.keys, why), usage=usage)

    def amended(self, second: CallAnswer, keys: Collection[FeedbackKey]) -> CallAnswer:
        """This answer with what a second call gave for `keys`."""
        chosen = frozenset(keys)
        old = [delta for delta in self.deltas if not chosen.issuperset(delta.feedback)]
        new = [delta for delta in second.deltas if not chosen.isdisjoint(delta.feedback)]
        faults = {key: why for key, why in second.faults.items() if key in chosen}
        return replace(self, deltas=(*old, *new), faults=self.faults | faults, usage=self.usage + second.usage)


# -- what a call may answer --------------------------------------------------------------------------------------------


def changes_schema(
    labels: Sequence[str],
    guideline_ids: Sequence[str],
    fields: Sequence[str],
    *,
    questions: bool,
    values: Sequence[str] = (),
) -> dict[str, Any]:
    """The JSON schema of an answer; only the call's own feedback and guidelines can be named.

    Args:
        labels: The labels of the records, in their order.
        guideline_ids: The guidelines that stand.
        fields: What the judge reads of an item, for tests.
        questions: Whether a guideline's questions are asked for.
        values: What the judge answers, as text, for the value that the answers to a guideline's questions mean.
    """
    actions = ["ADD", "SUPPORT", "REVISE", "NOOP"] if guideline_ids else ["ADD", "NOOP"]
    feedback = {"type": "array", "items": {"type": "string", "enum": list(labels)}}
    change = {
        "action": {"type": "string", "enum": actions},
        "feedback": feedback,
        "text": {"type": "string"},
        "guideline": {"type": "string", "enum": ["", *guideline_ids]},
        "tests": proposals_schema(fields),
        **({"checks": CHECKS_SCHEMA} if questions else {}),
        **({"value": {"type": "string", "enum": ["", *values]}} if questions and values else {}),
    }
    conflict = {"feedback": feedback, "about": {"type": "string"}}
    # An answer without checks or conflicts is an answer; where a provider holds to a schema, all are required.
    needed = [name for name in change if name not in ("tests", "checks", "value")]
    parts = {"changes": _array(change, needed), "conflicts": _array(conflict, list(conflict))}
    return {"type": "object", "properties": parts, "required": ["changes"], "additionalProperties": False}


def _array(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    item = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "array", "items": item}


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


# -- carrying them out -------------------------------------------------------------------------------------------------

REFUSED_TWICE = (
    "its rule was refused twice: {why}; write it yourself (memalign guideline NAME --add), or reword the feedback"
)
NOT_MENTIONED = "the model's answer did not mention it; it is asked again at the next align"
NOTHING_DRAWN = "kept as an example: the model drew no rule from it"  # not in its words: it saw other people's feedback


def apply_answer(
    memory: Memory, answer: CallAnswer, before: Memory
) -> tuple[Memory, dict[FeedbackKey, Outcome | None], Counter[str]]:
    """Carry out the deltas of one call, each checked first; every rule from a comment is kept.

    Args:
        memory: The memory, with what calls before this one taught.
        answer: The call's.
        before: The memory before the first call, with the same cases.

    Returns:
        The memory, what becomes of the call's feedback, and why checks were left out.
    """
    left_out = Counter[str]()
    own = _with_own_rule(answer, before)
    taught: set[FeedbackKey] = set()
    passed: set[FeedbackKey] = set()
    faults: dict[FeedbackKey, str] = {}
    refused: dict[FeedbackKey, str] = {}
    for delta in answer.deltas:
        keys = tuple(sorted(key for key in set(delta.feedback) if key in answer.keys))
        if delta.action == "SUPPORT":
            # What a comment adds was written with the supported rule in view, and goes with it.
            keys = tuple(key for key in keys if key not in own)
        if (fault := _impossible(memory, answer, delta)) is not None:
            faults |= dict.fromkeys(keys, fault)
        elif delta.writes and delta.fault is not None:
            refused |= dict.fromkeys(keys, delta.fault)
        elif delta.action == "NOOP":
            passed.update(keys)
        elif keys:
            memory = _carried_out(memory, answer, delta, keys)
            left_out.update(delta.checks.faults)
            taught.update(keys)

    def outcome(key: FeedbackKey) -> Outcome | None:
        if key in taught:
            also = refused.get(key) or faults.get(key)
            return Outcome(kind="taught", reason=f"learned without one more rule from it: {also}") if also else None
        if key in answer.faults:
            return Outcome(kind="waiting", reason=answer.faults[key])
        if key in refused:
            reason = REFUSED_TWICE.format(why=refused[key])
            return Outcome(kind="refused", reason=reason, exposed_to=answer.exposed_to)
        if key in faults:
            return Outcome(kind="waiting", reason=f"its rule was not taken: {faults[key]}")
        if key in passed:
            return Outcome(kind="example", reason=NOTHING_DRAWN, exposed_to=answer.exposed_to)
        return Outcome(kind="waiting", reason=NOT_MENTIONED)

    conflicts = {conflict.feedback: conflict for conflict in (*answer.conflicts, *memory.conflicts)}
    memory = replace(memory, conflicts=tuple(conflicts[keys] for keys in sorted(conflicts)))
    return memory, {key: outcome(key) for key in answer.keys}, left_out


def refused_rules(answer: CallAnswer, memory: Memory) -> dict[FeedbackKey, str]:
    """The call's feedback of which only rules came that may not enter a prompt, and why not."""
    own = _with_own_rule(answer, memory)
    return {
        key: delta.fault
        for delta in answer.deltas
        if delta.writes and delta.fault is not None and _impossible(memory, answer, delta) is None
        for key in delta.feedback
        if key in answer.keys and key not in own
    }


def _with_own_rule(answer: CallAnswer, memory: Memory) -> frozenset[FeedbackKey]:
    """The feedback from which a rule was written that may enter a prompt."""
    return frozenset(
        key
        for delta in answer.deltas
        if delta.writes and delta.fault is None and _impossible(memory, answer, delta) is None
        for key in delta.feedback
    )


def _impossible(memory: Memory, answer: CallAnswer, delta: Delta) -> str | None:
    """Why a delta cannot be carried out, or None."""
    foreign = [key for key in delta.feedback if key not in answer.keys]
    if foreign or not delta.feedback:
        return "it names feedback outside its call" if foreign else "it names no feedback"
    if delta.action not in ("ADD", "SUPPORT", "REVISE", "NOOP"):
        return "its action is unknown"
    if delta.action in ("SUPPORT", "REVISE"):
        known = delta.guideline is not None and delta.guideline in answer.shown
        if not known or memory.status(memory.guideline(delta.guideline or "")) != "active":
            return "it names a guideline that it was not shown, or one that no longer stands"
        if delta.action == "REVISE" and memory.guideline(delta.guideline or "").people:
            return f"{delta.guideline} was set by a person"
    return None


def _carried_out(memory: Memory, answer: CallAnswer, delta: Delta, keys: tuple[FeedbackKey, ...]) -> Memory:
    if delta.action == "SUPPORT":
        old = memory.guideline(delta.guideline or "")
        return memory.with_guidelines([replace(old, supported_by=tuple(sorted({*old.supported_by, *keys})))])
    revised = [memory.guideline(delta.guideline or "")] if delta.action == "REVISE" else []
    guideline = Guideline(
        id=f"G{memory.next_guideline}",
        text=delta.text,
        supported_by=tuple(sorted({*keys, *(key for old in revised for key in old.supported_by)})),
        exposed_to=answer.exposed_to,
        checks=delta.checks.checks,
    )
    return memory.with_guidelines([*(replace(old, replaced_by=guideline.id) for old in revised), guideline])
