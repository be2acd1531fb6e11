"""Whose label counts: rules decide, and where they do not, nobody's does."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign import Feedback
from memalign.memory import Annotation
from memalign.memory.label_policy import policy_label
from memalign.types import UNKNOWN_SOURCE
from tests.support.scripted import scripted


def said(source: str, value: bool | None, at: str | None = None) -> Annotation:
    return Annotation.of(Feedback(id="t-1", source=source, value=value, rationale="So.", created_at=at))


NOON, ONE = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"


@pytest.mark.parametrize(
    ("annotations", "authority", "label"),
    [
        ([said("ana", True), said("zoe", False)], (), None),
        ([said("ana", True, NOON), said("zoe", False, NOON)], (), None),
        ([said("ana", True, ONE), said("zoe", False, NOON)], (), True),
        ([said("ana", True), said("zoe", False), said("ben", False)], (), False),
        ([said("ana", True), said("zoe", False), said("ben", False)], ("ana",), True),
        ([said("ana", True, NOON), said(UNKNOWN_SOURCE, False, ONE)], (), True),
        ([said("ana", True), said("unknown:a-1", False, ONE)], (), True),
        ([said("ana", True), said(UNKNOWN_SOURCE, False)], (UNKNOWN_SOURCE,), False),
        ([said("ana", True), said("ben", None)], (), True),
        ([], (), None),
    ],
)
def test_authority_then_majority_then_recency_decide(annotations: list[Annotation], authority: Any, label: Any) -> None:
    assert policy_label(annotations, authority) is label


NAMES = st.sampled_from(["ana", "ben", "zoe", "王", "a@b.c"])
ANNOTATIONS = st.lists(
    st.builds(said, NAMES, st.sampled_from([True, False, None]), st.sampled_from([None, NOON, ONE])),
    max_size=5,
    unique_by=lambda each: each.source,
)


@given(annotations=ANNOTATIONS)
def test_neither_order_nor_the_names_of_people_decide(annotations: list[Annotation]) -> None:
    labels = {policy_label(order) for order in permutations(annotations)}
    renamed = [said(f"p{9 - n}", each.value, each.created_at) for n, each in enumerate(annotations)]  # type: ignore[arg-type]
    assert labels == {policy_label(renamed)}


def test_a_tie_teaches_nothing_and_tells_everybody() -> None:
    judge, model = scripted({"changes": []})
    rows = [
        {"id": "t-1", "outputs": "Hm.", "source": source, "value": value, "rationale": "So."}
        for source, value in (("ana", True), ("zoe", False))
    ]
    result = judge.align(rows)
    assert [(row.state, "a tie" in row.reason) for row in result.rows] == [("disputed", True)] * 2
    assert [(each.label, each.reason.split(",")[0]) for each in result.conflicts] == [(None, "a tie")]
    assert not model.requests
    settled = result.judge.align([rows[0] | {"source": "ben"}])
    assert [each.label for each in settled.conflicts] == [True]
