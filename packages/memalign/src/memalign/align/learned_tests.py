"""Tests that a model proposes in its answer: those that may be used, and that the labels bear out.

A test is admitted if its agreement with the labels is too rare by chance, over all tests that were
tried.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
from msgspec.structs import replace

from memalign.judge import Judge, named_parts
from memalign.judge.borne_out import ALPHA, LabelledCase, chance, column_of, outcome_of
from memalign.judge.code_tests import checked
from memalign.memory.guard import JudgedTexts
from memalign.types import CodeTest, FeedbackKey
from memalign.values import Value

__all__ = ["proposed_tests"]

MOST_TESTS = 3
"""The number of tests that a guideline has at most."""


def proposed_tests(
    judge: Judge,
    tests: object,
    keys: Collection[FeedbackKey],
    cases: Sequence[LabelledCase],
    *,
    tried: int,
    judged: JudgedTexts | Collection[tuple[str, str]] = (),
) -> tuple[CodeTest, ...]:
    """Return the tests of a change that may be used and that the labels bear out.

    If the feedback has both of two labels, the sense of a test is not known, and both are tried.

    Args:
        judge: The judge that learns.
        tests: The part of the model's answer with the tests.
        keys: The feedback that the change names.
        cases: The labelled cases that the call saw.
        tried: How many tests the whole answer has (Bonferroni's correction).
        judged: As for `guideline_fault`.
    """
    comments = []
    labels = set()
    for annotation in filter(None, map(judge.memory.annotation, keys)):
        if annotation.rationale:
            comments.append(annotation.rationale)
        if annotation.value is not None:
            labels.add(annotation.value)
    senses = [True, False]
    value = _second_of_two(cases)
    sure = len(labels) == 1
    if sure:
        value = labels.pop()
    if not cases or value is None:
        return ()
    outcome = outcome_of(cases, value)
    admitted = []
    for test in _usable(tests, named_parts(judge.instructions), judged, comments):
        column = column_of(cases, test)
        if sure:
            senses = [test.holds]
        for holding in senses:
            answers = column if holding else column.turned()
            table = answers.table(outcome)
            if chance(table) * tried * len(senses) <= ALPHA:
                admitted.append(replace(test, holds=holding, value=value))
    return tuple(admitted)


def _second_of_two(cases: Sequence[LabelledCase]) -> Value | None:
    """Return one of the labels if there are two; tests for it are tests for the other one."""
    labels = {case.label for case in cases}
    if len(labels) != 2:
        return None
    return max(labels, key=str)


def _usable(
    tests: object,
    fields: Collection[str],
    judged: JudgedTexts | Collection[tuple[str, str]],
    comments: Collection[str],
) -> list[CodeTest]:
    """Return the entries that are tests of these fields; a bad one costs itself."""
    usable = []
    for entry in tests if isinstance(tests, list) else ():
        test = _test(entry)
        if test is None or test.field not in fields:
            continue
        if checked(test, judged, comments) is None:
            usable.append(test)
    return list(dict.fromkeys(usable))[:MOST_TESTS]


def _test(entry: object) -> CodeTest | None:
    """Return the test that an entry is, or None if the entry is malformed."""
    if not isinstance(entry, dict):
        return None
    fields = {}
    for name, part in entry.items():
        if part is not None and name != "value":
            fields[name] = part
    try:
        return msgspec.convert(fields, CodeTest)
    except msgspec.ValidationError:
        return None
