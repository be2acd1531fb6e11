"""Tests that code finds in labels and comments, for judges whose guidelines the embedded model would have to write.

Candidates are words, units and shapes that comments and items share. One is admitted if labels agree with it too well
for chance, over all that could have been admitted, and no label speaks against it. It belongs to the guidelines that
name its words.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
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
"""Words of a mined literal: longer ones are whole sentences, and seldom stand in two items."""
CANDIDATES = 1_000
_STOPS = """
a about after all also am an and any are as at be been but by can could did do does for from had has have he her him
his i if in is it its just may me more most my no nor not of on or our out she should so some than that the their them
then there these they this to too up us was we were what when where which who will with would you your
das dem den der des die ein eine er es ich im ist mit nicht sich sie so und von wir zu
de del el en la las lo los no para por que se su un una y con es
a ao com da do e em não o os para por que se um uma
au aux ce dans des du elle en est et il je la le les ne nous pas que se sur un une vous
"""
STOP_WORDS = frozenset(_STOPS.split())
"""Words of English, German, Spanish, Portuguese and French that say nothing of what a rule is about."""

_TOKEN = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_BREAK = re.compile(r"[^\w\s']+|_")
_NUMBERED = re.compile(r"[0-9] ?([^\W\d_]+)")
_AROUND = ",;:!?\"'()[]\u2013\u2014"


def with_mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> Memory:
    """Return the memory with today's mined tests on the comments that name them, and without earlier ones.

    Args:
        memory: Its guidelines that are a single comment, word for word, are the ones that get tests.
        value_type: The judge's.
        fields: The parts of an item that its instructions name.
    """
    tests = mined(memory, value_type, fields)
    changed = []
    for guideline in memory.guidelines:
        if len(guideline.exposed_to) == 1 and guideline.exposed_to == guideline.supported_by:
            named = tuple(test for test in tests if named_in(test, guideline.text))
            if named != guideline.tests:
                changed.append(replace(guideline, tests=named))
    return memory.with_guidelines(changed) if changed else memory


def mined(memory: Memory, value_type: ValueType, fields: Sequence[str]) -> tuple[CodeTest, ...]:
    """Return the tests that labels bear out, without one that adds no case to those before it.

    Args:
        memory: Whose labelled cases and comments are read.
        value_type: The judge's.
        fields: The parts of an item that its instructions name.
    """
    cases = labelled_cases(memory, value_type)
    rules = _rules(_columns(_candidates(cases, fields), cases), cases)
    limit = _chance_limit(rule.table for rule in rules)
    rules = [rule for rule in rules if rule.table[1] == 0 and chance(rule.table) <= limit]
    covered, chosen = 0, dict[str, CodeTest]()
    for rule in sorted(rules, key=lambda rule: (-rule.table[0], rule.place)):
        if rule.cases & ~covered and rule.test.text not in chosen:
            covered |= rule.cases
            chosen[rule.test.text] = rule.test
    return tuple(chosen.values())


class Rule(NamedTuple):
    """A test in one sense: the cases in which it gives the answer that means its value, and how labels agree."""

    test: CodeTest
    cases: int
    table: tuple[int, int, int, int]
    place: int


def _rules(columns: Mapping[Column, CodeTest], cases: Sequence[LabelledCase]) -> list[Rule]:
    """Return every test in both senses for every label; the sense in which it finds something first."""
    outcomes = {
        value: outcome_of(cases, value) for value in sorted({case.label for case in cases}, key=str)
    }
    rules = list[Rule]()
    for holding in (True, False):
        for column, test in columns.items():
            answers = column if holding else column.turned()
            for value, outcome in outcomes.items():
                meant = replace(test, holds=holding, value=value)
                rules.append(Rule(meant, answers.yes, answers.table(outcome), len(rules)))
    return rules


def _candidates(cases: Sequence[LabelledCase], fields: Sequence[str]) -> list[CodeTest]:
    """Return tests of what comments and items share, the longest literal of content words first."""
    words, forms = set[str](), set[str]()
    for case in cases:
        for annotation in case.feedback:
            comment = literal_form(annotation.rationale or "")
            words.update(_grams(comment.casefold()))
            forms.update(_forms(comment))
    tests = set[CodeTest]()
    for field, case in product(fields, cases):
        if case.reading.value(field) is None:
            continue
        text = case.reading.text(field)
        kinds: tuple[tuple[TestKind, Iterable[str], set[str]], ...] = (
            ("word", _grams(text), words),
            ("number", _NUMBERED.findall(text), words),
            ("shape", _forms(case.reading.text(field, str)), forms),
        )
        for kind, literals, spoken in kinds:
            tests |= {
                CodeTest(kind=kind, field=field, text=literal)
                for literal in spoken.intersection(literals)
            }
    return [test for test in sorted(tests, key=_rank) if checked(test) is None][:CANDIDATES]


def _rank(test: CodeTest) -> tuple[int, int, str]:
    """Return the place of a test among those that say the same: most content first, then the fewest stop words."""
    words = test.text.split()
    content = [word for word in words if word not in STOP_WORDS]
    return -sum(map(len, content)), len(words) - len(content), repr(test)


def _grams(text: str) -> Iterator[str]:
    """Yield runs of one to four words with nothing but spaces between them."""
    for words in map(_TOKEN.findall, _BREAK.split(text)):
        for start, length in product(range(len(words)), range(1, LONGEST + 1)):
            if start + length <= len(words):
                yield " ".join(words[start : start + length])


def _forms(text: str) -> Iterator[str]:
    """Yield the pieces that are no plain words, such as references and initials, as shapes."""
    for piece in text.split():
        stripped = piece.strip(_AROUND)
        form = shape(stripped.removesuffix(".") if stripped.count(".") == 1 else stripped)
        if len(form) > 1 and not re.fullmatch("A?a+", form):
            yield form


def _columns(
    candidates: Iterable[CodeTest], cases: Sequence[LabelledCase]
) -> dict[Column, CodeTest]:
    """Return the first of the tests that say the same of every case, or the contrary."""
    columns = dict[Column, CodeTest]()
    for test in candidates:
        answers = column_of(cases, test)
        if answers.yes and answers.no and answers.turned() not in columns:
            columns.setdefault(answers, test)
    return columns


def _chance_limit(tables: Iterable[tuple[int, int, int, int]]) -> float:
    """Return what a test's chance may be at most: ALPHA shared out over all candidates that could pass at all.

    Bonferroni's correction as Tarone (1990, Biometrics 46:515) counts: a candidate that no labels with these shares
    could have admitted was not tried.
    """
    least = []
    for a, b, c, d in tables:
        most = min(b, c)  # cases that could have another label, so that the test agrees best
        least.append(chance((a + most, b - most, c - most, d + most)))
    least.sort()
    return next(ALPHA / n for n in range(1, len(least) + 2) if bisect_right(least, ALPHA / n) <= n)
