"""What code decides of an item, without a model: a literal and how it must occur, and the findings that it comes to.

No test is a pattern. Texts are compared in one normal form (NFKC, plain quotes, one space between words, letters
without case), and a shape is a literal too, of classes of characters: so the time is linear, whatever an item holds.
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
    "found_words",
    "holds",
    "named_in",
    "places",
    "sentence",
    "shape",
]

LONGEST, LONGEST_SHAPE = 200, 40
"""Characters of a literal: those of a sentence that an expert demands word for word; and of one that is a shape."""

_SUBJECTS = {
    "inputs": "request",
    "outputs": "reply",
    "expectations": "reference",
    "conversation": "conversation",
}
_SENTENCES = {
    "contains": '{it} {has} "{text}"',
    "word": '{it} {has} the word{s} "{text}"',
    "starts": '{it} {begins} with "{text}"',
    "ends": '{it} {ends} with "{text}"',
    "shape": "{it} {has} a piece like {text}",
    "length": "{it} {has}{bounds} words",
    "number": '{it} {has} a number{of}{bounds} with "{text}"',
}
_VERBS = {"has": "have", "begins": "begin", "ends": "end"}
_NUMBER = re.compile(r"(?<![\w.,])[-+]?[0-9]+(?:[.,][0-9]+)*")


class Reading:
    """An item, or one side of a pair, as tests read it: each field is brought to a normal form once."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self._texts: dict[tuple[str, Callable[[str], str]], str] = {}

    def value(self, field: str) -> Any:
        """The field, or the part of it, as it stands; None where there is none."""
        return part_in(self._content, field)

    def text(self, field: str, form: Callable[[str], str] = str.casefold) -> str:
        """Its words in normal form, without capitals, or in another form."""
        if (field, form) not in self._texts:
            self._texts[field, form] = form(
                literal_form("\n".join(words_of(field, self.value(field))))
            )
        return self._texts[field, form]


def holds(test: CodeTest, reading: Reading) -> bool | None:
    """Whether a test that `checked` has no fault with holds of an item; None where the item has no such field."""
    if reading.value(test.field) is None:
        return None
    form = shape if test.kind == "shape" else str.casefold
    text = reading.text(test.field, form)
    literal = form(literal_form(test.text))
    at = places(text, literal)
    match test.kind:
        case "contains":
            return literal in text
        case "word" | "shape":
            return next(at, -1) >= 0
        case "starts":
            return next(at, -1) == 0
        case "ends":
            return text.endswith(literal) and _edge(text, len(text) - len(literal))
        case "length":  # a character is a word where a language writes no spaces
            return _within(
                test, sum(map(len, UNSPACED.findall(text))) + len(UNSPACED.sub(" ", text).split())
            )
        case "number":
            return any(_within(test, number) for number in _numbers(text, literal))


def places(text: str, literal: str) -> Iterator[int]:
    """Where the literal stands, without overlap, and no letter or digit goes on before or after it."""
    at = text.find(literal)
    while at >= 0:
        end = at + len(literal)
        if whole := _edge(text, at) and _edge(text, end):
            yield at
        at = text.find(literal, end if whole else at + 1)


def _edge(text: str, place: int) -> bool:
    """Whether a word may begin or end here; where a language writes no spaces, it may anywhere."""
    beside = text[place - 1 : place + 1] if place else ""
    return len(beside) < 2 or not all(
        (letter.isalnum() or letter == "_") and not UNSPACED.match(letter) for letter in beside
    )


def shape(text: str) -> str:
    """Each character's class: a digit, a capital, another letter; any other stands for itself."""
    return "".join(
        "0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text
    )


def _numbers(text: str, unit: str) -> Iterator[float]:
    """The numbers that have the unit beside them, before or after, with one space or none between."""
    for number in _NUMBER.finditer(text):
        after = text[number.end() : number.end() + len(unit) + 2].removeprefix(" ")
        before = text[max(number.start() - len(unit) - 2, 0) : number.start()].removesuffix(" ")
        if (after.startswith(unit) and _edge(after, len(unit))) or (
            before.endswith(unit) and _edge(before, len(before) - len(unit))
        ):
            yield _number(number.group())


def _number(digits: str) -> float:
    """`1,234.5` and `1.234,5` as they are meant; one comma before three digits parts thousands, one point does not."""
    whole, mark, rest = digits.rpartition("," if digits.rfind(",") > digits.rfind(".") else ".")
    plain = whole.replace(",", "").replace(".", "")
    thousands = mark in whole or (mark == "," and "." not in whole and len(rest) == 3)
    return float(plain + rest if thousands or not mark else f"{plain}.{rest}")


def _within(test: CodeTest, number: float) -> bool:
    return (test.low is None or number >= test.low) and (test.high is None or number <= test.high)


def sentence(test: CodeTest, *, positive: bool = True) -> str:
    """The test as people read it, `The reply has a piece like KD/4821`, or what is so where it fails."""
    named = _SUBJECTS.get(test.field)
    low, high = (None if bound is None else f"{bound:g}" for bound in (test.low, test.high))
    bounds = "" if low is None else f" at least {low}"
    if high is not None:
        bounds = (
            f" at most {high}" if low is None else f" {low}" if low == high else f" {low} to {high}"
        )
    text = _SENTENCES[test.kind].format(
        it=f"the {named}" if named else test.field,
        text=literal_form(test.text),
        bounds=bounds,
        of=" of" * bool(bounds),
        s="s" * (" " in literal_form(test.text)),
        **{verb: verb if positive else f"does not {plain}" for verb, plain in _VERBS.items()},
    )
    text = text.removesuffix(' with ""')
    return text[0].upper() + text[1:] if named else text


def checked(
    test: CodeTest,
    judged: JudgedTexts | Iterable[tuple[str, str]] = (),
    comments: Collection[str] = (),
) -> str | None:
    """Why a test may not be used, or None if it may; `judged` and `comments` are as for `guideline_fault`."""
    try:
        if Part.parse(test.field).field not in CONTENT_FIELDS:
            return f"an example has no field {test.field!r}"
    except InputError as error:
        return str(error)
    if test.kind not in ("length", "number") and not literal_form(test.text):
        return "it has no literal"
    if len(test.text) > (most := LONGEST_SHAPE if test.kind == "shape" else LONGEST):
        return f"its literal has more than {most} characters"
    if test.kind == "shape" and (len(test.text) < 2 or not any(map(str.isalnum, test.text))):
        return "its example has no shape"
    bounds = [bound for bound in (test.low, test.high) if bound is not None]
    if not all(map(math.isfinite, bounds)) or bounds != sorted(bounds):
        return "no number lies between its bounds"
    if test.kind == "length" and not bounds:
        return "it has no bound"
    return guideline_fault(sentence(test), judged, comments)


def found_words(test: CodeTest, reading: Reading) -> str | None:
    """Return the words of an item that a test found; None where it counts."""
    if test.kind in ("length", "number"):
        return None
    words = reading.text(test.field, str)
    form = shape if test.kind == "shape" else str.casefold
    literal = form(literal_form(test.text))
    said = form(words)
    at = said.find(literal) if test.kind == "contains" else next(places(said, literal), -1)
    if test.kind == "ends":
        at = len(said) - len(literal)
    return (
        words[at : at + len(literal)]
        if at >= 0 and len(said) == len(words)
        else literal_form(test.text)
    )


def named_in(test: CodeTest, text: str) -> bool:
    """Return whether a text has the literal of a test, and where that has bounds, their numbers."""
    form = shape if test.kind == "shape" else str.casefold
    said = form(literal_form(text))
    literal = form(literal_form(test.text))
    numbers = {_number(number) for number in _NUMBER.findall(literal_form(text))}
    bounds = {bound for bound in (test.low, test.high) if bound is not None}
    return (not literal or next(places(said, literal), -1) >= 0) and bounds <= numbers


def facts(memory: Memory, reading: Reading) -> tuple[Finding, ...]:
    """Return what the tests of the guidelines in force find of an item, each test once."""
    findings = dict[str, Finding]()
    for guideline in memory.semantic:
        for test in guideline.tests:
            said = sentence(test)
            answer = holds(test, reading)
            if answer is not None and said not in findings:
                taught_by = memory.sources_of(guideline)
                findings[said] = Finding(
                    guideline=guideline.id, test=said, holds=answer, taught_by=taught_by
                )
    return tuple(findings.values())
