"""What only a tracking server shows: many rows with MLflow's own threads, its gateway, and scheduled scorers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlflow
import pytest
from mlflow.entities import AssessmentSource
from mlflow.genai import scorers
from mlflow.genai.scorers import ScorerSamplingConfig

import memalign as ma
from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.integrations.mlflow.assessments import read_feedback
from tests.support.gateway import gateway_model
from tests.support.mlflow_world import fetched, lesson, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

pytestmark = pytest.mark.slow
ROWS = 100


@pytest.fixture
def on_server(server: str, experiment: str) -> str:
    """The tracking server, with an experiment of its own: the store's ones keep their artifacts in a folder."""
    mlflow.set_tracking_uri(server)
    mlflow.set_experiment(f"served {experiment}")
    return server


def every_row_has_its_verdict(learned: int) -> None:
    """Evaluate rows that repeat the learned cases: each must be judged by the example of its own case, and no other."""
    optimizer = MemAlignOptimizer(retrieval_k=1)
    aligned = tone_judge().align(fetched(*(lesson(n) for n in range(learned))), optimizer)
    case = {each.example.outputs: each.id for each in aligned.memalign_judge.memory.cases}
    rows = [
        {"inputs": {"question": f"question {n % (2 * learned)}"}, "outputs": f"answer {n % (2 * learned)}"}
        for n in range(ROWS)
    ]
    result = mlflow.genai.evaluate(data=rows, scorers=[aligned])
    assert len(result.result_df) == ROWS
    for assessments, outputs in zip(result.result_df["assessments"], result.result_df["response"], strict=True):
        (verdict,) = (each for each in assessments if each["assessment_name"] == "tone")
        number = int(str(outputs).strip('"').rpartition(" ")[2])
        assert verdict["feedback"]["value"] is (number >= learned)
        if number < learned:
            assert shown_to(verdict) == [case[f"answer {number}"]]


def shown_to(verdict: dict[str, Any]) -> list[str]:
    """The cases that were in a verdict's prompt; a tracking server gives lists in metadata as text."""
    shown = verdict["metadata"]["retrieved_example_trace_ids"]
    return (
        list(shown) if isinstance(shown, list) else [each.strip("'\" ") for each in str(shown).strip("[]").split(",")]
    )


@pytest.mark.usefixtures("on_server")
def test_a_hundred_rows_each_see_their_own_examples(endpoint: Endpoint):
    endpoint.latency = 0.05
    every_row_has_its_verdict(learned=10)
    assert endpoint.max_in_flight > 4


# -- scheduled scorers -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_server")
def test_a_gateway_judge_is_scheduled_changed_and_stopped(endpoint: Endpoint):
    aligned = tone_judge(model=gateway_model(endpoint, "house")).align(fetched(lesson(1)), MemAlignOptimizer())
    registered = aligned.register()
    started = registered.start(sampling_config=ScorerSamplingConfig(sample_rate=0.5))
    assert (started.sample_rate, started.status.value) == (0.5, "STARTED")
    assert scorers.get_scorer(name="tone").sample_rate == 0.5
    changed = started.update(sampling_config=ScorerSamplingConfig(sample_rate=0.1, filter_string="status = 'OK'"))
    assert (changed.sample_rate, changed.filter_string) == (0.1, "status = 'OK'")
    (listed,) = scorers.list_scorers()
    assert listed.sample_rate == 0.1
    stopped = listed.stop()
    assert stopped.status.value == "STOPPED"
    assert stopped.model == "gateway:/house"
    assert load("tone")(inputs={"question": "question 1"}, outputs="answer 1").value is False


@pytest.mark.usefixtures("on_server")
def test_feedback_is_the_same_over_http_as_from_the_store(store: str):
    one, two = traced(1), traced(2)
    says(one, False, "cold", by="User")
    says(one, True, "warm", by="User")
    first, source = says(two, False, "late", by="ana"), AssessmentSource(source_type="HUMAN", source_id="ana")
    mlflow.override_feedback(trace_id=two, assessment_id=first, value=True, source=source)
    judge = ma.Judge(name="tone", instructions="{{ inputs }} {{ outputs }}", feedback_value_type=str, model="openai:m")
    served = read_feedback(fetched(one, two), "tone", judge)
    assert sorted(row.source.partition(":")[0] for row in served.rows) == ["ana", "unknown", "unknown"]
    mlflow.set_tracking_uri(store)
    assert read_feedback(fetched(one, two), "tone", judge) == served
