"""What is seen of feedback before a judge learns from it; the command: tests/cli/test_check.py."""

from __future__ import annotations

from typing import Any

from memalign.evaluation import review_feedback
from memalign.values import ValueType


def row(n: int, value: object, source: str = "ana", **more: Any) -> dict[str, Any]:
    return {"id": f"t-{n}", "inputs": f"question {n}", "outputs": "answer", "value": value, "source": source, **more}


def test_labels_that_nobody_gave_and_large_numbers_are_counted() -> None:
    assert review_feedback([row(n, True) for n in range(3)], ValueType.of("bool")).labels == {"true": 3, "false": 0}
    large = review_feedback([row(n, 1_000_000.0 + n) for n in range(9)], ValueType.of("float:0..2000000"))
    assert len(large.labels) == 9


def test_numbers_within_the_tolerance_of_the_scale_are_no_conflict() -> None:
    scale = ValueType.of("float:0..1")
    near = review_feedback([row(1, 0.70), row(1, 0.71, "ben")], scale)
    far = review_feedback([row(1, 0.70), row(1, 0.95, "ben")], scale)
    assert (len(near.conflicts), len(far.conflicts)) == (0, 1)


def test_one_content_under_two_ids_is_one_case() -> None:
    rows = [row(1, True), row(2, True, "ben", inputs="question 1"), row(3, False), row(3, True, "ben")]
    review = review_feedback(rows, ValueType.of("bool"))
    assert (review.cases, review.compared, review.duplicates) == (2, 2, (("t-1", "t-2"),))
