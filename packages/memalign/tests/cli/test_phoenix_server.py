"""A real Phoenix: traces by OTLP, a person's annotations, a judge that learns from them, and its verdicts back.

`phoenix` on the PATH is taken, else one is installed (see `own_environment`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.conftest import Run
from tests.support.own_environment import free_port, listening, program, until

if TYPE_CHECKING:
    import httpx2

PHOENIX = "arize-phoenix==20.26.1"
PROJECT = "shop"
CASES = [
    ("My order is late.", "It is in transit.", "bad", "Correct but cold."),
    ("Thanks!", "Any time, enjoy your day!", "good", "Warm."),
    ("Where is the invoice?", "In your account.", None, None),
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    port, folder = free_port(), tmp_path_factory.mktemp("phoenix")
    settings = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": "0", "PHOENIX_HOST": "127.0.0.1"}
    settings |= {"PHOENIX_WORKING_DIR": str(folder), "PHOENIX_TELEMETRY_ENABLED": "false"}
    with listening([program("phoenix", PHOENIX), "serve"], settings, port, "/healthz", folder) as client:
        yield client


def _logged(client: httpx2.Client) -> list[str]:
    """The ids of the spans of the cases, sent as an exporter sends them."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

    def attributes(**held: str) -> list[KeyValue]:
        return [
            KeyValue(key=name.replace("_", "."), value=AnyValue(string_value=value)) for name, value in held.items()
        ]

    spans = [
        Span(
            trace_id=number.to_bytes(16, "big"),
            span_id=number.to_bytes(8, "big"),
            name="support",
            start_time_unix_nano=time.time_ns(),
            end_time_unix_nano=time.time_ns(),
            attributes=attributes(input_value=question, output_value=reply),
        )
        for number, (question, reply, _, _) in enumerate(CASES, 1)
    ]
    resource = Resource(attributes=attributes(openinference_project_name=PROJECT))
    sent = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=spans)])]
    )
    headers = {"content-type": "application/x-protobuf"}
    client.post("/v1/traces", content=sent.SerializeToString(), headers=headers).raise_for_status()
    until(lambda: _stored(client) == len(CASES))
    return [span.span_id.hex() for span in spans]


def _stored(client: httpx2.Client) -> int:
    answer = client.get(f"/v1/projects/{PROJECT}/spans")
    return len(answer.json()["data"]) if answer.is_success else 0  # there is no project before its first span


def _annotations(client: httpx2.Client, ids: list[str]) -> list[dict[str, Any]]:
    answer = client.get(f"/v1/projects/{PROJECT}/span_annotations", params={"span_ids": ids})
    return list(answer.json()["data"])


def test_a_person_s_annotations_teach_a_judge(
    phoenix: httpx2.Client, memalign: Run, tone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHOENIX_ENDPOINT", str(phoenix.base_url))
    ids = _logged(phoenix)
    said = [
        {
            "span_id": span,
            "name": "tone",
            "annotator_kind": "HUMAN",
            "identifier": "ana@example.org",
            "result": {"label": label, "explanation": words},
        }
        for span, (_, _, label, words) in zip(ids, CASES, strict=True)
        if label is not None
    ]
    program = {"span_id": ids[2], "name": "tone", "annotator_kind": "LLM", "result": {"label": "good", "score": 1}}
    phoenix.post("/v1/span_annotations?sync=true", json={"data": [*said, program]}).raise_for_status()

    labels = ("--value", "good=true", "--value", "bad=false")
    learned = memalign("import-feedback", "phoenix", PROJECT, "--into", tone, *labels, "--json")
    assert learned.code == 0, learned.err
    assert learned.json["version"] == 2
    assert "tone 1" in learned.err, "the program's annotation is counted, and is no feedback"
    ledger = memalign("ledger", tone, "--json").json
    assert {row["key"] for row in ledger["entries"]} == {f"{span}@ana@example.org" for span in ids[:2]}

    taken = memalign("import-feedback", "phoenix", PROJECT, "--examples", "cases.jsonl")
    assert taken.code == 0, taken.err
    assert memalign("judge", tone, "cases.jsonl", "-o", "judged.jsonl").code == 0
    for _ in range(2):
        written = memalign("export-verdicts", "phoenix", tone, "judged.jsonl", PROJECT, "--json")
        assert written.code == 0, written.err
        assert (written.json["version"], written.json["written"]) == (2, 3)
    back = [each for each in _annotations(phoenix, ids) if each["metadata"].get("judge") == tone]
    assert [(each["annotator_kind"], each["name"], each["metadata"]["judge_version"]) for each in back] == [
        ("LLM", "tone", 2)
    ] * 3, "a second export replaces the first"
    assert {each["span_id"]: each["result"]["label"] for each in back} == dict.fromkeys(ids, "true")

    again = memalign("import-feedback", "phoenix", PROJECT, "-o", "feedback.jsonl", *labels, "--json")
    assert again.code == 0, again.err
    assert (again.json["feedback"], again.json["programs"]) == (2, {"tone": 4}), "its own verdicts are no feedback"
