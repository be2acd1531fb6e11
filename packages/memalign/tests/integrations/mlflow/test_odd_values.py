"""A value that JSON or UTF-8 cannot hold costs itself, and neither its trace nor the others."""

from __future__ import annotations

import json
import math
from typing import Any

import mlflow
import pytest
from mlflow.entities import Trace

from memalign import Example
from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import fetched, lesson, taught, tone_judge, traced

HALF = "a half \ud83d"
TRACE_JUDGE = "Was a tool used? {{ trace }}"
FIELDS = "{{ inputs }} {{ outputs }}"


def odd_trace(trace_id: str, old: str, new: Any) -> Trace:
    """A trace with another value in place of `old`, as a tracking server may send it."""
    text = fetched(trace_id)[0].to_json()
    inner = json.dumps(json.dumps(new, ensure_ascii=True))[1:-1]
    assert old in text
    return Trace.from_json(text.replace(json.dumps(json.dumps(old))[1:-1], inner))


ODD: dict[str, Any] = {
    "half an emoji": HALF,
    "half an emoji in JSON inside a text": '{"a": "x\ud83d"}',
    "half an emoji as a key": {HALF: 1},
    "NaN": math.nan,
    "infinity": {"latency": [math.inf, -math.inf]},
    "both": {"score": math.nan, HALF: [HALF]},
}


@pytest.mark.parametrize(
    "instructions", [TRACE_JUDGE, FIELDS, "{{ outputs }}", "{{ inputs }} {{ trace }}"]
)
@pytest.mark.parametrize("odd", ODD)
def test_a_trace_with_an_odd_value_teaches_and_is_judged_beside_others(
    endpoint: Endpoint, odd: str, instructions: str
) -> None:
    taught = lesson(1)
    good = lesson(2)
    judge = tone_judge(instructions=instructions, base_url=endpoint.base_url)
    traces = [odd_trace(taught, "answer 1", ODD[odd]), *fetched(good)]
    aligned = judge.align(traces, MemAlignOptimizer())
    assert sorted(aligned._episodic_trace_ids) == sorted([taught, good])
    assert aligned.align(traces) is aligned
    assert aligned(trace=odd_trace(traced(3), "answer 3", ODD[odd])).error is None
    assert aligned(trace=fetched(good)[0]).metadata["memalign.decided_by"] == "expert"


def test_half_an_emoji_in_what_people_said_is_learned(endpoint: Endpoint) -> None:
    text = fetched(lesson(1))[0].to_json()
    trace = Trace.from_json(text.replace("case 1 is unkind", "case 1 is unkind\\ud83d"))
    aligned = tone_judge().align([trace], MemAlignOptimizer())
    (episode,) = aligned._episodic_memory
    assert episode.rationale == "say: case 1 is unkind\ufffd"
    aligned.register()


@pytest.mark.usefixtures("endpoint")
def test_a_frame_of_traces_with_nan_is_judged() -> None:
    with mlflow.start_span("reply") as span:
        span.set_inputs({"question": "question 1"})
        span.set_outputs({"score": math.nan, "text": "answer 1"})
    frame = mlflow.search_traces()
    core = taught(lesson(2)).memalign_judge
    for instructions in (TRACE_JUDGE, "{{ outputs }}"):
        judge = core.replace(
            instructions=instructions, columns={"id": "trace_id", "outputs": "response"}
        )
        (judgment,) = judge.judge_many(frame)
        assert judgment.error is None
        assert judgment.id == span.trace_id


def test_json_text_in_a_trace_is_the_case_that_a_keyword_or_a_row_names(
    endpoint: Endpoint,
) -> None:
    text = '{"a": 1}'
    trace = odd_trace(lesson(1), "answer 1", text)
    core = tone_judge().align([trace], MemAlignOptimizer()).memalign_judge
    (case,) = core.memory.cases
    for outputs in (text, {"a": 1}):
        content = case.example.content | {"outputs": outputs}
        assert Example(id="x", **content).content_hash == case.example.content_hash
        assert core(**content).decided_by == "expert"
        (judgment,) = core.judge_many([content])
        assert judgment.decided_by == "expert"
