"""What only a tracking server shows: its gateway, scheduled scorers, and what it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlflow
import pytest
from mlflow.entities import AssessmentSource
from mlflow.genai import scorers
from mlflow.genai.scorers import ScorerSamplingConfig

import memalign as ma
from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.integrations.mlflow.assessments import read_feedback
from tests.support.mlflow_server import gateway_model
from tests.support.mlflow_world import fetched, lesson, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

pytestmark = pytest.mark.slow


@pytest.fixture
def on_server(server: str, experiment: str) -> str:
    """The tracking server, with an experiment of its own: the store's ones keep their artifacts in a folder."""
    mlflow.set_tracking_uri(server)
    mlflow.set_experiment(f"served {experiment}")
    return server


@pytest.mark.usefixtures("on_server")
def test_a_gateway_judge_is_scheduled_and_stopped(endpoint: Endpoint):
    aligned = tone_judge(model=gateway_model(endpoint, "house")).align(fetched(lesson(1)), MemAlignOptimizer())
    registered = aligned.register()
    started = registered.start(sampling_config=ScorerSamplingConfig(sample_rate=0.5))
    assert (started.sample_rate, started.status.value) == (0.5, "STARTED")
    assert scorers.get_scorer(name="tone").sample_rate == 0.5
    stopped = scorers.list_scorers()[0].stop()
    assert (stopped.status.value, stopped.model) == ("STOPPED", "gateway:/house")
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
