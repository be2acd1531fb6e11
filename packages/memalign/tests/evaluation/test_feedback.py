"""What is seen of feedback before a judge learns from it."""

from __future__ import annotations

from typing import Any

import pytest

from memalign.evaluation import review_feedback
from memalign.values import ValueType

BOOL = ValueType.of("bool")


def row(
    n: int, value: object, source: str | None = "ana", *, outputs: object = "answer", **more: Any
) -> dict[str, Any]:
    given = {"id": f"t-{n}", "inputs": f"question {n}", "outputs": outputs, "value": value, "source": source, **more}
    return {name: each for name, each in given.items() if each is not None}


@pytest.mark.parametrize(
    ("kind", "labels", "remarks"),
    [
        ("good|bad|ugly", ["bad", *["good"] * 19], ("nobody gave ugly", "bad is rare: 1 of 20 (5%)")),
        ("bool", [True] * 12, ("nobody gave false",)),
        ("bool", [True, False], ()),
        ("int:1..5", [1 + n % 5 for n in range(20)], ()),
        ("str", [f"free text {n}" for n in range(12)], ()),
        (None, [True] * 20, ("all 20 labels are true",)),
    ],
)
def test_a_missing_or_rare_label_is_named(kind: str | None, labels: list[Any], remarks: tuple[str, ...]) -> None:
    rows = [row(n, label) for n, label in enumerate(labels)]
    review = review_feedback(rows, None if kind is None else ValueType.of(kind))
    assert tuple(remark.partition(";")[0] for remark in review.remarks) == remarks


def test_large_numbers_stay_distinct_labels() -> None:
    large = review_feedback([row(n, 1_000_000.0 + n, "ana") for n in range(9)], ValueType.of("float:0..2000000"))
    assert len(large.labels) == 9


def test_numbers_within_the_tolerance_of_the_scale_are_no_conflict() -> None:
    scale = ValueType.of("float:0..1")
    near = review_feedback([row(1, 0.70), row(1, 0.71, "ben")], scale)
    far = review_feedback([row(1, 0.70), row(1, 0.95, "ben")], scale)
    assert (len(near.conflicts), len(far.conflicts)) == (0, 1)


def test_an_id_whose_content_comes_twice_is_one_case() -> None:
    """Ana and Ben labelled one case, under two ids, and Eva the second of them in other words of the same id."""
    rows = [row(1, True), {**row(2, True, "ben"), "inputs": "question 1"}, row(3, False), row(3, True, "ben")]
    review = review_feedback(rows, BOOL)
    assert (review.cases, review.compared, review.duplicates) == (2, 2, (("t-1", "t-2"),))
