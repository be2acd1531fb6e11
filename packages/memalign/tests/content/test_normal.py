"""Normal forms of words, and the walker of JSON: which differences count for what."""

from collections.abc import Callable
from typing import Any

import pytest

from memalign.content.normal import (
    column_form,
    folded,
    literal_form,
    name_key,
    printable,
    quote_form,
    search_form,
    search_letters,
    word_form,
    words_and_pairs,
)
from memalign.content.walk import rebuilt, texts_in, values_in

PAIRS = {
    "case": ("Very Late", "very late"),
    "accents": ("José", "Jose"),
    "white space": ("very  late", "very late"),
    "wide letters": ("\uff4cate", "late"),
    "unseen letters": ("la\u200bte", "late"),
    "quotation marks": ("\u201clate\u201d", '"late"'),
    "kinds of quotation": ("'late'", '"late"'),
    "dashes": ("very\u2011late", "very-late"),
    "punctuation": ("late!", "late"),
    "escapes": ("Jos\\u00e9", "José"),
}


def marked_letters(text: str) -> list[str]:
    """Return what a page compares where it marks what a search found."""
    return [letter for letter, _ in search_letters(text)]


LETTERS = {"case", "white space", "wide letters", "unseen letters"}
NAMES = LETTERS | {"quotation marks", "dashes"}
MARKS = {"quotation marks", "kinds of quotation", "dashes", "punctuation"}
SAME: dict[Callable[[str], Any], set[str]] = {
    folded: NAMES,
    name_key: NAMES,
    search_form: NAMES | {"accents"},
    marked_letters: NAMES | {"accents"},
    word_form: MARKS | {"case", "white space", "wide letters"},
    words_and_pairs: MARKS | {"case", "white space", "wide letters", "escapes"},
    literal_form: {"white space", "wide letters", "quotation marks"},
    quote_form: {
        "white space",
        "wide letters",
        "quotation marks",
        "kinds of quotation",
        "escapes",
    },
    column_form: MARKS | {"case", "white space"},
}


@pytest.mark.parametrize("form", SAME, ids=lambda form: form.__name__)
def test_each_form_ignores_exactly_what_makes_no_difference_to_its_use(form):
    for name, (one, other) in PAIRS.items():
        assert (form(one) == form(other)) == (name in SAME[form]), name


def test_a_name_of_which_nothing_is_visible_is_still_somebodys():
    assert name_key("\u200b") != name_key("\u200c")


def test_columns_are_one_in_every_spelling_of_programmers_and_spreadsheets():
    spellings = ("userFeedback", "User feedback", "USER_FEEDBACK", "user-feedback:")
    assert {column_form(name) for name in spellings} == {"user_feedback"}


VALUE = {"a": ["x", {"b": True, "c": 2}], "d": None, "e": ("y",)}


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({}, ["a", "x", "b", "c", "d", "e", "y"]),
        ({"keys": False}, ["x", "y"]),
        ({"keys": False, "numbers": True}, ["x", "2", "y"]),
    ],
)
def test_texts_come_in_the_order_of_json(options, texts):
    assert list(texts_in(VALUE, **options)) == texts
    assert rebuilt(VALUE, str.upper)["A"] == ["X", {"B": True, "C": 2}]


def test_no_depth_is_too_much_for_the_walker():
    value: Any = "deep"
    for _ in range(100_000):
        value = [value]
    assert list(texts_in(value)) == ["deep"]
    assert sum(1 for _ in values_in(value)) == 100_001


@pytest.mark.parametrize(
    "text",
    [
        "Bonjour\u202f!\u00a0Ça va\u00a0?",  # French puts such blanks before marks
        "\u6771\u4eac\u3000\u5927\u962a",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # a joiner inside a Persian word
        "\u05e9\u05dc\u05d5\u05dd\u200f!",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f",
        "Donau\u00addampf\n\tschiff",
    ],
)
def test_ordinary_writing_is_shown_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    "sign", "\x00\x07\x1b\x7f\x9b\r\u2028\u202e\u2066\ud83d\U000e0041"
)
def test_what_a_terminal_obeys_is_never_shown(sign: str) -> None:
    assert printable(f"a{sign}b") == "a\ufffdb"
