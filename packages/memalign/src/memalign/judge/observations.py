"""What a calibrator is told: of an item the answers, what each guideline expects of them, the model's own verdict, the length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from memalign.content import sides_of, words_of
from memalign.judge.code_tests import answers, is_mined
from memalign.judge.spec import base_fingerprint_of
from memalign.memory.model import Answers, Case, Expectation, Memory
from memalign.types import CONTENT_FIELDS, Example, FeedbackKey, Guideline
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = [
    "LabelledCase",
    "Observation",
    "expectations",
    "labelled_cases",
    "length_of",
    "margin_of",
    "sides_in",
    "test_margins",
]

MOST = 500
"""Labelled cases that a calibrator is fitted to: of more a fixed sample is enough."""
TEST = 4.0
"""The log-odds that a test which holds counts for: code is sure."""


class Observation(NamedTuple):
    """What is known of an item.

    Attributes:
        answers: By the check's name the log-odds of yes, of two sides the first one's less the second one's; None, or
            nothing, where it has no answer.
        expected: What each guideline that counts for the item expects.
        verdict: The model's own verdict, and perhaps the probability of each label.
        length: See `length_of`.
    """

    answers: Mapping[str, float | None]
    expected: tuple[Expectation, ...] = ()
    verdict: Value | None = None
    chances: Mapping[Value, float] | None = None
    length: float = 0.0


class LabelledCase(NamedTuple):
    """An item and the label that experts gave it."""

    known: Observation
    label: Value


def expectations(guidelines: Iterable[Guideline], *, unmet: Iterable[FeedbackKey] = ()) -> tuple[Expectation, ...]:
    """What the checks of these guidelines expect, but for guidelines that saw one of the feedback `unmet`."""
    hidden, found = frozenset(unmet), list[Expectation]()
    for guideline in guidelines:
        if hidden.isdisjoint(guideline.exposed_to) and hidden.isdisjoint(guideline.supported_by):
            for label in dict.fromkeys(check.value for check in guideline.checks):
                checks = [check for check in guideline.checks if check.value == label]
                signs = tuple((check.question, 1 if check.answer == "yes" else -1) for check in checks)
                found.append(Expectation(label=label, checks=signs, mined=is_mined(guideline)))
    return tuple(found)


def margin_of(chances: Mapping[str, float]) -> float | None:
    """The log-odds of yes, of the probabilities of yes, no and n/a; None where "does not apply" is the likeliest."""
    yes, no = chances.get("yes", 0.0), chances.get("no", 0.0)
    if chances.get("n/a", 0.0) > max(yes, no):
        return None
    return math.log(max(yes, 1e-9) / max(no, 1e-9))


def test_margins(memory: Memory, example: Example, value_type: ValueType) -> dict[str, float | None]:
    """The answers of the tests that code decides, by their sentences, in the same form."""
    margins: dict[str, float | None] = {}
    for sentence, held in answers(memory.semantic, example.content, value_type.choices).items():
        sides = [TEST if side else -TEST for side in held if side is not None]
        margins[sentence] = sides[0] - sum(sides[1:]) if len(sides) == len(held) else None
    return margins


def length_of(example: Example, value_type: ValueType) -> float:
    """The length of what is judged, as the logarithm of its characters; of two sides the difference."""
    sides = sides_of(example.content, value_type.choices)
    if len(sides) == 2:
        first, second = (sides[name] for name in value_type.choices if name in sides)
        return _size("outputs", first) - _size("outputs", second)
    judged = next(name for name in ("outputs", "conversation", "trace", *CONTENT_FIELDS) if name in example.content)
    return _size(judged, example.content[judged])


def _size(name: str, value: object) -> float:
    return math.log1p(sum(map(len, words_of(name, value))))


def labelled_cases(judge: Judge) -> list[LabelledCase]:
    """The memory's labelled cases of which the judge's models were asked, or whose own verdict is known."""
    memory, value_type, made_by = judge.memory, judge.value_type, base_fingerprint_of(judge)
    found: dict[str, LabelledCase] = {}
    for case in memory.cases:
        label = memory.label(case)
        if label is None or (value_type.labels and label not in value_type.labels):
            continue
        known = _observation(memory, case, value_type, made_by)
        if known is not None:
            found.setdefault(case.example.content_hash, LabelledCase(known, label))
    return [found[content] for content in sorted(found)[:MOST]]  # by hash: as good as drawn, whatever came first


def _observation(memory: Memory, case: Case, value_type: ValueType, made_by: str) -> Observation | None:
    recorded = case.answers if case.answers is not None and case.answers.judge == made_by else None
    first = case.pre_alignment.value if case.pre_alignment and case.pre_alignment.judge == made_by else None
    verdict = recorded.verdict if recorded is not None and recorded.verdict is not None else first
    if recorded is None and verdict is None:
        return None
    keys = [annotation.key for annotation in memory.annotations_on(case)]
    expected = (recorded.expected if recorded is not None else ()) or expectations(memory.semantic, unmet=keys)
    return Observation(
        answers=test_margins(memory, case.example, value_type) | (recorded.margins if recorded is not None else {}),
        # What code mined met every label, and was admitted against all that it tried: it counts on all of them.
        expected=(*expected, *expectations(filter(is_mined, memory.semantic))),
        verdict=verdict,
        chances=_chances(recorded, value_type),
        length=length_of(case.example, value_type),
    )


def _chances(recorded: Answers | None, value_type: ValueType) -> dict[Value, float] | None:
    if recorded is None or recorded.verdict is None or not recorded.chances or not value_type.labels:
        return None
    return {label: recorded.chances.get(value_text(label), 0.0) for label in value_type.labels}


def sides_in(judge: Judge) -> tuple[str, ...]:
    """The two labels that name the sides of every case in memory, in the labels' order; empty where there are none."""
    found = {tuple(sorted(sides_of(case.example.content, judge.value_type.choices))) for case in judge.memory.cases}
    if len(found) != 1 or len(sides := next(iter(found))) != 2:
        return ()
    return tuple(label for label in judge.value_type.choices if label in sides)
