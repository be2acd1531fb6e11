"""What is known of an item: the answers, what each guideline expects of them, the model's own verdict, the length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from memalign.content import sides_of, words_of
from memalign.judge.code_tests import answers, is_mined
from memalign.judge.spec import base_fingerprint_of
from memalign.memory.model import Case, Expectation, Memory
from memalign.types import CONTENT_FIELDS, Example, FeedbackKey, Guideline
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = [
    "FEWEST",
    "LabelledCase",
    "Observation",
    "chances_of",
    "expectations",
    "labelled_cases",
    "length_of",
    "margin_of",
    "sides_in",
    "test_margins",
]

FEWEST, MOST = 10, 500
"""Labelled cases that a calibrator is fitted to; of more a fixed sample is enough."""
TEST = 4.0
"""The log-odds that a test which holds counts for: code is sure."""


class Observation(NamedTuple):
    """What is known of an item."""

    answers: Mapping[str, float | None]  # by the check's name, as in `Answers.margins`
    expected: tuple[Expectation, ...] = ()  # by each guideline that counts for the item
    verdict: Value | None = None  # the model's own
    chances: Mapping[Value, float] | None = None  # its probability of each label
    length: float = 0.0


class LabelledCase(NamedTuple):
    """An item and the label that experts gave it."""

    observation: Observation
    label: Value


def expectations(guidelines: Iterable[Guideline], *, unmet: Iterable[FeedbackKey] = ()) -> tuple[Expectation, ...]:
    """What the checks of these guidelines expect, but for guidelines that saw one of the feedback `unmet`."""
    hidden, expected = frozenset(unmet), list[Expectation]()
    for guideline in guidelines:
        if hidden.isdisjoint(guideline.exposed_to) and hidden.isdisjoint(guideline.supported_by):
            signs: dict[Value | None, list[tuple[str, int]]] = {}
            for check in guideline.checks:
                signs.setdefault(check.value, []).append((check.question, 1 if check.answer == "yes" else -1))
            mined = is_mined(guideline)
            expected += (Expectation(label=label, checks=tuple(checks), mined=mined) for label, checks in signs.items())
    return tuple(expected)


def margin_of(chances: Mapping[str, float]) -> float | None:
    """The log-odds of yes, of the probabilities of yes, no and n/a; None where "does not apply" is the likeliest."""
    yes, no = chances.get("yes", 0.0), chances.get("no", 0.0)
    return None if chances.get("n/a", 0.0) > max(yes, no) else math.log(max(yes, 1e-9) / max(no, 1e-9))


def test_margins(memory: Memory, example: Example, value_type: ValueType) -> dict[str, float | None]:
    """The answers of the tests that code decides, by their sentences, in the same form."""
    margins: dict[str, float | None] = {}
    for sentence, by_side in answers(memory.semantic, example.content, value_type.choices).items():
        sides = [TEST if holds else -TEST for holds in by_side if holds is not None]
        margins[sentence] = sides[0] - sum(sides[1:]) if len(sides) == len(by_side) else None
    return margins


def chances_of(chances: Mapping[str, float], value_type: ValueType) -> dict[Value, float] | None:
    """The probability of each label, of the probabilities by their texts; None without any."""
    return {label: chances.get(value_text(label), 0.0) for label in value_type.labels} if chances else None


def length_of(example: Example, value_type: ValueType) -> float:
    """The length of what is judged, as the logarithm of its characters; of two sides the difference."""
    name = next(name for name in ("outputs", "conversation", "trace", *CONTENT_FIELDS) if name in example.content)
    sides = sides_of(example.content, value_type.choices)
    named = [("outputs", sides[side]) for side in value_type.choices if side in sides]
    judged = named if len(named) == 2 else [(name, example.content[name])]
    sizes = [math.log1p(sum(map(len, words_of(*field)))) for field in judged]
    return sizes[0] - sum(sizes[1:])


def labelled_cases(judge: Judge) -> list[LabelledCase]:
    """The memory's labelled cases of which the judge's models were asked, or whose own verdict is known."""
    made_by, labelled = base_fingerprint_of(judge), dict[str, LabelledCase]()
    for case in judge.memory.cases:
        label = judge.memory.label(case)
        if label in judge.value_type.labels and (observation := _observation(judge, case, made_by)) is not None:
            labelled.setdefault(case.example.content_hash, LabelledCase(observation, label))
    return [labelled[content] for content in sorted(labelled)[:MOST]]  # by hash: as good as drawn, whatever came first


def _observation(judge: Judge, case: Case, made_by: str) -> Observation | None:
    memory, value_type, answers, before = judge.memory, judge.value_type, case.answers, case.pre_alignment
    # What a judge without guidelines had said is no measure of one that has them.
    comparable = before is not None and before.judge == made_by and (before.exposed_to or not memory.semantic)
    verdict = before.value if before is not None and comparable else None
    margins, chances = test_margins(memory, case.example, value_type), None
    expected: tuple[Expectation, ...] = ()
    if answers is not None and answers.judge == made_by:
        margins, expected = margins | answers.margins, answers.expected
        if answers.verdict is not None:
            verdict, chances = answers.verdict, chances_of(answers.chances or {}, value_type)
    elif verdict is None:
        return None
    expected = expected or expectations(memory.semantic, unmet=[a.key for a in memory.annotations_on(case)])
    # What code mined met every label, and was admitted against all that it tried: it counts on all of them.
    mined = expectations(filter(is_mined, memory.semantic))
    return Observation(margins, (*expected, *mined), verdict, chances, length_of(case.example, value_type))


def sides_in(judge: Judge) -> tuple[str, ...]:
    """The two labels that name the sides of every case in memory, in the labels' order; empty where there are none."""
    choices = judge.value_type.choices
    sides = [sides_of(case.example.content, choices) for case in judge.memory.cases]
    pairs = {tuple(name for name in choices if name in side) for side in sides}
    return pairs.pop() if len(pairs) == 1 and len(sides[0]) == 2 else ()
