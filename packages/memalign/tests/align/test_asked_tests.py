"""A distillation asks for tests only where its labels could bear one out; no prompt pays for what cannot be admitted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Feedback
from memalign.align.learned_tests import decidable, labelled_cases, proposed_tests
from memalign.memory import Annotation, Case, Memory
from tests.support.scripted import scripted

HOLDS = {"kind": "word", "field": "outputs", "text": "yes", "then": "", "low": None, "high": None, "holds": True}


def rows(*labels: Any) -> list[Feedback]:
    return [
        Feedback(id=f"t-{n}", outputs=f"case {n}: {'yes' if label in (True, 5) else 'no'}", value=label, rationale="so")
        for n, label in enumerate(labels)
    ]


@pytest.mark.parametrize(
    ("value_type", "labels", "are_asked_for"),
    [
        (bool, [True, True, False, False, False], False),  # ten ways to deal them: one in ten is no evidence
        (bool, [True, True, True, False, False, False], True),
        (bool, [True] * 12, False),
        ("int:1..5", [1, 1, 1, 5, 5, 5], True),
        ("str", ["short", "long", "short", "long", "short", "long"], False),
    ],
)
def test_tests_are_asked_for_where_labels_can_bear_one_out(value_type: Any, labels: Any, are_asked_for: bool) -> None:
    judge, model = scripted({"changes": [], "conflicts": []}, feedback_value_type=value_type)
    judge.align(rows(*labels))
    asked = model.requests[0]
    change = asked.schema["properties"]["changes"]["items"]["properties"]
    assert ("tests" in change, "# Tests" in asked.system) == (are_asked_for, are_asked_for)


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_where_none_are_asked_for_none_would_be_admitted(labels: list[bool]) -> None:
    feedback = rows(*labels)
    learned = Memory(
        cases=tuple(Case(example=row.example, annotations=(Annotation.of(row),)) for row in feedback if row.example)
    )
    judge, _ = scripted(memory=learned)
    cases = labelled_cases(learned, judge.value_type)
    keys = [row.key for row in feedback if row.value is True]
    admitted = proposed_tests(judge, [HOLDS], keys, cases, tried=1)
    assert bool(admitted) == (bool(keys) and decidable(cases, judge.value_type))
