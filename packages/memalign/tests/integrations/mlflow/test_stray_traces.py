"""What we ask models leaves no trace in the user's experiment, whatever is logged by itself; the user's own traces stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlflow
import pytest

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.mlflow_world import fetched, labelled, lesson, tone_judge, traced

if TYPE_CHECKING:
    from collections.abc import Iterator

CASE: dict[str, Any] = {"inputs": {"question": "question 1, as of today"}, "outputs": "answer 1"}


@pytest.fixture(autouse=True)
def logged() -> Iterator[None]:
    mlflow.openai.autolog()
    yield
    mlflow.openai.autolog(disable=True)


def there(experiment: str) -> int:
    return len(mlflow.search_traces(locations=[experiment], return_type="list"))


def test_learning_judging_and_forgetting_leave_no_trace(endpoint, experiment):
    *traces, new = fetched(lesson(1), lesson(2), labelled(3), traced(4))
    before = there(experiment)
    optimizer = MemAlignOptimizer(embedding_model="openai:/embed")
    aligned = tone_judge().align(traces, optimizer)
    assert aligned(trace=traces[0], inputs=CASE["inputs"]).value is False
    aligned.unalign(traces[:1])(**CASE)
    of_traces = tone_judge(instructions="Was a tool used? {{ trace }}", base_url=endpoint.base_url)
    of_traces.align(traces, optimizer)(trace=new)
    assert len(endpoint.requests) >= 6
    assert there(experiment) == before
    rows = [{"inputs": {"question": f"question {n}"}, "outputs": f"answer {n}"} for n in range(4)]
    mlflow.genai.evaluate(data=rows, scorers=[aligned])
    assert there(experiment) == before + len(rows), "those of the evaluation's rows alone"
