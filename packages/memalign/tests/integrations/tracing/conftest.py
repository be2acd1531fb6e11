"""Tools on loopback, with the answers in `recorded/`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from memalign.client import exchange
from memalign.integrations.tracing import Verdict
from memalign.values import Value
from tests.support.tool_server import Asked, Fault, ToolServer

RECORDED = Path(__file__).parent / "recorded"
SECRET = "sk-do-not-print-me"
KEYS = {
    "PHOENIX_API_KEY": SECRET,
    "LANGFUSE_PUBLIC_KEY": "pk-lf-1",
    "LANGFUSE_SECRET_KEY": SECRET,
    "LANGSMITH_API_KEY": SECRET,
    "BRAINTRUST_API_KEY": SECRET,
    "LABEL_STUDIO_API_KEY": SECRET,
}
ADDRESSES = (
    *("PHOENIX_ENDPOINT", "LANGFUSE_BASE_URL", "LANGSMITH_ENDPOINT", "BRAINTRUST_API_URL", "LABEL_STUDIO_URL"),
    "OTEL_EXPORTER_OTLP_ENDPOINT",
)

Serve = Callable[..., ToolServer]


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text("utf-8"))


def phoenix() -> dict[str, Any]:
    told = recorded("phoenix.json")
    project = "GET /v1/projects/shop"
    return {
        f"{project}/spans": told["spans"],
        f"{project}/span_annotations": told["span_annotations"],
        f"{project}/trace_annotations": told["trace_annotations"],
        "GET /v1/users": told["users"],
        "POST /v1/span_annotations": {"data": []},
    }


def langfuse() -> dict[str, Any]:
    told = recorded("langfuse.json")

    def observations(asked: Asked) -> Any:
        traces = told["observations"]
        if (trace := asked.query.get("traceId")) is not None:
            return traces.get(trace, {"data": [], "meta": {"limit": 500}})
        data = [each for page in traces.values() for each in page["data"] if each["isRootObservation"]]
        return {"data": data, "meta": {"limit": 500}}

    return {
        "GET /api/public/v3/scores": tuple(told["scores"]),
        "GET /api/public/v2/observations": observations,
        "POST /api/public/scores": {"id": "s"},
    }


def langsmith() -> dict[str, Any]:
    told = recorded("langsmith.json")

    def runs(asked: Asked) -> Any:
        found = [run for run in told["runs"] if run["id"] in asked.body.get("id", [run["id"]])]
        first, last = (found[:1], found[1:]) if len(found) > 1 else (found, [])
        if asked.body.get("cursor"):
            return {"runs": last, "cursors": {"next": None}}
        return {"runs": first, "cursors": {"next": "more" if last else None}}

    return {
        "GET /api/v1/sessions": lambda asked: told["sessions"] if asked.query["name"] == "shop" else [],
        "GET /api/v1/feedback": told["feedback"],
        "POST /api/v1/runs/query": runs,
        "POST /api/v1/feedback": {"id": "f"},
    }


def braintrust() -> dict[str, Any]:
    told = recorded("braintrust.json")
    logs = f"/v1/project_logs/{told['project']['objects'][0]['id']}"
    return {
        "GET /v1/project": lambda asked: told["project"] if asked.query["project_name"] == "shop" else {"objects": []},
        "GET /v1/project_score": told["project_score"],
        f"POST {logs}/fetch": lambda asked: told["fetch"][1 if asked.body.get("cursor") else 0],
        f"POST {logs}/insert": {"row_ids": []},
    }


def label_studio() -> dict[str, Any]:
    config = {
        "tone": {"type": "Choices", "to_name": ["answer"], "labels": ["good", "bad"]},
        "why": {"type": "TextArea", "to_name": ["answer"], "labels": []},
    }
    return {
        "GET /api/projects/1/export": recorded("label_studio_export.json"),
        "GET /api/users/": [{"id": 1, "email": "ana@example.org"}],
        "GET /api/projects/1": {"parsed_label_config": config},
        "GET /api/predictions/": [{"id": 9, "task": 1, "model_version": "memalign/tone/v2"}],
        "POST /api/predictions/": {"id": 10},
        "PATCH /api/predictions/9/": {"id": 9},
    }


def verdict(case: str, *, value: Value = True, label: str | None = None) -> Verdict:
    """A verdict of the judge `tone` in version 2."""
    return Verdict(
        id=case,
        judge="tone",
        value=value,
        label=label or str(value).lower(),
        share=None if isinstance(value, str) else float(value),
        confidence=0.9,
        rationale="It greets.",
        identifier="memalign/tone/v2",
        meta={"judge": "tone", "judge_version": 2, "model": "openai:m"},
    )


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(exchange, "_PAUSE", 0.0)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """A server with these answers, at the address of every tool."""
    with ExitStack() as stack:

        def start(answers: dict[str, Any]) -> ToolServer:
            server = stack.enter_context(ToolServer(answers))
            for name in ADDRESSES:
                monkeypatch.setenv(name, server.url)
            return server

        yield start


def fault(status: int, **headers: str) -> Fault:
    """An answer of that status."""
    return Fault(status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})
