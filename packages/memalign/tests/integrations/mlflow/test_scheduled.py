"""Aligned judges as scheduled scorers: a server with jobs judges new traces by their guidelines."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow
import pytest
from mlflow.genai.scorers import ScorerSamplingConfig, ToolCallEfficiency

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.gateway import gateway_model
from tests.support.mlflow_server import tracking_server
from tests.support.mlflow_world import Mind, fetched, following, lesson, says, tone_judge, traced

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.endpoint import Endpoint

pytestmark = pytest.mark.slow
PATIENCE = 400
"""Seconds: the server looks for new traces once a minute, and each job is a process that imports MLflow."""


@pytest.fixture
def working_server(store: str, experiment: str, tmp_path: Path) -> Iterator[str]:
    """A tracking server with jobs over the store; an experiment of its own is set."""
    with tracking_server(tmp_path, store, jobs=True) as address:
        mlflow.set_tracking_uri(address)
        mlflow.set_experiment(f"scheduled {experiment}")
        yield address


def verdict(trace_id: str, name: str) -> Any:
    """What a scheduled scorer said of a trace; waits for it."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        for each in mlflow.get_trace(trace_id).info.assessments:
            if each.name == name and each.source.source_type != "HUMAN":
                return each
        time.sleep(5)
    raise AssertionError(f"{name} said nothing of {trace_id}")


def by_guidelines(body: dict[str, Any]) -> dict[str, Any]:
    """MLflow's own judge: by the guidelines in its prompt, and by no for judges of yes and no."""
    text = str(body["messages"])
    unkind = any(f"case {n} is unkind" in text and f"answer {n}" in text for n in (1, 3))
    return {"result": not unkind if "boolean" in str(body.get("response_format")) else "no", "rationale": "so"}


@pytest.mark.usefixtures("working_server")
def test_scheduled_judges_judge_new_traces_with_their_guidelines(endpoint: Endpoint):
    house = gateway_model(endpoint, "house")
    case, turn = lesson(1), traced(3, session="s-1")
    says(turn, False, "say: case 3 is unkind", name="service")
    optimizer = MemAlignOptimizer()
    tone = optimizer.align(tone_judge(model=house), fetched(case))
    service = tone_judge(name="service", model=house, instructions="Kind service? {{ conversation }}")
    sessions = optimizer.align(service, fetched(turn))
    calls = ToolCallEfficiency(model=house)
    says(case, "no", "say: case 1 is unkind", name=calls.name)
    endpoint.answer = Mind(following, other=by_guidelines).answer
    tools = optimizer.align(calls, fetched(case))
    new, later = traced(1), traced(3, session="s-2")
    for judge in (tone, sessions, tools):
        judge.register().start(sampling_config=ScorerSamplingConfig(sample_rate=1.0))
    said = verdict(new, "tone")
    assert said.error is None
    assert said.feedback.value is False
    assert "retrieved_example_trace_ids" not in said.metadata  # the guidelines alone: workers ask MLflow's own judge
    assert verdict(later, "service").feedback.value is False
    assert verdict(new, calls.name).feedback.value == "no"
