"""What a distillation call answers: the JSON schema that it is held to, and how it is read, whatever its form.

A question that cannot be used is left out and counted, and its guideline stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from memalign.align.deltas import Delta
from memalign.align.learned_tests import LabelledCase, count_tried, labelled_cases, proposals_schema, proposed_tests
from memalign.align.position_terms import names_side, without_positions
from memalign.content import judged_texts, sides_of
from memalign.judge import Judge
from memalign.memory import Annotation, Case, FeedbackConflict
from memalign.memory.guard import check_fault, guideline_fault, tidy
from memalign.types import Check, FeedbackKey, Guideline
from memalign.values import Value, ValueType, value_text

__all__ = ["ONE_RULE", "ONLY_CHECKS", "AnswerReader", "changes_schema", "merge_schema", "merged_rules", "rule_of"]

MOST_QUESTIONS = 3
"""Of one guideline."""
QUESTION_CHARACTERS = 140  # about 25 words, below the limit of 30
PART_CHARACTERS = 180  # of each half of a rule: about 25 words, so that a rule stays below the limit of 60


# -- the schemas -------------------------------------------------------------------------------------------------------


def _object(properties: dict[str, Any], required: Collection[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _array(properties: dict[str, Any], required: Collection[str]) -> dict[str, Any]:
    return {"type": "array", "items": _object(properties, required)}


def _questions_schema(question: dict[str, Any]) -> dict[str, Any]:
    answer = {"type": "string", "enum": ["yes", "no"]}
    return _array({"question": question, "answer": answer}, ["question", "answer"])


_ONLY_QUESTIONS = _questions_schema({"type": "string", "maxLength": QUESTION_CHARACTERS})
ONLY_CHECKS = _object({"checks": {**_ONLY_QUESTIONS, "maxItems": MOST_QUESTIONS}}, ["checks"])
"""A weak model's answer. A grammar holds it to its bounds; some providers' schemas cannot have any."""
_PART = {"type": "string", "maxLength": PART_CHARACTERS}
ONE_RULE = _object({"when": _PART, "because": _PART}, ["when", "because"])


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
        fields: What tests may read of an item; without any none are asked for.
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
        **({"tests": proposals_schema(fields)} if fields else {}),
        **({"checks": _questions_schema({"type": "string"})} if questions else {}),
        **({"value": {"type": "string", "enum": ["", *values]}} if questions and values else {}),
    }
    conflict = {"feedback": feedback, "about": {"type": "string"}}
    # An answer without checks or conflicts is an answer; where a provider holds to a schema, all are required.
    needed = [name for name in change if name not in ("tests", "checks", "value")]
    return _object({"changes": _array(change, needed), "conflicts": _array(conflict, conflict)}, ["changes"])


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class AnswerReader:
    """Reads what a model wrote about the records of one call. Never raises for what it wrote.

    Attributes:
        judge: The judge that learns; its memory holds the feedback.
        labels: The records' labels in the prompt, and their keys.
        exposed_to: All feedback whose words, or whose guidelines', the prompt held.
    """

    judge: Judge
    labels: Mapping[str, FeedbackKey]
    exposed_to: tuple[FeedbackKey, ...]

    def changes(
        self, data: Mapping[str, Any], *, questions: bool
    ) -> tuple[tuple[Delta, ...], tuple[FeedbackConflict, ...]]:
        """The changes and the conflicts in an answer, with labels turned into keys and checks read."""
        changes = [change for change in _entries(data.get("changes")) if isinstance(change, dict)]
        conflicts = map(self._conflict, _entries(data.get("conflicts")))
        tried = count_tried(changes)
        return (
            tuple(self._delta(change, tried, questions=questions) for change in changes),
            tuple(conflict for conflict in conflicts if conflict is not None),
        )

    def fault(self, text: str, keys: Sequence[FeedbackKey]) -> str | None:
        """Why a text about the feedback of `keys` may not enter a prompt, or None."""
        annotations = (self.judge.memory.annotation(key) for key in keys)
        comments = [entry.rationale for entry in annotations if entry is not None and entry.rationale]
        return guideline_fault(text, self._judged, comments)

    def questions(
        self, entries: object, keys: Collection[FeedbackKey], meant: object = None
    ) -> tuple[tuple[Check, ...], int]:
        """The questions in any JSON value, which a model wrote of the feedback of `keys`, and how many are no use.

        Their answer speaks for the label that the experts gave. Where they gave several, as of a general rule, it
        speaks for the value that is `meant`, and for none where that is no label. Where labels name sides of an item,
        it is that of the better side.
        """
        value_type, memory = self.judge.value_type, self.judge.memory
        records = [memory.record(key) for key in keys if key in self.labels.values()]
        comments = [annotation.rationale for annotation, _ in records if annotation.rationale]
        labels: set[Value] = {annotation.value for annotation, _ in records if annotation.value is not None}
        label = next(iter(labels)) if len(labels) == 1 else None
        if len(labels) > 1:
            label = next((value for value in value_type.labels if value_text(value) == str(meant)), None)
        sides = {side for _, case in records for side in sides_of(case.example.content, value_type.choices)}
        answers: dict[str, set[Literal["yes", "no"]]] = {}
        entries = entries if isinstance(entries, list) else [] if entries is None else [entries]
        for question, answer in map(_question, entries):
            fault = check_fault(question, self._judged, comments)
            if answer is not None and fault is None and not (sides and names_side(question, value_type.choices)):
                answers.setdefault(question, set()).add(answer)
        value = label if value_type.closed and not sides else None
        checks = [Check(question=q, answer=next(iter(a)), value=value) for q, a in answers.items() if len(a) == 1]
        checks = checks[:MOST_QUESTIONS]
        return tuple(checks), len(entries) - len(checks)

    def _delta(self, change: Mapping[str, Any], tried: int, *, questions: bool) -> Delta:
        delta = Delta(
            action=str(change.get("action")),
            text=tidy(str(change.get("text") or "")),
            feedback=self._keys(change.get("feedback")),
            guideline=str(change.get("guideline")) if change.get("guideline") else None,
        )
        if not delta.writes:
            return delta
        cases, unusable = self.cases, 0
        checks = proposed_tests(
            self.judge, change.get("tests"), delta.feedback, cases, tried=tried, judged=self._judged
        )
        if questions:
            more, unusable = self.questions(change.get("checks"), delta.feedback, change.get("value"))
            checks = (*checks, *more)
        fault = self.fault(delta.text, delta.feedback)
        return msgspec.structs.replace(delta, fault=fault, checks=checks, unusable=unusable)

    def _conflict(self, entry: object) -> FeedbackConflict | None:
        """Feedback that contradicts other feedback. What it is about may say nothing that a guideline may not."""
        if not isinstance(entry, dict):
            return None
        keys = tuple(sorted({key for key in self._keys(entry.get("feedback")) if key in self.labels.values()}))
        about = tidy(str(entry.get("about") or ""))
        about = about if self.fault(about, keys) is None else ""
        return FeedbackConflict(feedback=keys, about=about, exposed_to=self.exposed_to) if len(keys) > 1 else None

    def _keys(self, labels: object) -> tuple[FeedbackKey, ...]:
        """The keys of labels; one that the model invented becomes the key of nothing."""
        return tuple(self.labels.get(str(label), FeedbackKey(str(label), "")) for label in _entries(labels))

    @cached_property
    def cases(self) -> list[LabelledCase]:
        """The labelled cases that the prompt held something of: they admit tests."""
        return labelled_cases(self.judge.memory, self.judge.value_type, self.exposed_to)

    @cached_property
    def _judged(self) -> tuple[tuple[str, str], ...]:
        cases = (self.judge.memory.record(key)[1] for key in self.labels.values())
        return tuple(text for case in cases for text in judged_texts(case.example.content))


def _entries(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _question(entry: object) -> tuple[str, Literal["yes", "no"] | None]:
    """The question of an entry and its answer, which is None where the entry is no check."""
    if not isinstance(entry, dict) or not isinstance(entry.get("question"), str):
        return "", None
    word = str(entry.get("answer")).casefold().strip(" .!")
    return tidy(entry["question"]), "yes" if word in ("yes", "true") else "no" if word in ("no", "false") else None


# -- a weak model's rule -----------------------------------------------------------------------------------------------


def rule_of(data: Mapping[str, Any], *, annotation: Annotation, case: Case, value_type: ValueType) -> dict[str, Any]:
    """The change that a weak model's two half sentences about the only record make, with the expert's own label.

    The model is never asked for the value: it inverted rules, or wrote the value without a condition. Where the label
    only names a place (A or B of two answers, not a tie), it is left out, and so are the places in the model's words:
    in the next item they are others.
    """
    places = tuple(sides_of(case.example.content, value_type.choices))
    chosen = str(annotation.value) if annotation.value in places else None
    parts = [str(data.get(part) or "") for part in ("when", "because")]
    if places:
        parts = [without_positions(part, chosen=chosen, choices=places) for part in parts]
    when, because = map(_half, parts)
    change = {"action": "ADD", "feedback": ["F1"], "text": ""}
    if not because:
        return change | {"action": "NOOP"}
    if annotation.value is None or not value_type.closed or chosen is not None:
        return change | {"text": f"When {when}: {because}." if when else f"{because[0].upper()}{because[1:]}."}
    condition = f"When {when} and {because}" if when else f"When {because}"
    label = str(annotation.value).lower() if isinstance(annotation.value, bool) else f"{annotation.value}"
    return change | {"text": f"{condition}: {label}."}


def _half(part: str) -> str:
    words = tidy(part).strip(".,;: ")
    words = words.removeprefix("When ").removeprefix("when ")
    return words[:1].lower() + words[1:] if words[1:2].islower() else words


# -- a merge -----------------------------------------------------------------------------------------------------------


def merge_schema(ids: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of an answer that merges the guidelines of these ids."""
    sources = {"type": "array", "items": {"type": "string", "enum": list(ids)}}
    entry = {"text": {"type": "string"}, "from": sources}
    return _object({"guidelines": _array(entry, entry)}, ["guidelines"])


def merged_rules(data: Mapping[str, Any], guidelines: Sequence[Guideline]) -> Iterator[tuple[str, list[Guideline]]]:
    """The texts of a merge, each with the guidelines, two or more, that no text before it took."""
    free = {guideline.id: guideline for guideline in guidelines}
    for entry in _entries(data.get("guidelines")):
        if not isinstance(entry, Mapping):
            continue
        text, names = tidy(str(entry.get("text") or "")), dict.fromkeys(map(str, _entries(entry.get("from"))))
        sources = [free[name] for name in names if name in free]
        if len(sources) > 1 and guideline_fault(text) is None:  # one rule alone stays as it is
            free = {name: guideline for name, guideline in free.items() if name not in names}
            yield text, sources
