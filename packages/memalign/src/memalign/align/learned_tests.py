"""Tests that a model proposes in its answer: which of them may be used, and which the labels bear out.

A test is admitted if its agreement with the labels is too rare by chance, over all tests that were tried.
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

__all__ = ["proposed_tests"]

MOST_TESTS = 3
"""Of one guideline."""


def proposed_tests(
    judge: Judge,
    tests: object,
    keys: Collection[FeedbackKey],
    cases: Sequence[LabelledCase],
    *,
    tried: int,
    judged: JudgedTexts | Collection[tuple[str, str]] = (),
) -> tuple[CodeTest, ...]:
    """Return those of the `tests` of a change that may be used and that the labels bear out.

    Where feedback has both of two labels, nobody knows in which sense a test is meant, so both are tried.

    Args:
        judge: The judge that learns.
        tests: What the model wrote.
        keys: The feedback that the change names.
        cases: Those that the call saw.
        tried: How many tests the whole answer has (Bonferroni's correction).
        judged: As for `guideline_fault`.
    """
    annotations = [annotation for key in keys if (annotation := judge.memory.annotation(key))]
    comments = [annotation.rationale for annotation in annotations if annotation.rationale]
    labels = {annotation.value for annotation in annotations if annotation.value is not None}
    both = sorted({case.label for case in cases}, key=str)
    sure = len(labels) == 1
    value = next(iter(labels)) if sure else both[-1] if len(both) == 2 else None
    if not cases or value is None:
        return ()
    parts, outcome, admitted = named_parts(judge.instructions), outcome_of(cases, value), []
    for test in _usable(tests, parts, judged, comments):
        column = column_of(cases, test)
        for answer in (test.holds,) if sure else (True, False):
            table = (column if answer else column.turned()).table(outcome)
            if chance(table) <= ALPHA / tried / (1 if sure else 2):
                admitted.append(replace(test, holds=answer, value=value))
    return tuple(admitted)


def _usable(
    tests: object,
    parts: Collection[str],
    judged: JudgedTexts | Collection[tuple[str, str]],
    comments: Collection[str],
) -> list[CodeTest]:
    usable = dict[CodeTest, None]()
    for entry in tests if isinstance(tests, list) else ():
        named = entry if isinstance(entry, dict) else {}
        plain = {name: part for name, part in named.items() if part is not None and name != "value"}
        try:
            test = msgspec.convert(plain, CodeTest)
        except msgspec.ValidationError:
            continue
        if test.field in parts and checked(test, judged, comments) is None:
            usable[test] = None
    return list(usable)[:MOST_TESTS]
