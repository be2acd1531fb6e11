"""Numbers: MLflow's have no bounds, so the optimizer takes them, and without any nobody is told any."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mlflow.exceptions import MlflowException

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.endpoint import system_of
from tests.support.mlflow_world import fetched, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint


@pytest.mark.parametrize(("spec", "shown"), [("int:1..5", "from 1 to 5"), (None, "a whole number")])
def test_a_prompt_names_only_bounds_somebody_gave(endpoint: Endpoint, spec: str | None, shown: str):
    endpoint.answer = lambda body: (
        {"rationale": "so", "value": 4} if "judgment" in str(body["response_format"]) else {"changes": []}
    )
    trace_id = traced(1)
    says(trace_id, 2, "two points")
    judge = tone_judge(feedback_value_type=int, instructions="Rate the tone. {{ inputs }} {{ outputs }}")
    aligned = judge.align(fetched(trace_id), MemAlignOptimizer(value_type=spec))
    assert aligned(trace=fetched(traced(2))[0]).value == 4
    asked = endpoint.requests[-1]
    assert shown in system_of(asked)
    assert "1000000000" not in str(asked)


@pytest.mark.usefixtures("endpoint")
def test_a_label_outside_the_scale_is_refused():
    trace_id = traced(1)
    says(trace_id, 7)
    judge = tone_judge(feedback_value_type=int, instructions="Rate 1-5. {{ outputs }}")
    with pytest.raises(MlflowException, match="a whole number from 1 to 5"):
        judge.align(fetched(trace_id), MemAlignOptimizer(value_type="int:1..5"))
