"""The checks in a distillation answer: read whatever their form, with the sense that the experts' labels give them.

A check that cannot be used is left out and counted, and its guideline stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from memalign.align.position_terms import neutral_question
from memalign.content import sides_of
from memalign.memory import Annotation, Case
from memalign.memory.guard import check_fault, tidy
from memalign.types import Check, FeedbackKey
from memalign.values import Value, ValueType, value_text

__all__ = [
    "CHECKS_SCHEMA",
    "MOST_CHECKS",
    "ONLY_CHECKS",
    "CheckReader",
    "ReadChecks",
    "left_out_note",
]

MOST_CHECKS = 3
"""Of one guideline."""
_QUESTION = 140  # characters that a model may write of a question: about 25 words, below the limit of 30


def _schema(question: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"question": question, "answer": {"type": "string", "enum": ["yes", "no"]}},
            "required": ["question", "answer"],
            "additionalProperties": False,
        },
    }


CHECKS_SCHEMA = _schema({"type": "string"})
ONLY_CHECKS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "checks": {**_schema({"type": "string", "maxLength": _QUESTION}), "maxItems": MOST_CHECKS},
    },
    "required": ["checks"],
    "additionalProperties": False,
}
"""A weak model's answer. A grammar holds it to its bounds; some providers' schemas cannot have any."""

_ANSWERS: dict[str, Literal["yes", "no"]] = {
    **dict.fromkeys(("yes", "true", "sim", "sí", "si"), "yes"),
    **dict.fromkeys(("no", "false", "não", "nao"), "no"),
}

NO_CHECK = "it is not a question with an answer yes or no"
TOO_MANY = f"its guideline has {MOST_CHECKS} already"
BOTH_SIDES = "it asks about both sides, or about a side that cannot be told"
TWO_ANSWERS = "it has both answers"


@dataclass(frozen=True, kw_only=True)
class ReadChecks:
    """The checks that a guideline gets, and why each of the others was left out."""

    checks: tuple[Check, ...] = ()
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckReader:
    """Reads the checks that a model wrote about some feedback of a judge whose instructions are `task`.

    `remarks` are the annotations that it was asked about, with their cases; `judged` what no check may copy.
    """

    value_type: ValueType
    task: str
    remarks: Mapping[FeedbackKey, tuple[Annotation, Case]]
    judged: Collection[tuple[str, str]] = field(default=(), repr=False)

    def read(self, given: object, keys: Collection[FeedbackKey], meant: object = None) -> ReadChecks:
        """The checks in `given`, any JSON value, which a model wrote of the feedback of `keys`. Never raises.

        Their answer speaks for the label that the experts gave. Where they gave several, as of a general rule, it speaks
        for the value that is `meant`, and for none where that is no label. Where labels name sides of an item, the answer
        becomes that of the better side, whichever a question named.
        """
        remarks = [self.remarks[key] for key in keys if key in self.remarks]
        comments = [annotation.rationale for annotation, _ in remarks if annotation.rationale]
        labels: set[Value] = {annotation.value for annotation, _ in remarks if annotation.value is not None}
        label = next(iter(labels)) if len(labels) == 1 else None
        sides = tuple(dict.fromkeys(side for _, case in remarks for side in self._sides(case)))
        chosen = label if isinstance(label, str) and label in sides else None
        value = None if sides or not self.value_type.closed else self._label(meant) if len(labels) > 1 else label
        answers: dict[str, set[Literal["yes", "no"]]] = {}
        faults = []
        for entry in _entries(given):
            question, answer = _question(entry)
            if answer is None:
                faults.append(NO_CHECK)
                continue
            if sides:
                neutral = neutral_question(question, chosen=chosen, choices=sides)
                if neutral is None or (neutral[1] is not None and len(labels) > 1):
                    faults.append(BOTH_SIDES)
                    continue
                question, named = neutral
                if chosen is not None and named not in (None, chosen):
                    answer = "no" if answer == "yes" else "yes"
            if fault := check_fault(question, self.judged, comments, task=self.task):
                faults.append(fault)
            else:
                answers.setdefault(question, set()).add(answer)
        both = [question for question, found in answers.items() if len(found) > 1]
        told = [
            Check(question=q, answer=next(iter(found)), value=value) for q, found in answers.items() if q not in both
        ]
        faults += [TWO_ANSWERS] * len(both) + [TOO_MANY] * len(told[MOST_CHECKS:])
        return ReadChecks(checks=tuple(told[:MOST_CHECKS]), faults=tuple(faults))

    def _label(self, meant: object) -> Value | None:
        return next((label for label in self.value_type.labels if value_text(label) == str(meant)), None)

    def _sides(self, case: Case) -> dict[str, Any]:
        return sides_of(case.example.content, self.value_type.choices)


def left_out_note(faults: Counter[str]) -> tuple[str, ...]:
    """A line on the checks that were left out, with the reasons and how often each; none without any."""
    if not faults:
        return ()
    count = faults.total()
    were = "1 check was" if count == 1 else f"{count} checks were"
    reasons = "; ".join(
        f"{why} ({number})" for why, number in sorted(faults.items(), key=lambda each: (-each[1], each[0]))
    )
    return (f"{were} left out of new guidelines, which stay: {reasons}",)


def _entries(given: object) -> list[Any]:
    if given is None:
        return []
    return given if isinstance(given, list) else [given]


def _question(entry: object) -> tuple[str, Literal["yes", "no"] | None]:
    """The question of an entry and its answer, which is None where the entry is no check."""
    if not isinstance(entry, dict) or not isinstance(entry.get("question"), str):
        return "", None
    given = entry.get("answer")
    word = str(given).casefold().strip(" .!") if isinstance(given, str | bool) else ""
    return tidy(entry["question"]), _ANSWERS.get(word)
