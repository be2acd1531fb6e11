"""Typed deltas: what a distillation call may answer, whether it may be carried out, and what it does to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from memalign.align.distil_checks import CHECKS_SCHEMA, CheckReader, ReadChecks
from memalign.align.position_terms import without_positions
from memalign.align.shards import shard_guidelines
from memalign.content import judged_texts, sides_of
from memalign.memory import Annotation, Case, Memory, Shard
from memalign.memory import Outcome as Ended
from memalign.memory.guard import guideline_fault, tidy
from memalign.models.base import ChatReply
from memalign.prompts.language import Language, language_of
from memalign.types import FeedbackKey, Guideline, Usage
from memalign.values import ValueType

__all__ = ["ONE_RULE", "Delta", "Outcome", "apply_outcome", "deltas_of", "deltas_schema", "refused_rules", "rule_of"]

replace = msgspec.structs.replace


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """One typed change to a shard's guidelines, as a model proposed it (ACE, arXiv 2510.04618).

    `feedback` are the keys it states; `guideline` the id that SUPPORT and REVISE are about. `checks` are those of a text,
    and why others were left out.
    """

    action: str
    text: str = ""
    feedback: tuple[FeedbackKey, ...] = ()
    guideline: str | None = None
    checks: ReadChecks = ReadChecks()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What one call about the `waiting` of a shard's feedback gave: deltas, and why there are none for some."""

    shard: Shard
    waiting: tuple[FeedbackKey, ...]
    exposed_to: tuple[FeedbackKey, ...] = ()
    deltas: tuple[Delta, ...] = ()
    faults: dict[FeedbackKey, str] = {}
    usage: Usage = Usage()

    def failed(self, why: str, usage: Usage) -> Outcome:
        """The outcome of a call without an answer."""
        return replace(self, faults=dict.fromkeys(self.waiting, why), usage=usage)

    def answered(self, deltas: tuple[Delta, ...], usage: Usage) -> Outcome:
        """The outcome of a call with an answer."""
        return replace(self, deltas=deltas, usage=usage)

    def amended(self, second: Outcome, keys: Collection[FeedbackKey]) -> Outcome:
        """This outcome with what a second call gave for `keys`."""
        chosen = frozenset(keys)
        old = [delta for delta in self.deltas if not chosen.issuperset(delta.feedback)]
        new = [delta for delta in second.deltas if not chosen.isdisjoint(delta.feedback)]
        faults = {key: why for key, why in second.faults.items() if key in chosen}
        return replace(self, deltas=(*old, *new), faults=self.faults | faults, usage=self.usage + second.usage)


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
        "checks": CHECKS_SCHEMA,
    }
    return {
        "type": "object",
        "properties": {
            "changes": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": change,
                    # An answer without checks is an answer; where a provider holds to a schema, all are required.
                    "required": [name for name in change if name != "checks"],
                    "additionalProperties": False,
                },
            }
        },
        "required": ["changes"],
        "additionalProperties": False,
    }


def deltas_of(reply: ChatReply, labels: dict[str, FeedbackKey], reader: CheckReader) -> tuple[Delta, ...]:
    """The model's changes with labels turned into keys and their checks read.

    A label that it invented becomes the key of nothing.
    """
    deltas = []
    changes = reply.data.get("changes")
    for change in changes if isinstance(changes, list) else ():
        if not isinstance(change, dict):
            continue
        action, named = str(change.get("action")), change.get("feedback")
        names = named if isinstance(named, list) else ()
        keys = tuple(labels.get(str(label), FeedbackKey(str(label), "")) for label in names)
        deltas.append(
            Delta(
                action=action,
                text=tidy(str(change.get("text") or "")),
                feedback=keys,
                guideline=str(change.get("guideline")) if change.get("guideline") else None,
                checks=reader.read(change.get("checks"), keys) if action in ("ADD", "REVISE") else ReadChecks(),
            )
        )
    return tuple(deltas)


# -- carrying them out -------------------------------------------------------------------------------------------------

REFUSED_TWICE = (
    "its rule was refused twice: {why}; write it yourself (memalign guideline NAME --add), or reword the feedback"
)
NOT_MENTIONED = "the model's answer did not mention it; it is asked again at the next align"


def apply_outcome(
    memory: Memory, outcome: Outcome, known: Memory
) -> tuple[Memory, dict[FeedbackKey, Ended | None], Counter[str]]:
    """Carry out the deltas of one call, each checked first; say what becomes of its annotations, and of checks left out.

    Every rule from a comment is kept. `known` is the memory before the first call, with the same cases.
    """
    left_out = Counter[str]()
    own = _with_own_rule(outcome, known)
    taken: dict[FeedbackKey, Ended | None] = {}
    refused: dict[FeedbackKey, str] = {}
    impossible: dict[FeedbackKey, str] = {}
    for delta in outcome.deltas:
        keys = tuple(sorted(key for key in set(delta.feedback) if key in outcome.waiting))
        if delta.action == "SUPPORT":
            # What a comment adds was written with the supported rule in view, and goes with it.
            keys = tuple(key for key in keys if key not in own)
        if (fault := _impossible(memory, outcome.shard, delta)) is not None:
            impossible.update(dict.fromkeys(keys, fault))
        elif (fault := _refused(outcome.shard, delta, known)) is not None:
            refused.update(dict.fromkeys(keys, fault))
        elif keys:
            memory, state = _carry_out(memory, outcome, delta, keys)
            left_out.update(delta.checks.faults)
            for key in keys:
                taken[key] = state if taken.get(key, state) is not None else None

    def ended(key: FeedbackKey) -> Ended | None:
        fault = refused.get(key) or impossible.get(key)
        if key in taken and taken[key] is None:  # a guideline carries it, whatever became of the rest
            return Ended(kind="taught", reason=f"learned without one more rule from it: {fault}") if fault else None
        if key in outcome.faults:
            return Ended(kind="waiting", reason=outcome.faults[key])
        if key in refused:
            reason = REFUSED_TWICE.format(why=refused[key])
            return Ended(kind="refused", reason=reason, exposed_to=outcome.exposed_to)
        if key in impossible:
            return Ended(kind="waiting", reason=f"its rule was not taken: {impossible[key]}")
        return taken.get(key) or Ended(kind="waiting", reason=NOT_MENTIONED)

    return memory, {key: ended(key) for key in outcome.waiting}, left_out


def refused_rules(outcome: Outcome, memory: Memory) -> dict[FeedbackKey, str]:
    """The waiting feedback of which only rules came that may not enter a prompt, and why not."""
    own = _with_own_rule(outcome, memory)
    return {
        key: fault
        for delta in outcome.deltas
        if (fault := _refused(outcome.shard, delta, memory)) and _impossible(memory, outcome.shard, delta) is None
        for key in delta.feedback
        if key in outcome.waiting and key not in own
    }


def _with_own_rule(outcome: Outcome, memory: Memory) -> frozenset[FeedbackKey]:
    """The feedback from which a rule was written that may enter a prompt."""
    return frozenset(
        key
        for delta in outcome.deltas
        if delta.action in ("ADD", "REVISE")
        and _impossible(memory, outcome.shard, delta) is None
        and _refused(outcome.shard, delta, memory) is None
        for key in delta.feedback
    )


def _impossible(memory: Memory, shard: Shard, delta: Delta) -> str | None:
    """Why a delta cannot be carried out, or None."""
    foreign = [key for key in delta.feedback if key not in shard.keys]
    if foreign or not delta.feedback:
        return "it names feedback outside its shard" if foreign else "it names no feedback"
    if delta.action not in ("ADD", "SUPPORT", "REVISE", "NOOP"):
        return "its action is unknown"
    if delta.action in ("SUPPORT", "REVISE"):
        target = next((g for g in shard_guidelines(memory, memory.guidelines, shard) if g.id == delta.guideline), None)
        if target is None:
            return "it names a guideline outside its shard, or one that no longer stands"
        if delta.action == "REVISE" and (target.pinned or target.origin != "distilled"):
            return f"{target.id} was set by a person"
    return None


def _refused(shard: Shard, delta: Delta, known: Memory) -> str | None:
    """Why the text of a delta may not become a guideline, or None."""
    if delta.action not in ("ADD", "REVISE"):
        return None
    cases = (known.case(key.id) for key in shard.keys)
    judged = (said for case in cases if case for said in judged_texts(case.example.content))
    said = (known.annotation(key) for key in delta.feedback)
    comments = [annotation.rationale for annotation in said if annotation is not None and annotation.rationale]
    return guideline_fault(delta.text, judged, comments)


def _carry_out(
    memory: Memory, outcome: Outcome, delta: Delta, keys: tuple[FeedbackKey, ...]
) -> tuple[Memory, Ended | None]:
    if delta.action == "NOOP":
        # Not in the model's words: they were written with other people's feedback in view.
        reason = "kept as an example: the model drew no rule from it"
        return memory, Ended(kind="example", reason=reason, exposed_to=outcome.exposed_to)
    if delta.action == "SUPPORT":
        supported = tuple(
            replace(g, supported_by=tuple(sorted({*g.supported_by, *keys}))) if g.id == delta.guideline else g
            for g in memory.guidelines
        )
        return replace(memory, guidelines=supported), None
    older = [g for g in memory.guidelines if g.id == delta.guideline and delta.action == "REVISE"]
    guideline = Guideline(
        id=f"G{memory.next_guideline}",
        text=delta.text,
        supported_by=tuple(sorted({*keys, *(key for g in older for key in g.supported_by)})),
        exposed_to=outcome.exposed_to,
        checks=delta.checks.checks,
    )
    guidelines = tuple(replace(g, replaced_by=guideline.id) if g in older else g for g in memory.guidelines)
    grown = replace(
        memory,
        guidelines=(*guidelines, guideline),
        next_guideline=memory.next_guideline + 1,
    )
    return grown, None
