"""What is known of an item: the answers, what each guideline expects of them, the model's own verdict, the length."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from memalign.content import sides_of, words_of
from memalign.judge.code_tests import answers, is_mined
from memalign.judge.spec import base_fingerprint_of
from memalign.memory.model import Answers, Case, Expectation
from memalign.types import CONTENT_FIELDS, Example, FeedbackKey, Guideline
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    from memalign.judge.judge import Judge

__all__ = ["FEWEST", "LabelledCase", "Observation", "contrast", "expectations", "labelled_cases", "observe", "pair_in"]

FEWEST, MOST = 10, 500  # labelled cases that a calibrator is fitted to; of more a fixed sample is enough
TEST = 4.0  # the log-odds that a test which holds counts for: code is sure


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


def observe(judge: Judge, example: Example, answered: Answers) -> Observation:
    """What is known of an item: what was answered about it, with what its tests find, and its length."""
    value_type, sure, chances = judge.value_type, {True: TEST, False: -TEST, None: None}, answered.chances
    tests = answers(judge.memory, example.content, value_type.choices)
    tested = {sentence: contrast([sure[holds] for holds in sides]) for sentence, sides in tests.items()}
    by_label = {label: chances.get(value_text(label), 0.0) for label in value_type.labels} if chances else None
    length = _length(example, value_type)
    return Observation({**answered.margins, **tested}, answered.expected, answered.verdict, by_label, length)


def contrast(margins: Sequence[float | None]) -> float | None:
    """An item's own margin, or the first side's less the second's; None where one side has none."""
    applying = [margin for margin in margins if margin is not None]
    return applying[0] - sum(applying[1:]) if len(applying) == len(margins) else None


def _length(example: Example, value_type: ValueType) -> float:
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
    memory, answered, before = judge.memory, case.answers or Answers(judge=""), case.pre_alignment
    # What a judge without guidelines had said is no measure of one that has them.
    comparable = before is not None and before.judge == made_by and (before.exposed_to or not memory.semantic)
    verdict = before.value if before is not None and comparable else None
    if answered.judge != made_by:
        answered = Answers(judge=made_by, verdict=verdict)
        if verdict is None:
            return None
    elif answered.verdict is None:
        answered = replace(answered, verdict=verdict, chances={})
    own = [annotation.key for annotation in memory.annotations_on(case)]
    expected = answered.expected or expectations(memory.semantic, unmet=own)
    # What code mined met every label, and was admitted against all that it tried: it counts on all of them.
    mined = expectations(filter(is_mined, memory.semantic))
    return observe(judge, case.example, replace(answered, expected=(*expected, *mined)))


def pair_in(judge: Judge) -> tuple[str, ...]:
    """The two labels that name the sides of every case in memory, in the labels' order; empty where there are none."""
    choices = judge.value_type.choices
    sides = [sides_of(case.example.content, choices) for case in judge.memory.cases]
    pairs = {tuple(name for name in choices if name in side) for side in sides}
    return pairs.pop() if len(pairs) == 1 and len(sides[0]) == 2 else ()
