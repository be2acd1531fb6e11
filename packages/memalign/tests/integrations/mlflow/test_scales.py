"""Numbers: MLflow's have no bounds, so they are taken from the author's words, or nobody is told any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mlflow.exceptions import MlflowException

from memalign.integrations.mlflow import MemAlignOptimizer
from memalign.integrations.mlflow.label_types import scale_of
from tests.support.endpoint import system_of
from tests.support.mlflow_world import fetched, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint


@pytest.mark.parametrize(
    ("kind", "words", "spec"),
    [
        (int, "Rate 1-5 how kind {{ outputs }} is.", "int:1..5"),
        (int, "Give a score from 0 to 10.", "int:0..10"),
        (int, "Rate it on a scale of 1 to 5. A score of 1 means rude; remember, 1-5.", "int:1..5"),
        (float, "Give a number between 0.0 and 1.0", "float:0..1"),
        (float, "Score: -1..1", "float:-1..1"),
        (int, "How many of the rules does {{ outputs }} break?", None),
        (int, "Rate 1-5 the tone. Rate 1-10 the facts.", None),  # two scales are none
        (int, "Rate answers of between 2 and 3 sentences.", None),
        (int, "Rate it between 0.5 and 2.5.", None),
        (int, "On 2025-11-23 we changed the rules.", None),
    ],
)
def test_bounds_come_from_the_authors_words(kind: type, words: str, spec: str | None):
    found = scale_of(kind, instructions=words).value_type
    assert (found.spec if found.bounded else None) == spec


@pytest.mark.parametrize(("words", "shown"), [("Rate 1-5.", "from 1 to 5"), ("Count the mistakes.", "a whole number")])
def test_a_prompt_names_only_bounds_somebody_meant(endpoint: Endpoint, words: str, shown: str):
    endpoint.answer = lambda body: (
        {"rationale": "so", "value": 4} if "judgment" in str(body["response_format"]) else {"changes": []}
    )
    trace_id = traced(1)
    says(trace_id, 2, "two points")
    judge = tone_judge(feedback_value_type=int, instructions=words + " {{ inputs }} {{ outputs }}")
    aligned = judge.align(fetched(trace_id), MemAlignOptimizer())
    assert aligned(trace=fetched(traced(2))[0]).value == 4
    asked = endpoint.requests[-1]
    assert shown in system_of(asked)
    assert "1000000000" not in str(asked)


@pytest.mark.usefixtures("endpoint")
def test_a_label_outside_the_authors_scale_is_refused():
    trace_id = traced(1)
    says(trace_id, 7)
    judge = tone_judge(feedback_value_type=int, instructions="Rate 1-5. {{ outputs }}")
    with pytest.raises(MlflowException, match="a whole number from 1 to 5"):
        judge.align(fetched(trace_id), MemAlignOptimizer())


def test_unbounded_floats_agree_only_where_equal():
    scale = scale_of(float).value_type
    assert scale.agree(3.0, 3.0)
    assert not scale.agree(3.0, 30.0)
    assert scale.json_schema() == {"type": "number"}
