"""Verdicts go back under the judge's name and version, as a program's, and twice is once."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from memalign.errors import InputError
from memalign.integrations.tracing import open_tool
from tests.integrations.tracing import conftest as world
from tests.integrations.tracing.conftest import SECRET, Serve, verdict
from tests.support.tool_server import ToolServer

RUN = "aaaa0000-0000-4000-8000-000000000001"


def test_phoenix_takes_an_annotation_of_an_llm(serve: Serve) -> None:
    server = serve(world.phoenix())
    assert open_tool("phoenix", "shop").write([verdict("b08667f5e3a9cfac")]) == 1
    (data,) = server.of("/v1/span_annotations")[0].body["data"]
    assert (data["name"], data["annotator_kind"], data["identifier"]) == ("tone", "LLM", "memalign/tone/v2")
    assert data["result"] == {"label": "true", "score": 1.0, "explanation": "It greets."}
    assert data["metadata"]["judge_version"] == 2
    assert server.asked[0].headers["authorization"] == f"Bearer {SECRET}"


def score(server: ToolServer, case: str) -> dict[str, Any]:
    """The last score of a case that Langfuse was sent; several are sent at a time."""
    trace, _, observation = case.partition("#")
    sent = [each.body for each in server.of("/api/public/scores")]
    return next(
        body for body in reversed(sent) if (body["traceId"], body.get("observationId", "")) == (trace, observation)
    )


def test_langfuse_takes_a_score_of_one_id(serve: Serve) -> None:
    answers = world.langfuse()
    server = serve(answers)
    given = [verdict("trace#obs"), verdict("trace", value="warm")]
    server.answers["GET /api/public/v3/scores"] = {"data": [], "meta": {"limit": 100}}
    open_tool("langfuse", None).write(given)
    first, second = (score(server, case) for case in ("trace#obs", "trace"))
    assert (first["traceId"], first["observationId"], first["dataType"]) == ("trace", "obs", "BOOLEAN")
    assert (first["value"], second["dataType"], second["value"]) == (1.0, "CATEGORICAL", "warm")
    assert first["metadata"]["judge_version"] == 2
    assert not {"source", "timestamp"} & set(first), "Langfuse then writes API, never ANNOTATION, and now"

    kept = {"id": first["id"], "timestamp": "2026-10-01T00:00:00.000Z"}
    server.answers["GET /api/public/v3/scores"] = {"data": [kept], "meta": {"limit": 100}}
    open_tool("langfuse", None).write(given)
    again, other = (score(server, case) for case in ("trace#obs", "trace"))
    assert again == first | {"timestamp": kept["timestamp"]}, "it replaces a score of the same id and moment"
    assert other == second


def test_langsmith_takes_feedback_of_a_model(serve: Serve) -> None:
    server = serve(world.langsmith())
    for _ in range(2):
        open_tool("langsmith", "shop").write([verdict(RUN, value=4)])
    first, again = [each.body for each in server.of("/api/v1/feedback")]
    assert first == again
    assert str(uuid.UUID(first["id"])) == first["id"]
    assert (first["run_id"], first["key"], first["score"]) == (RUN, "tone", 4.0)
    assert first["feedback_source"]["type"] == "model"
    assert first["feedback_source"]["metadata"]["judge_version"] == 2


def test_langsmith_changes_feedback_that_it_has(serve: Serve) -> None:
    server = serve(world.langsmith() | {"POST /api/v1/feedback": world.fault(409)})
    known = str(uuid.uuid5(uuid.NAMESPACE_URL, f"memalign/tone/v2/{RUN}"))
    server.answers[f"PATCH /api/v1/feedback/{known}"] = {}
    assert open_tool("langsmith", "shop").write([verdict(RUN, value=4)]) == 1
    assert server.asked[-1].body == {"comment": "It greets.", "score": 4.0}


def test_braintrust_takes_a_merged_score(serve: Serve) -> None:
    server = serve(world.braintrust())
    open_tool("braintrust", "shop").write([verdict("row-1"), verdict("row-4", value="warm")])
    first, second = server.asked[-1].body["events"]
    assert (first["_is_merge"], first["scores"]) == (True, {"tone": 1.0})
    assert first["metadata"]["memalign"]["tone"]["judge_version"] == 2
    assert "scores" not in second, "its scores are numbers from 0 to 1"


def test_label_studio_takes_predictions(serve: Serve) -> None:
    server = serve(world.label_studio())
    open_tool("label-studio", "1").write([verdict("1", label="good"), verdict("3", value=False, label="bad")])
    changed, made = server.asked[-2:]
    assert (changed.method, changed.path, made.method) == ("PATCH", "/api/predictions/9/", "POST")
    assert made.body["model_version"] == "memalign/tone/v2"
    assert made.body["result"] == [
        {"from_name": "tone", "to_name": "answer", "type": "choices", "value": {"choices": ["bad"]}}
    ]


def test_label_studio_refuses_labels_that_it_lacks(serve: Serve) -> None:
    serve(world.label_studio())
    with pytest.raises(InputError, match=r"no label 'true', only good, bad: --value good=…"):
        open_tool("label-studio", "1").write([verdict("1")])


def test_label_studio_gets_a_new_token(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABEL_STUDIO_API_KEY", "a.personal.token")
    answers = world.label_studio() | {"POST /api/token/refresh": ({"access": "one"}, {"access": "two"})}
    server = serve(answers)
    server.faults = [None, world.fault(401), None, None]
    from memalign.integrations.tracing import Wanted

    assert len(list(open_tool("label-studio", "1").records(Wanted()))) == 2
    sent = [each.headers.get("authorization") for each in server.of("/api/projects/1/export")]
    assert sent == ["Bearer one", "Bearer two"]


def test_a_collector_takes_events(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=shop%20one")
    server = serve({"POST /v1/logs": {}})
    assert open_tool("otlp", None).write([verdict("0a1b2c3d4e5f60718293a4b5c6d7e8f9")]) == 1
    (asked,) = server.asked
    (record,) = asked.body["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    told: dict[str, Any] = {each["key"]: next(iter(each["value"].values())) for each in record["attributes"]}
    assert (record["eventName"], record["traceId"]) == ("gen_ai.evaluation.result", "0a1b2c3d4e5f60718293a4b5c6d7e8f9")
    assert (told["gen_ai.evaluation.name"], told["gen_ai.evaluation.score.value"]) == ("tone", 1.0)
    assert told["memalign.judge_version"] == "2"
    assert asked.headers["x-team"] == "shop one"
