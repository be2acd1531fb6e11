"""Tests that code finds in labels and comments, for models that are too weak to write guidelines.

Candidates are words, units and shapes that comments and items share. One is admitted if labels
agree with it too well for chance, over all that could have been admitted, and no label contradicts
it. It belongs to the guidelines that name its words.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from memalign.content.normal import literal_form
from memalign.judge.borne_out import (
    ALPHA,
    Column,
    LabelledCase,
    chance,
    column_of,
    labelled_cases,
    outcome_of,
)
from memalign.judge.code_tests import checked, named_in, shape
from memalign.memory import Memory
from memalign.types import CodeTest, TestKind
from memalign.values import ValueType

__all__ = ["mined", "with_mined"]

LONGEST = 4
"""Words of a mined literal at most: longer ones are whole sentences, and seldom in two items."""
CANDIDATES = 1_000
"""Tests that are tried at most."""
_STOPS = """
a about after all also am an and any are as at be been but by can could did do does for from had has
have he her him his i if in is it its just may me more most my no nor not of on or our out she
should so some than that the their them then there these they this to too up us was we were what
when where which who will with would you your das dem den der des die ein eine er es ich im ist mit
nicht sich sie so und von wir zu de del el en la las lo los no para por que se su un una y con es a
ao com da do e em não o os para por que se um uma au aux ce dans des du elle en est et il je la le
les ne nous pas que se sur un une vous
"""
STOP_WORDS = frozenset(_STOPS.split())
"""Words of English, German, Spanish, Portuguese and French that say nothing of a rule's subject."""

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BREAK = re.compile(r"[^\w\s']+|_")
_NUMBERED = re.compile(r"[0-9] ?([^\W\d_]+)")
_AROUND = ",;:!?\"'()[]\u2013\u2014"


def with_mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> Memory:
    """Return the memory with tests that labels bear out now on the comments that name them.

    Args:
        memory: The memory. Guidelines that are a single comment, word for word, get tests.
        value_type: The judge's.
        fields: The parts of an item that its instructions name.
    """
    tests = mined(memory, value_type, fields)
    changed = []
    for guideline in memory.guidelines:
        exposed = guideline.exposed_to
        if len(exposed) != 1 or exposed != guideline.supported_by:
            continue
        named = tuple(test for test in tests if named_in(test, guideline.text))
        if named != guideline.tests:
            changed.append(replace(guideline, tests=named))
    if not changed:
        return memory
    return memory.with_guidelines(changed)


def mined(
    memory: Memory, value_type: ValueType, fields: Sequence[str]
) -> tuple[CodeTest, ...]:
    """Return the tests that labels bear out, without tests that add no case to those before them.

    Args:
        memory: The memory with labelled cases and comments.
        value_type: The judge's.
        fields: The parts of an item that its instructions name.
    """
    cases = labelled_cases(memory, value_type)
    columns = _columns(_candidates(cases, fields), cases)
    rules = _rules(columns, cases)
    limit = _chance_limit(rules)
    rules.sort(key=lambda rule: rule.right, reverse=True)
    covered = 0
    chosen = {}
    for rule in rules:
        name = rule.test.text
        if rule.wrong or name in chosen or not rule.cases & ~covered:
            continue
        if chance(rule.table) <= limit:
            covered |= rule.cases
            chosen[name] = rule.test
    return tuple(chosen.values())


class Rule(NamedTuple):
    """A test in one sense.

    Attributes:
        test: The test.
        cases: The cases in which its answer means its value, as a bit mask.
        table: How the labels agree; see `Column.table`.
    """

    test: CodeTest
    cases: int
    table: tuple[int, int, int, int]

    @property
    def right(self) -> int:
        """The number of cases that it gets right."""
        return self.table[0]

    @property
    def wrong(self) -> int:
        """The number of cases that it gets wrong."""
        return self.table[1]


def _rules(
    columns: Mapping[Column, CodeTest], cases: Sequence[LabelledCase]
) -> list[Rule]:
    """Return every test in both senses for every label, the sense that finds something first."""
    outcomes = {}
    for label in sorted({case.label for case in cases}, key=str):
        outcomes[label] = outcome_of(cases, label)
    rules = []
    for holding in (True, False):
        for column, test in columns.items():
            answers = column if holding else column.turned()
            for label, outcome in outcomes.items():
                meant = replace(test, holds=holding, value=label)
                rule = Rule(meant, answers.yes, answers.table(outcome))
                rules.append(rule)
    return rules


def _candidates(cases: Sequence[LabelledCase], fields: Sequence[str]) -> list[CodeTest]:
    """Return tests of literals that comments and items share, most content words first."""
    words: set[str] = set()
    forms: set[str] = set()
    for case in cases:
        for annotation in case.feedback:
            comment = literal_form(annotation.rationale or "")
            words.update(_grams(comment.casefold()))
            forms.update(_forms(comment))
    tests = set()
    for case in cases:
        reading = case.reading
        for field in fields:
            if reading.value(field) is None:
                continue
            text = reading.text(field)
            shared: dict[TestKind, set[str]] = {
                "word": words.intersection(_grams(text)),
                "number": words.intersection(_NUMBERED.findall(text)),
                "shape": forms.intersection(_forms(reading.text(field, str))),
            }
            for kind, literals in shared.items():
                for literal in literals:
                    tests.add(CodeTest(kind=kind, field=field, text=literal))
    usable = []
    for test in sorted(tests, key=_rank):
        if checked(test) is None:
            usable.append(test)
    return usable[:CANDIDATES]


def _rank(test: CodeTest) -> tuple[int, int, str]:
    """Return the place of a test: the most content first, then the fewest stop words."""
    letters = 0
    stops = 0
    for word in test.text.split():
        if word in STOP_WORDS:
            stops += 1
        else:
            letters += len(word)
    return -letters, stops, repr(test)


def _grams(text: str) -> Iterator[str]:
    """Yield runs of one to four words with nothing but spaces between them."""
    for part in _BREAK.split(text):
        words = _TOKEN.findall(part)
        for start in range(len(words)):
            longest = min(LONGEST, len(words) - start)
            for length in range(1, longest + 1):
                end = start + length
                yield " ".join(words[start:end])


def _forms(text: str) -> Iterator[str]:
    """Yield the shapes of pieces that are no plain words, such as references and initials."""
    for piece in text.split():
        token = piece.strip(_AROUND)
        if token.count(".") == 1:
            token = token.removesuffix(".")
        form = shape(token)
        if len(form) > 1 and not re.fullmatch("A?a+", form):
            yield form


def _columns(
    candidates: Sequence[CodeTest], cases: Sequence[LabelledCase]
) -> dict[Column, CodeTest]:
    """Return the first of the tests that say the same of every case, or the contrary."""
    columns: dict[Column, CodeTest] = {}
    for test in candidates:
        answers = column_of(cases, test)
        if not answers.yes or not answers.no:
            continue
        if answers.turned() not in columns:
            columns.setdefault(answers, test)
    return columns


def _chance_limit(rules: Sequence[Rule]) -> float:
    """Return the chance that a test may have at most: ALPHA shared among all that could pass.

    This is Bonferroni's correction as Tarone (1990, Biometrics 46:515) counts: a candidate that no
    labels with these shares could have admitted was not tried.
    """
    least = []
    for rule in rules:
        right, wrong, missed, rest = rule.table
        # Labels that could be dealt so that the test agrees best.
        swapped = min(wrong, missed)
        best = (right + swapped, wrong - swapped, missed - swapped, rest + swapped)
        least.append(chance(best))
    least.sort()
    tried = 1
    while bisect_right(least, ALPHA / tried) > tried:
        tried += 1
    return ALPHA / tried
