"""A trace of an application that crashed, or gave nothing: people's words on it teach, and it is judged."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any

import mlflow

from memalign.integrations.mlflow import MemAlignOptimizer
from memalign.integrations.mlflow.traces import content_of
from tests.support.endpoint import system_of
from tests.support.mlflow_world import fetched, lesson, says, tone_judge

if TYPE_CHECKING:
    import pytest

    from tests.support.endpoint import Endpoint
    from tests.support.mlflow_world import Mind

FIELDS = ("inputs", "outputs")


def crashed(number: int, error: str = "no stock") -> str:
    """A new trace whose application raised; its id."""
    with contextlib.suppress(RuntimeError), mlflow.start_span("reply") as span:
        span.set_inputs({"question": f"question {number}"})
        raise RuntimeError(error)
    return str(span.trace_id)


def silent(number: int) -> str:
    """A new trace whose application gave nothing; its id."""
    with mlflow.start_span("reply") as span:
        span.set_inputs({"question": f"question {number}"})
    return str(span.trace_id)


def test_what_is_missing_is_said_in_its_place():
    one, two = fetched(crashed(1), silent(2))
    assert content_of([one], FIELDS)["outputs"] == (
        "(the application gave no outputs: it failed with RuntimeError: no stock)"
    )
    assert content_of([two], FIELDS) == {
        "inputs": {"question": "question 2"},
        "outputs": "(the application gave no outputs)",
    }


def test_feedback_on_a_crashed_trace_is_learned(endpoint: Endpoint, caplog: pytest.LogCaptureFixture):
    trace_id = crashed(1)
    says(trace_id, False, "say: A crash is never kind.")
    with caplog.at_level(logging.WARNING):
        aligned = tone_judge().align(fetched(trace_id, lesson(2)), MemAlignOptimizer())
    assert "skipped" not in caplog.text
    assert {each.guideline_text for each in aligned._semantic_memory} == {"A crash is never kind.", "case 2 is unkind"}
    assert aligned.align(fetched(trace_id)) is aligned
    assert aligned.unalign([trace_id])._episodic_trace_ids != aligned._episodic_trace_ids


def test_a_crashed_trace_is_judged_with_memory(endpoint: Endpoint, mind: Mind):
    asked: list[dict[str, Any]] = []

    def other(body: dict[str, Any]) -> str:
        asked.append(body)
        return '{"result": false, "rationale": "it crashed"}'

    endpoint.answer = lambda body: other(body) if body.get("tools") else mind.answer(body)
    trace_id = crashed(1)
    says(trace_id, False, "say: A crash is never kind.")
    judge = tone_judge(base_url=f"{endpoint.base_url}/chat/completions")
    aligned = judge.align(fetched(trace_id), MemAlignOptimizer())
    feedback = aligned(trace=fetched(crashed(3))[0])
    assert feedback.value is False
    assert asked[-1]["tools"], "MLflow's own judge looks into the trace"
    assert "A crash is never kind." in system_of(asked[-1])
    assert feedback.metadata["retrieved_example_trace_ids"] == [trace_id]
