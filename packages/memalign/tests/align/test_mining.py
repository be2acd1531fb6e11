"""Tests that code finds in labels and comments: on the comments that name them, and
none that chance would explain."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from memalign import Feedback, Guideline
from memalign.align.mining import mined, with_mined
from memalign.judge.borne_out import ALPHA
from memalign.judge.code_tests import sentence
from memalign.memory import Annotation, Case, Memory
from memalign.types import CodeTest
from memalign.values import Value, ValueType

replace = msgspec.structs.replace
BOOL = ValueType.of(bool)
FIELDS = ("inputs", "outputs")


def cases_of(rows: Iterable[Feedback]) -> tuple[Case, ...]:
    """A case for each row of feedback."""
    cases = []
    for row in rows:
        assert row.example is not None
        cases.append(Case(example=row.example, annotations=(Annotation.of(row),)))
    return tuple(cases)


def memory(rows: list[Feedback]) -> Memory:
    """Cases with their feedback, and a guideline of each comment, word for word."""
    guidelines = []
    for n, row in enumerate(rows, 1):
        if row.rationale:
            key = (row.key,)
            rule = Guideline(
                id=f"G{n}", text=row.rationale, supported_by=key, exposed_to=key
            )
            guidelines.append(rule)
    cases = cases_of(rows)
    return Memory(cases=cases, next_guideline=1).with_guidelines(guidelines)


OPENINGS = ("Thank you.", "Good morning,", "We looked it up.", "Gladly.", "In short:")
GOODS = ("flour", "lemons", "slates", "nails", "cider", "candles", "rope", "tiles")
Row = tuple[Any, Any, Value, str]
"""The inputs, the outputs, the label and the comment."""


def rows(n: int, write: Callable[[int, random.Random], Row]) -> list[Feedback]:
    rng = random.Random(0)
    made = []
    for number in range(n):
        inputs, outputs, value, comment = write(number, rng)
        row = Feedback(
            id=f"t-{number:03d}",
            inputs=inputs,
            outputs=outputs,
            value=value,
            rationale=comment,
            source="ana",
        )
        made.append(row)
    return made


def reference(number: int, rng: random.Random) -> Row:
    letters = rng.choice(["KD", "PT", "RM"])
    digits = rng.randint(1000, 9999)
    good = number % 2 == 0
    form = f"{letters}/{digits}"
    written = form if good else f"{letters}-{digits}"
    comment = f"{form} is our form" if good else f"write {form}, with a slash"
    question = f"Where is the {rng.choice(GOODS)}?"
    reply = f"{rng.choice(OPENINGS)} Under {written} it is packed."
    return question, reply, good, comment


def kinds(number: int, rng: random.Random) -> Row:
    label = ("spam", "order", "question")[number % 3]
    opening = rng.choice(OPENINGS)
    text = "We won a prize" if label == "spam" else rng.choice(GOODS)
    return "mail", f"{opening} {text}", label, "a prize is spam"


def pairs(number: int, rng: random.Random) -> Row:
    good = f"{rng.choice(OPENINGS)} We are sorry."
    poor = f"{rng.choice(OPENINGS)} That is so."
    comment = "one says sorry, the other does not"
    if number % 3:
        return "complaint", {"A": good, "B": poor}, "A", comment
    return "complaint", {"A": poor, "B": good}, "B", comment


def unfortunate(number: int, rng: random.Random) -> Row:
    good = number % 2 == 0
    said = "" if good else "Unfortunately "
    reply = f"{rng.choice(OPENINGS)} {said}the {rng.choice(GOODS)} are late."
    comment = "never write unfortunately" if number % 3 else "say what we can do"
    return "Where is it?", reply, good, comment


FORM = ("The reply has a piece like AA/0000", True, True)
NEVER = ('The reply has the word "unfortunately"', True, False)
PRIZE = ('The reply has the word "prize"', True, "spam")


def said(tests: Iterable[CodeTest]) -> list[tuple[str, bool, Any]]:
    return [(sentence(test), test.holds, test.value) for test in tests]


@pytest.mark.parametrize(
    ("write", "count", "value_type", "expected"),
    [
        (reference, 10, bool, [FORM]),
        (unfortunate, 12, bool, [NEVER]),
        (kinds, 24, "spam|order|question", [PRIZE]),
        (pairs, 12, "A|B|tie", []),
        (reference, 6, bool, []),  # too few
    ],
)
def test_what_the_labels_bear_out_is_found(write, count, value_type, expected):
    learned = memory(rows(count, write))
    assert said(mined(learned, ValueType.of(value_type), FIELDS)) == expected


def test_among_tests_that_say_the_same_the_longest_content_wins():
    asked = []
    for n in range(12):
        reply = f"{n}: {'please send us a photo' if n % 2 else 'please wait'}"
        comment = "ask for a photo, always send us a photo"
        row = Feedback(id=f"t-{n}", outputs=reply, value=n % 2 == 1, rationale=comment)
        asked.append(row)
    first = mined(memory(asked), BOOL, FIELDS)[0]
    assert sentence(first) == 'The reply has the words "send us a photo"', (
        'not the word "a", which is right as often'
    )


def relabelled(taught: list[Feedback], labels: Iterable[Value]) -> list[Feedback]:
    pairs = zip(taught, labels, strict=True)
    return [replace(row, value=label) for row, label in pairs]


def test_labels_dealt_at_random_admit_as_seldom_as_promised():
    admitted = 0
    labels: list[Value] = [True, False] * 10
    for seed in range(100):
        random.Random(seed).shuffle(labels)
        dealt = memory(relabelled(rows(20, reference), labels))
        admitted += bool(mined(dealt, BOOL, FIELDS))
    assert admitted <= 100 * ALPHA


def test_a_single_label_that_speaks_against_it_admits_nothing():
    labels = [True, False] * 20
    labels[3] = True
    labels[8] = False
    wrong = relabelled(rows(40, reference), labels)
    assert mined(memory(wrong), BOOL, FIELDS) == ()


def test_nothing_is_tried_without_shared_words():
    silent = [replace(row, rationale=None) for row in rows(20, reference)]
    assert mined(memory(silent), BOOL, FIELDS) == ()
    assert mined(Memory(), BOOL, FIELDS) == ()


def test_a_test_belongs_to_the_comments_that_name_its_words():
    learned = with_mined(memory(rows(12, unfortunate)), BOOL, FIELDS)
    for guideline in learned.guidelines:
        assert bool(guideline.tests) == ("unfortunately" in guideline.text)
    assert with_mined(learned, BOOL, FIELDS) is learned


def test_a_test_that_labels_no_longer_bear_out_goes():
    taught = rows(12, reference)
    learned = with_mined(memory(taught), BOOL, FIELDS)
    assert any(guideline.tests for guideline in learned.guidelines)
    turned = memory(relabelled(taught, [True, True, False, False] * 3))
    doubted = replace(turned, guidelines=learned.guidelines)
    for guideline in with_mined(doubted, BOOL, FIELDS).guidelines:
        assert not guideline.tests
