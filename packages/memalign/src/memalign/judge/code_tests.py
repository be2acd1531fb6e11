"""What code decides of an item, without a model: a literal and how it must occur, and the findings that it comes to.

No test is a pattern. Texts are compared in one normal form (NFKC, plain quotes, one space between words, letters
without case), and a shape is a literal too, of classes of characters: so the time is linear, whatever an item holds.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from memalign.content import Part, each_side, part_in, sides_of, words_of
from memalign.errors import InputError
from memalign.memory import Memory
from memalign.memory.guard import UNSPACED, check_fault, guideline_fault
from memalign.types import CONTENT_FIELDS, Check, CodeTest, Finding, Guideline

__all__ = [
    "Reading",
    "answers",
    "asked_by",
    "checked",
    "facts",
    "holds",
    "is_mined",
    "normal",
    "places",
    "sentence",
    "shape",
    "standing_fault",
]

LONGEST, LONGEST_SHAPE = 200, 40
"""Characters of a literal: those of a sentence that an expert demands word for word; and of one that is a shape."""

_SUBJECTS = {"inputs": "request", "outputs": "reply", "expectations": "reference", "conversation": "conversation"}
_SENTENCES = {
    "contains": '{it} {has} "{text}"',
    "word": '{it} {has} the word{s} "{text}"',
    "starts": '{it} {begins} with "{text}"',
    "ends": '{it} {ends} with "{text}"',
    "shape": "{it} {has} a piece like {text}",
    "length": "{it} {has}{bounds} words",
    "count": '{it} {has} "{text}"{bounds} times',
    "number": '{it} {has} a number{of}{bounds} with "{text}"',
    "before": 'in {it} "{text}" {comes} before "{then}"',
    "json_path": 'in {it} {text} {is_} "{then}"',
}
_VERBS = {"has": "have", "begins": "begin", "ends": "end", "comes": "come"}
_QUOTES = str.maketrans(dict.fromkeys("´‘’‚‛ʼ′‹›", "'") | dict.fromkeys("“”„‟″«»", '"'))  # noqa: RUF001
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
            self._texts[field, form] = form(normal("\n".join(words_of(field, self.value(field)))))
        return self._texts[field, form]


def holds(test: CodeTest, reading: Reading) -> bool | None:
    """Whether a test that `checked` has no fault with holds of an item; None where the item has no such field."""
    if reading.value(test.field) is None:
        return None
    form = shape if test.kind == "shape" else str.casefold
    text, literal, then = reading.text(test.field, form), form(normal(test.text)), form(normal(test.then))
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
            return _within(test, sum(map(len, UNSPACED.findall(text))) + len(UNSPACED.sub(" ", text).split()))
        case "count":
            return _within(test, sum(1 for _ in at))
        case "number":
            return any(_within(test, number) for number in _numbers(text, literal))
        case "before":
            return 0 <= next(at, -1) < next(places(text, then), -1)
        case "json_path":
            return _leads(test, reading.value(test.field))


def normal(text: str) -> str:
    """The text as tests compare it, with its capitals."""
    return " ".join(unicodedata.normalize("NFKC", text.translate(_QUOTES)).split())


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
    return "".join("0" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)


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


def _leads(test: CodeTest, value: Any) -> bool:
    """Whether the path leads to what is wanted, in the JSON of a field or in its text, which may be JSON."""
    try:
        target = _path(test).of({"it": msgspec.json.decode(value) if isinstance(value, str) else value})
    except (InputError, msgspec.DecodeError, RecursionError):
        return False
    text = target if isinstance(target, str) else json.dumps(target, ensure_ascii=False)
    return normal(text).casefold() == normal(test.then).casefold()


def _path(test: CodeTest) -> Part:
    return Part.parse(f"it{test.text}" if test.text.startswith("[") else f"it.{test.text}")


def sentence(test: CodeTest, *, positive: bool = True) -> str:
    """The test as people read it, `The reply has a piece like KD/4821`, or what is so where it fails."""
    named = _SUBJECTS.get(test.field)
    low, high = (None if bound is None else f"{bound:g}" for bound in (test.low, test.high))
    bounds = "" if low is None else f" at least {low}"
    if high is not None:
        bounds = f" at most {high}" if low is None else f" {low}" if low == high else f" {low} to {high}"
    text = _SENTENCES[test.kind].format(
        it=f"the {named}" if named else test.field,
        text=normal(test.text),
        then=normal(test.then),
        bounds=bounds,
        of=" of" * bool(bounds),
        s="s" * (" " in normal(test.text)),
        is_="is" if positive else "is not",
        **{verb: verb if positive else f"does not {plain}" for verb, plain in _VERBS.items()},
    )
    text = text.removesuffix(' with ""')
    return text[0].upper() + text[1:] if named or text.startswith("in ") else text


def checked(test: CodeTest, judged: Iterable[tuple[str, str]] = (), comments: Collection[str] = ()) -> str | None:
    """Why a test may not be used, or None if it may; `judged` and `comments` are as for `guideline_fault`."""
    try:
        if Part.parse(test.field).field not in CONTENT_FIELDS:
            return f"an example has no field {test.field!r}"
        if test.kind == "json_path":
            _path(test)
    except InputError as error:
        return str(error)
    needed = {"length": (), "number": (), "before": (test.text, test.then)}.get(test.kind, (test.text,))
    if not all(map(normal, needed)):
        return "it has no literal"
    if max(len(test.text), len(test.then)) > (most := LONGEST_SHAPE if test.kind == "shape" else LONGEST):
        return f"its literal has more than {most} characters"
    if test.kind == "shape" and (len(test.text) < 2 or not any(map(str.isalnum, test.text))):
        return "its example has no shape"
    bounds = [bound for bound in (test.low, test.high) if bound is not None]
    if not all(map(math.isfinite, bounds)) or bounds != sorted(bounds):
        return "no number lies between its bounds"
    if test.kind in ("length", "count") and not bounds:
        return "it has no bound"
    return guideline_fault(sentence(test), judged, comments)


def standing_fault(check: Check) -> str | None:
    """Why a check that stands may not be asked or shown, or None: of a test also another sentence than its own."""
    if check.test is None:
        return check_fault(check.question)
    return checked(check.test) or (None if check.question == sentence(check.test) else "it is not the test's sentence")


def is_mined(guideline: Guideline) -> bool:
    """Whether code found the guideline in the labels: nobody said it or took it over, and all its checks are tests."""
    untouched = not guideline.people and not guideline.supported_by
    return untouched and bool(guideline.checks) and all(check.test for check in guideline.checks)


def answers(memory: Memory, content: Mapping[str, Any], choices: Collection[str]) -> dict[str, tuple[bool | None, ...]]:
    """By the sentence of each test in force whether it holds, of the item or of a pair's sides in `choices` order."""
    readings = [Reading(side) for side in each_side(content, choices)]
    tests = {check.question: check.test for guideline in memory.semantic for check in guideline.checks if check.test}
    return {question: tuple(holds(test, reading) for reading in readings) for question, test in tests.items()}


def facts(memory: Memory, content: Mapping[str, Any], choices: Collection[str]) -> tuple[Finding, ...]:
    """What the tests of the guidelines in force find of an item; of a pair of each side, whose name goes first."""
    sides = sides_of(content, choices)
    names = [f"{name}: " for name in choices if name in sides] if len(sides) == 2 else [""]
    findings = []
    for question, by_side in answers(memory, content, choices).items():
        asking = [rule for rule in memory.semantic if any(check.question == question for check in rule.checks)]
        unanswered = asked_by(memory, question, asking)
        findings += [
            replace(unanswered, check=name + question, answer="yes" if answer else "no", probability=float(answer))
            for name, answer in zip(names, by_side, strict=True)
            if answer is not None
        ]
    return tuple(findings)


def asked_by(memory: Memory, check: str, guidelines: Sequence[Guideline]) -> Finding:
    """A finding of the check without its answer, taught by all whose guidelines these are."""
    taught_by = dict.fromkeys(key for guideline in guidelines for key in memory.sources_of(guideline))
    return Finding(guideline=guidelines[0].id, check=check, taught_by=tuple(taught_by))
