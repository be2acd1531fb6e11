"""What code decides of an item: the kinds of tests, their sentences, what may not be
used, and the findings."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.judge.code_tests import Reading, checked, holds, sentence
from memalign.types import CodeTest
from tests.support.patience import takes_linear_time

REGARDS = "With the house's regards"


def code(kind: Any, text: str = "", **fields: Any) -> CodeTest:
    return CodeTest(kind=kind, text=text, **fields)


DECIDED: list[tuple[CodeTest, Any, bool | None]] = [
    (code("contains", REGARDS), f"Dear you. {REGARDS}, A. Brandt", True),
    (code("contains", REGARDS), "with  the\nHOUSE\u2019S regards", True),
    (code("contains", "café"), "a cafe\u0301", True),
    (code("contains", "it's 12\""), "it\u00b4s 12″", True),
    (code("word", "sorry"), "Sorry, that was us.", True),
    (code("word", "pound"), "40 pounds", False),
    (code("word", "注文"), "ご注文ありがとう", True),  # no spaces are written
    (code("starts", "Hi"), "  hi Ana,", True),
    (code("ends", "A.B."), "All well. A.B.\n", True),
    (code("ends", "A.B."), "All well. A.B. and on", False),
    (code("shape", "KD/4821"), "Under PT/0007 it is packed.", True),
    (code("shape", "KD/4821"), "Under PT-0007, P/0007 and PT/00071.", False),
    (code("length", high=3), "one two three", True),
    (code("length", high=3), "one two three four", False),
    (code("length", low=4, high=4), "ありがと", True),
    (code("number", "euros"), "leek soup, 6 euros, mild", True),
    (code("number", "euros", low=1234.5, high=1234.5), "it is 1.234,50 euros", True),
    (code("number", "€", low=1234.5, high=1234.5), "€1,234.50 in all", True),
    (code("number", "km", low=1200), "1,200km", True),
    (code("number", "km", low=1200), "1.200 km", False),
    (code("number", low=40), "about 41 or so", True),
    (code("word", "Norway", field="inputs.customer"), "any reply", None),
]


@pytest.mark.parametrize(("case", "outputs", "expected"), DECIDED)
def test_code_decides(case: CodeTest, outputs: Any, expected: bool | None) -> None:
    assert checked(case) is None
    assert holds(case, Reading({"outputs": outputs})) is expected


def test_parts_and_conversations_are_read_too() -> None:
    item = {
        "inputs": {"customer": "Ms Lind, Norway", "question": "How heavy?"},
        "conversation": [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": "Good day"},
        ],
    }
    reading = Reading(item)
    assert holds(code("word", "Norway", field="inputs.customer"), reading)
    assert not holds(code("word", "heavy", field="inputs.customer"), reading)
    assert not holds(code("word", "assistant", field="conversation"), reading)


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (code("shape", "KD/4821"), "The reply has a piece like KD/4821"),
        (code("contains", REGARDS), f'The reply has "{REGARDS}"'),
        (
            code("word", "Norway", field="inputs.customer"),
            'inputs.customer has the word "Norway"',
        ),
        (code("starts", "Hi"), 'The reply begins with "Hi"'),
        (code("ends", "A.B."), 'The reply ends with "A.B."'),
        (code("length", low=5, high=20), "The reply has 5 to 20 words"),
        (
            code("number", "euros", low=5),
            'The reply has a number of at least 5 with "euros"',
        ),
        (code("number", high=12.5), "The reply has a number of at most 12.5"),
    ],
)
def test_people_read_a_sentence(case: CodeTest, text: str) -> None:
    assert sentence(case) == text


def test_people_read_what_is_so_where_a_test_fails() -> None:
    said = sentence(code("shape", "KD/4821"), positive=False)
    assert said == "The reply does not have a piece like KD/4821"


@pytest.mark.parametrize(
    ("case", "why"),
    [
        (code("contains", " \n"), "it has no literal"),
        (code("contains", "a" * 201), "its literal has more than 200 characters"),
        (code("shape", "a" * 41), "its literal has more than 40 characters"),
        (code("shape", "--"), "its example has no shape"),
        (code("length"), "it has no bound"),
        (code("length", low=3, high=2), "no number lies between its bounds"),
        (code("length", low=math.nan), "no number lies between its bounds"),
        (code("contains", "a", field="meta"), "an example has no field 'meta'"),
        (
            code("contains", "a", field="outputs | upper"),
            "'outputs | upper' is not a part of a field",
        ),
        (code("contains", "```"), "a control token of chat models or a fence"),
        (
            code("contains", '{"value": true'),
            "it contains a verdict in the form of a model's answer",
        ),
    ],
)
def test_what_may_not_be_used_says_why(case: CodeTest, why: str) -> None:
    fault = checked(case)
    assert fault is not None
    assert why in fault


# -- whatever an item holds ------------------------------------------------------------

HOSTILE = [
    "a" * 200_000,
    "a " * 100_000,
    "1" * 200_000,
    "1." * 100_000,
    "\ufdfa" * 20_000,
    "1 " * 100_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:3])
def test_the_time_is_linear_in_a_hostile_item(text: str) -> None:
    def read(part: str) -> None:
        for case in (
            code("word", "a " * 99 + "b"),
            code("contains", "a" * 199 + "b"),
            code("shape", "a" * 40),
            code("shape", "1" * 39 + "-"),
            code("number", "euros"),
            code("length", low=1),
        ):
            holds(case, Reading({"outputs": part}))

    assert takes_linear_time(read, text)


@given(
    st.sampled_from(DECIDED),
    st.recursive(st.text() | st.integers() | st.none(), st.lists),
)
def test_no_item_is_too_odd(
    decided: tuple[CodeTest, Any, bool | None], outputs: Any
) -> None:
    case, _, _ = decided
    assert holds(case, Reading({"outputs": outputs})) in (True, False, None)


@given(st.text(min_size=1, max_size=40))
def test_a_literal_is_in_itself_and_nothing_of_it_is_a_pattern(text: str) -> None:
    case = code("contains", text)
    if checked(case) is None:
        assert holds(case, Reading({"outputs": f"x{text}y"}))
        assert holds(code("starts", text), Reading({"outputs": text}))
        assert holds(code("ends", text), Reading({"outputs": text}))
