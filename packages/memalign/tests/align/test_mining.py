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


def memory(rows: Iterable[Feedback]) -> Memory:
    """Cases with their feedback, and a guideline of each comment, word for word."""
    rows = list(rows)
    cases = tuple(
        Case(example=row.example, annotations=(Annotation.of(row),))
        for row in rows
        if row.example
    )
    guidelines = [
        Guideline(
            id=f"G{n}",
            text=row.rationale,
            supported_by=(row.key,),
            exposed_to=(row.key,),
        )
        for n, row in enumerate(rows, 1)
        if row.rationale
    ]
    return Memory(cases=cases, next_guideline=1).with_guidelines(guidelines)


OPENINGS = ("Thank you.", "Good morning,", "We looked it up.", "Gladly.", "In short:")
GOODS = ("flour", "lemons", "slates", "nails", "cider", "candles", "rope", "tiles")
Row = tuple[Any, Any, Value, str]
"""The inputs, the outputs, the label and the comment."""


def rows(
    n: int, write: Callable[[int, random.Random], Row], *, seed: int = 0
) -> list[Feedback]:
    rng = random.Random(seed)
    made = [write(number, rng) for number in range(n)]
    return [
        Feedback(
            id=f"t-{number:03d}",
            inputs=inputs,
            outputs=outputs,
            value=value,
            rationale=comment,
            source="ana",
        )
        for number, (inputs, outputs, value, comment) in enumerate(made)
    ]


def reference(number: int, rng: random.Random) -> Row:
    letters = rng.choice(["KD", "PT", "RM"])
    digits = rng.randint(1000, 9999)
    good = number % 2 == 0
    written = f"{letters}/{digits}" if good else f"{letters}-{digits}"
    comment = (
        f"{letters}/{digits} is our form"
        if good
        else f"write {letters}/{digits}, with a slash"
    )
    return (
        f"Where is the {rng.choice(GOODS)}?",
        f"{rng.choice(OPENINGS)} Under {written} it is packed.",
        good,
        comment,
    )


def kinds(number: int, rng: random.Random) -> Row:
    label = ("spam", "order", "question")[number % 3]
    text = f"{rng.choice(OPENINGS)} {'We won a prize' if label == 'spam' else rng.choice(GOODS)}"
    return "mail", text, label, "a prize is spam"


def pairs(number: int, rng: random.Random) -> Row:
    good = f"{rng.choice(OPENINGS)} We are sorry."
    poor = f"{rng.choice(OPENINGS)} That is so."
    pair = {"A": good, "B": poor} if number % 3 else {"A": poor, "B": good}
    return (
        "complaint",
        pair,
        "A" if number % 3 else "B",
        "one says sorry, the other does not",
    )


def unfortunate(number: int, rng: random.Random) -> Row:
    good = number % 2 == 0
    said = "" if good else "Unfortunately "
    comment = "never write unfortunately" if number % 3 else "say what we can do"
    return (
        "Where is it?",
        f"{rng.choice(OPENINGS)} {said}the {rng.choice(GOODS)} are late.",
        good,
        comment,
    )


FORM = ("The reply has a piece like AA/0000", True, True)


def said(tests: Iterable[CodeTest]) -> list[tuple[str, bool, Any]]:
    return [(sentence(test), test.holds, test.value) for test in tests]


@pytest.mark.parametrize(
    ("write", "count", "value_type", "expected"),
    [
        (reference, 10, bool, [FORM]),
        (
            unfortunate,
            12,
            bool,
            [('The reply has the word "unfortunately"', True, False)],
        ),
        (
            kinds,
            24,
            "spam|order|question",
            [('The reply has the word "prize"', True, "spam")],
        ),
        (pairs, 12, "A|B|tie", []),
        (reference, 6, bool, []),  # too few
    ],
)
def test_what_the_labels_bear_out_is_found(
    write: Any, count: int, value_type: Any, expected: list[Any]
) -> None:
    assert sorted(
        said(mined(memory(rows(count, write)), ValueType.of(value_type), FIELDS))
    ) == sorted(expected)


def test_among_tests_that_say_the_same_the_longest_content_wins() -> None:
    asked = [
        Feedback(
            id=f"t-{n}",
            outputs=f"{n}: {'please send us a photo' if n % 2 else 'please wait'}",
            value=n % 2 == 1,
        )
        for n in range(12)
    ]
    commented = [
        replace(row, rationale="ask for a photo, always send us a photo")
        for row in asked
    ]
    (first, *_) = said(mined(memory(commented), BOOL, FIELDS))
    assert first[0] == 'The reply has the words "send us a photo"', (
        'not the word "a", which is right as often'
    )


def test_labels_dealt_at_random_admit_as_seldom_as_promised() -> None:
    admitted = 0
    for seed in range(100):
        taught = rows(20, reference)
        labels = [row.value for row in taught]
        random.Random(seed).shuffle(labels)
        dealt = [
            replace(row, value=label) for row, label in zip(taught, labels, strict=True)
        ]
        admitted += bool(mined(memory(dealt), BOOL, FIELDS))
    assert admitted <= 100 * ALPHA


def test_a_single_label_that_speaks_against_it_admits_nothing() -> None:
    wrong = [
        replace(row, value=row.value != (n in (3, 8)))
        for n, row in enumerate(rows(40, reference))
    ]
    assert mined(memory(wrong), BOOL, FIELDS) == ()


def test_nothing_is_tried_without_shared_words() -> None:
    silent = [replace(row, rationale=None) for row in rows(20, reference)]
    assert mined(memory(silent), BOOL, FIELDS) == mined(Memory(), BOOL, FIELDS) == ()


def test_a_test_belongs_to_the_comments_that_name_its_words() -> None:
    learned = with_mined(memory(rows(12, unfortunate)), BOOL, FIELDS)
    for guideline in learned.guidelines:
        assert bool(guideline.tests) == ("unfortunately" in guideline.text)
    assert with_mined(learned, BOOL, FIELDS) is learned


def test_a_test_that_labels_no_longer_bear_out_goes() -> None:
    taught = rows(12, reference)
    learned = with_mined(memory(taught), BOOL, FIELDS)
    assert any(guideline.tests for guideline in learned.guidelines)
    turned = memory(
        replace(row, value=number % 4 < 2) for number, row in enumerate(taught)
    )
    doubted = replace(turned, guidelines=learned.guidelines)
    assert not any(
        guideline.tests for guideline in with_mined(doubted, BOOL, FIELDS).guidelines
    )
