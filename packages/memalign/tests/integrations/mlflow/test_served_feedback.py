"""People's feedback comes from a tracking server over HTTP as it comes from its store."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import mlflow
import pytest

import memalign as ma
from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from memalign.integrations.mlflow.assessments import read_feedback
from tests.support.mlflow_world import fetched, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

pytestmark = pytest.mark.slow
JUDGE = ma.Judge(name="tone", instructions="{{ inputs }} {{ outputs }}", feedback_value_type=str, model="openai:m")


@pytest.fixture(autouse=True)
def on_server(server: str, experiment: str) -> str:
    mlflow.set_tracking_uri(server)
    mlflow.set_experiment(f"served {experiment}")
    return server


def crashed() -> str:
    with contextlib.suppress(RuntimeError), mlflow.start_span("reply") as span:
        span.set_inputs({"question": "question 5"})
        raise RuntimeError("no stock")
    return str(span.trace_id)


def test_rows_and_content_are_the_same_both_ways(store: str):
    one, two = traced(1), crashed()
    says(one, False, "cold", by="User")
    says(one, True, "warm", by="User")
    says(one, True, by="default")
    first = says(two, False, "It crashed.", by="User")
    mlflow.override_feedback(
        trace_id=two,
        assessment_id=first,
        value=True,
        source=mlflow.entities.AssessmentSource(source_type="HUMAN", source_id="User"),
    )
    served = read_feedback(fetched(one, two), "tone", JUDGE)
    assert sorted(row.source.partition(":")[0] for row in served.rows) == ["unknown"] * 4
    assert len({row.key for row in served.rows}) == 4
    assert "no stock" in served.content[two]["outputs"]
    mlflow.set_tracking_uri(store)
    assert read_feedback(fetched(one, two), "tone", JUDGE) == served


def test_a_turn_stands_for_its_session(endpoint: Endpoint):
    turns = [traced(number, session="s-1") for number in (1, 2)]
    says(turns[1], False, "say: case 2 is unkind", by="User")
    judge = tone_judge(instructions="Was the customer treated kindly? {{ conversation }}")
    aligned = MemAlignOptimizer().align(judge, fetched(*turns))
    aligned.register()
    loaded: MemAlignJudge = load("tone")
    assert loaded.align(fetched(turns[1])) is loaded
    assert loaded.unalign(fetched(turns[1]))._semantic_memory == []
