"""Exports by the lines of the page and the classes of each tool's own client.

Each trace is one example. A tool that is not installed is left out. Its server is one on
loopback, whose answers its own classes write where it has some.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from memalign.content import span_tree
from memalign.integrations.otlp import trace_rows
from memalign.io.rows import Row

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "trace-tools.md"
BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENDED = BEGAN + timedelta(seconds=2)
LATER = BEGAN + timedelta(seconds=1)
TRACE = "5b8efff798038103d269b633813fc60c"


@contextmanager
def served(answer: Callable[[str], Any]) -> Iterator[str]:
    """A server that answers each path with JSON; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = answer(self.path)
            text = body if isinstance(body, str) else json.dumps(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def page_lines(tool: str) -> dict[str, Any]:
    """Run the lines of the page that write the file, and those that export from a tool."""
    page = PAGE.read_text("utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"(?ms)^```python\n(.*?)^```$", page):
        if "def save" in block or f"from {tool}" in block:
            exec(block, names)
    return names


def check(path: Path) -> None:
    """Check the only trace of a file, which every tool logged alike."""
    (row,) = trace_rows(path)
    assert isinstance(row, Row)
    assert row.fields["inputs"] in ("My order is late.", {"text": "My order is late."})
    assert row.fields["outputs"] in ("It is in transit.", {"text": "It is in transit."})
    tree = span_tree(row.fields["trace"])
    assert tree is not None
    assert not tree.notes
    agent, look_up = tree.spans
    assert (agent.name, agent.kind.upper(), agent.depth) == ("agent", "CHAIN", 0)
    assert (look_up.name, look_up.kind.upper(), look_up.depth) == ("look up", "TOOL", 1)
    assert (agent.seconds, look_up.seconds) == (2.0, 1.0)
    assert agent.status != look_up.status == "error"
    assert "bookmarked" not in repr(tree)
    assert "reviewed" not in repr(tree)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_langfuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("langfuse.api")
    common = {
        "trace_id": TRACE,
        "project_id": "shop",
        "bookmarked": True,
        "public": False,
    }
    agent = api.ObservationV2(
        id="1",
        type="CHAIN",
        name="agent",
        start_time=BEGAN,
        end_time=ENDED,
        level="DEFAULT",
        input="My order is late.",
        output="It is in transit.",
        metadata={"note": "reviewed"},
        **common,
    )
    look_up = api.ObservationV2(
        id="2",
        parent_observation_id="1",
        type="TOOL",
        name="look up",
        start_time=LATER,
        end_time=ENDED,
        level="ERROR",
        status_message="late",
        **common,
    )
    meta = api.ObservationsV2Meta(cursor=None)
    answer = api.ObservationsV2Response(data=[agent, look_up], meta=meta)
    with served(lambda path: answer.json() if "observations" in path else {}) as url:
        monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", "pk")
        monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk")
        monkeypatch.setenv("LANGFUSE_BASE_URL", url)
        monkeypatch.setenv("LANGFUSE_HOST", url)
        page_lines("langfuse")
    check(tmp_path / "spans.json")


def test_phoenix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("phoenix.client")
    conventions = pytest.importorskip("openinference.semconv.trace")
    names = conventions.SpanAttributes
    agent = {
        "id": "a",
        "name": "agent",
        "context": {"trace_id": TRACE, "span_id": "1"},
        "span_kind": conventions.OpenInferenceSpanKindValues.CHAIN.value,
        "parent_id": None,
        "start_time": BEGAN.isoformat(),
        "end_time": ENDED.isoformat(),
        "status_code": "OK",
        "status_message": "",
        "attributes": {
            names.INPUT_VALUE: "My order is late.",
            names.OUTPUT_VALUE: "It is in transit.",
            names.METADATA: '{"note": "reviewed"}',
        },
        "events": [],
    }
    look_up = agent | {
        "id": "b",
        "name": "look up",
        "context": {"trace_id": TRACE, "span_id": "2"},
        "span_kind": conventions.OpenInferenceSpanKindValues.TOOL.value,
        "parent_id": "1",
        "start_time": LATER.isoformat(),
        "status_code": "ERROR",
        "attributes": {},
    }
    page = {"data": [agent, look_up], "next_cursor": None}
    with served(lambda path: page if "/spans" in path else {}) as url:
        monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", url)
        monkeypatch.setenv("PHOENIX_BASE_URL", url)
        page_lines("phoenix")
    check(tmp_path / "spans.json")


def test_langsmith(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = pytest.importorskip("langsmith.types.run")
    agent = runs.Run(
        id="1",
        trace_id=TRACE,
        parent_run_ids=[],
        run_type="CHAIN",
        name="agent",
        start_time=BEGAN,
        end_time=ENDED,
        status="SUCCESS",
        inputs={"text": "My order is late."},
        outputs={"text": "It is in transit."},
        tags=["reviewed"],
    )
    look_up = runs.Run(
        id="2",
        trace_id=TRACE,
        parent_run_ids=["1"],
        run_type="TOOL",
        name="look up",
        start_time=LATER,
        end_time=ENDED,
        status="ERROR",
        error="late",
    )
    items = [run.model_dump(mode="json", exclude_none=True) for run in (agent, look_up)]
    number = "6a3d7bd3-8d43-4a7c-9d1c-0b7f8e6f1a11"
    project = {
        "id": number,
        "tenant_id": number,
        "name": "shop",
        "start_time": BEGAN.isoformat(),
        "reference_dataset_id": None,
    }

    def answer(path: str) -> Any:
        if "query" in path:
            return {"items": items, "next_cursor": None}
        return [project] if "sessions" in path else {}

    with served(answer) as url:
        monkeypatch.setenv("LANGSMITH_ENDPOINT", url)
        monkeypatch.setenv("LANGSMITH_API_KEY", "key")
        asyncio.run(page_lines("langsmith")["export"]())
    check(tmp_path / "spans.json")


def test_opentelemetry(tmp_path: Path) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    api = pytest.importorskip("opentelemetry.trace")
    began = round(BEGAN.timestamp() * 1e9)
    second = 1_000_000_000
    tracer = sdk.TracerProvider().get_tracer("shop")
    agent = tracer.start_span("agent", start_time=began)
    agent.set_attribute("openinference.span.kind", "CHAIN")
    agent.set_attribute("input.value", "My order is late.")
    agent.set_attribute("output.value", "It is in transit.")
    below = api.set_span_in_context(agent)
    look_up = tracer.start_span("look up", context=below, start_time=began + second)
    look_up.set_attribute("openinference.span.kind", "TOOL")
    look_up.set_status(api.Status(api.StatusCode.ERROR, "late"))
    look_up.end(began + 2 * second)
    agent.end(began + 2 * second)
    spans = [json.loads(span.to_json()) for span in (look_up, agent)]
    page_lines("nothing")["save"](spans)
    check(tmp_path / "spans.json")
