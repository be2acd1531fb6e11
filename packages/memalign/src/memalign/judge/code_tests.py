"""What code decides of an item, without a model: a literal and how it must occur.

No test is a pattern. Texts are compared in one normal form (`literal_form`, without capitals), and
a shape is a literal too, of classes of characters: the time is linear, whatever an item holds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from memalign.content import Part, part_in, words_of
from memalign.content.normal import UNSPACED, literal_form
from memalign.errors import InputError
from memalign.memory import Memory
from memalign.memory.guard import JudgedTexts, guideline_fault
from memalign.types import CONTENT_FIELDS, CodeTest, Finding

__all__ = [
    "Reading",
    "checked",
    "facts",
    "form_of",
    "found_words",
    "has_word",
    "holds",
    "literal_of",
    "named_in",
    "places",
    "sentence",
    "shape",
]

LONGEST = 200
"""Characters of a literal: those of a sentence that an expert demands word for word."""
LONGEST_SHAPE = 40
"""Characters of a literal that is a shape."""


class Reading:
    """An item, or one side of a pair, as tests read it: each field is normalised once."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self._texts: dict[tuple[str, Callable[[str], str]], str] = {}

    def value(self, field: str) -> Any:
        """Return a field, or a part of one, as it is; None if it is missing."""
        return part_in(self._content, field)

    def text(self, field: str, form: Callable[[str], str] = str.casefold) -> str:
        """Return the words of a field in normal form, without capitals or in another form."""
        key = (field, form)
        if key not in self._texts:
            words = words_of(field, self.value(field))
            plain = literal_form("\n".join(words))
            self._texts[key] = form(plain)
        return self._texts[key]


# -- literals ----------------------------------------------------------------------------------


def form_of(test: CodeTest) -> Callable[[str], str]:
    """Return the form in which a test compares texts."""
    return shape if test.kind == "shape" else str.casefold


def literal_of(test: CodeTest) -> str:
    """Return the literal of a test in that form."""
    return form_of(test)(literal_form(test.text))


def shape(text: str) -> str:
    """Return the class of each character: a digit, a capital, another letter, or itself."""
    return "".join(map(_class_of, text))


def _class_of(character: str) -> str:
    if character.isdigit():
        return "0"
    if character.isupper():
        return "A"
    if character.isalpha():
        return "a"
    return character


def places(text: str, literal: str) -> Iterator[int]:
    """Yield where a literal is in a text as whole words, without overlap."""
    at = text.find(literal)
    while at >= 0:
        end = at + len(literal)
        whole = _edge(text, at) and _edge(text, end)
        if whole:
            yield at
        at = text.find(literal, end if whole else at + 1)


def has_word(text: str, literal: str) -> bool:
    """Return whether a text has a literal as whole words."""
    return next(places(text, literal), None) is not None


def _edge(text: str, place: int) -> bool:
    """Return whether a word may begin or end here; in a language without spaces, anywhere."""
    if place <= 0 or place >= len(text):
        return True
    return not _goes_on(text[place - 1]) or not _goes_on(text[place])


def _goes_on(letter: str) -> bool:
    return (letter.isalnum() or letter == "_") and not UNSPACED.match(letter)


def named_in(test: CodeTest, text: str) -> bool:
    """Return whether a text has the literal of a test, and the numbers of its bounds."""
    plain = literal_form(text)
    numbers = set(map(_number, _NUMBER.findall(plain)))
    if not numbers.issuperset(_bounds(test)):
        return False
    literal = literal_of(test)
    if not literal:
        return True
    return has_word(form_of(test)(plain), literal)


# -- answers -----------------------------------------------------------------------------------


def holds(test: CodeTest, reading: Reading) -> bool | None:
    """Return whether a test holds of an item, or None if the item has no such field.

    Args:
        test: One that `checked` finds no fault with.
        reading: The item.
    """
    if reading.value(test.field) is None:
        return None
    text = reading.text(test.field, form_of(test))
    if test.kind == "length":
        return _within(test, _words_in(text))
    if test.kind == "number":
        return any(_within(test, number) for number in _numbers(text, literal_of(test)))
    return _place(test, text) >= 0


def found_words(test: CodeTest, reading: Reading) -> str | None:
    """Return the words of an item that a test found; None for a test that counts."""
    if test.kind in ("length", "number"):
        return None
    words = reading.text(test.field, str)
    text = reading.text(test.field, form_of(test))
    place = _place(test, text)
    # Some letters have another length without capitals.
    if place < 0 or len(text) != len(words):
        return literal_form(test.text)
    end = place + len(literal_of(test))
    return words[place:end]


def facts(memory: Memory, reading: Reading) -> tuple[Finding, ...]:
    """Return what the tests of the guidelines in force find of an item, each test once."""
    findings: dict[str, Finding] = {}
    for guideline, test in memory.tests:
        said = sentence(test)
        answer = holds(test, reading)
        if answer is None or said in findings:
            continue
        findings[said] = Finding(
            guideline=guideline.id,
            test=said,
            holds=answer,
            taught_by=memory.sources_of(guideline),
        )
    return tuple(findings.values())


def _place(test: CodeTest, text: str) -> int:
    """Return where a text has the literal in the way that the test asks for, or -1."""
    literal = literal_of(test)
    if test.kind == "contains":
        return text.find(literal)
    if test.kind == "ends":
        place = len(text) - len(literal)
        if text.endswith(literal) and _edge(text, place):
            return place
        return -1
    place = next(places(text, literal), -1)
    if test.kind == "starts" and place > 0:
        return -1
    return place


def _words_in(text: str) -> int:
    """Count words; a character is a word in a language that writes no spaces."""
    unspaced = sum(map(len, UNSPACED.findall(text)))
    return unspaced + len(UNSPACED.sub(" ", text).split())


# -- numbers -----------------------------------------------------------------------------------

_NUMBER = re.compile(r"(?<![\w.,])[-+]?[0-9]+(?:[.,][0-9]+)*")


def _numbers(text: str, unit: str) -> Iterator[float]:
    """Yield the numbers with a unit right before or after them, with or without a space."""
    room = len(unit) + 2
    for number in _NUMBER.finditer(text):
        start, end = number.span()
        first = max(start - room, 0)
        before = text[first:start].removesuffix(" ")
        after = text[end : end + room].removeprefix(" ")
        follows = after.startswith(unit) and _edge(after, len(unit))
        leads = before.endswith(unit) and _edge(before, len(before) - len(unit))
        if follows or leads:
            yield _number(number[0])


def _number(digits: str) -> float:
    """Read `1,234.5` and `1.234,5` as they are meant.

    One comma before three digits is a thousands separator, one point is not.
    """
    mark = "."
    if digits.rfind(",") > digits.rfind("."):
        mark = ","
    whole, mark, rest = digits.rpartition(mark)
    plain = whole.replace(",", "").replace(".", "")
    thousands = mark == "," and "." not in whole and len(rest) == 3
    if not mark or mark in whole or thousands:
        return float(plain + rest)
    return float(f"{plain}.{rest}")


def _bounds(test: CodeTest) -> list[float]:
    return [bound for bound in (test.low, test.high) if bound is not None]


def _within(test: CodeTest, number: float) -> bool:
    if test.low is not None and number < test.low:
        return False
    return test.high is None or number <= test.high


# -- words for people, and faults --------------------------------------------------------------

_SUBJECTS = {
    "inputs": "The request",
    "outputs": "The reply",
    "expectations": "The reference",
    "conversation": "The conversation",
}
_SENTENCES = {
    "contains": ("has", '"{text}"'),
    "word": ("has", 'the word{s} "{text}"'),
    "starts": ("begins", 'with "{text}"'),
    "ends": ("ends", 'with "{text}"'),
    "shape": ("has", "a piece like {text}"),
    "length": ("has", "{bounds} words"),
    "number": ("has", 'a number{of} with "{text}"'),
}
_DENIED = {"has": "does not have", "begins": "does not begin", "ends": "does not end"}


def sentence(test: CodeTest, *, positive: bool = True) -> str:
    """Return a test as people read it, such as `The reply has a piece like KD/4821`.

    Args:
        test: The test.
        positive: Whether it holds; else the sentence says what is so if it fails.
    """
    text = literal_form(test.text)
    bounds = _bounds_in_words(test)
    verb, rest = _SENTENCES[test.kind]
    found = rest.format(
        text=text,
        s="s" if " " in text else "",
        bounds=bounds,
        of=f" of {bounds}" if bounds else "",
    )
    if not positive:
        verb = _DENIED[verb]
    subject = _SUBJECTS.get(test.field, test.field)
    return f"{subject} {verb} {found}".removesuffix(' with ""')


def _bounds_in_words(test: CodeTest) -> str:
    if test.low is None and test.high is None:
        return ""
    if test.low is None:
        return f"at most {test.high:g}"
    if test.high is None:
        return f"at least {test.low:g}"
    if test.low == test.high:
        return f"{test.low:g}"
    return f"{test.low:g} to {test.high:g}"


def checked(
    test: CodeTest,
    judged: JudgedTexts | Iterable[tuple[str, str]] = (),
    comments: Collection[str] = (),
) -> str | None:
    """Return why a test may not be used, or None if it may.

    Args:
        test: The test.
        judged: As for `guideline_fault`.
        comments: As for `guideline_fault`.
    """
    fault = _field_fault(test) or _literal_fault(test) or _bounds_fault(test)
    return fault or guideline_fault(sentence(test), judged, comments)


def _field_fault(test: CodeTest) -> str | None:
    try:
        part = Part.parse(test.field)
    except InputError as error:
        return str(error)
    if part.field not in CONTENT_FIELDS:
        return f"an example has no field {test.field!r}"
    return None


def _literal_fault(test: CodeTest) -> str | None:
    if test.kind not in ("length", "number") and not literal_form(test.text):
        return "it has no literal"
    most = LONGEST_SHAPE if test.kind == "shape" else LONGEST
    if len(test.text) > most:
        return f"its literal has more than {most} characters"
    if test.kind == "shape":
        has_sign = any(map(str.isalnum, test.text))
        if len(test.text) < 2 or not has_sign:
            return "its example has no shape"
    return None


def _bounds_fault(test: CodeTest) -> str | None:
    bounds = _bounds(test)
    if not all(map(math.isfinite, bounds)) or bounds != sorted(bounds):
        return "no number lies between its bounds"
    if test.kind == "length" and not bounds:
        return "it has no bound"
    return None
