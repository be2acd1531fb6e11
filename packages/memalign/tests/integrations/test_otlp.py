"""OpenTelemetry's spans out of files: a row a trace, wherever a file of examples is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memalign.content import span_tree
from memalign.errors import InputError, RowError
from memalign.integrations.otlp import holds_spans, trace_rows
from memalign.io.rows import Row
from tests.support.spans import Step, otlp

TRACE = "5b8efff798038103d269b633813fc60c"
STEPS = [
    Step(
        parent=None,
        name="support",
        kind="AGENT",
        inputs="My order is late.",
        outputs={"reply": "It is in transit."},
    ),
    Step(
        parent=0,
        name="look up",
        kind="TOOL",
        start=1,
        inputs={"order": 7},
        outputs="in transit",
    ),
]
MESSAGES = [
    {"role": "system", "parts": [{"type": "text", "content": "Be warm."}]},
    {"role": "user", "parts": [{"type": "text", "content": "My order is late."}]},
]
ANSWER = [
    {
        "role": "assistant",
        "parts": [{"type": "text", "content": "It is in transit."}],
        "finish_reason": "stop",
    }
]


def case(path: Path) -> dict[str, Any]:
    """The fields of the only trace in a file."""
    (row,) = trace_rows(path)
    assert isinstance(row, Row)
    return dict(row.fields)


def written(path: Path, *documents: Any) -> Path:
    path.write_text(
        "".join(f"{json.dumps(document)}\n" for document in documents), "utf-8"
    )
    return path


def genai(trace: str, **attributes: Any) -> dict[str, Any]:
    """A span of the convention for generative AI, as an exporter writes it."""
    texts = {"gen_ai.operation.name": "chat", **attributes}.items()
    values = [
        {"key": name, "value": {"stringValue": json.dumps(value)}}
        for name, value in texts
    ]
    span = {
        "traceId": trace,
        "spanId": "eee19b7ec3c1b174",
        "name": "chat m",
        "attributes": values,
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def test_one_document_is_one_case_though_on_many_lines(tmp_path: Path) -> None:
    whole = otlp(STEPS)
    lines = [{"resourceSpans": [resource]} for resource in whole["resourceSpans"]]
    for path in (
        written(tmp_path / "spans.json", whole),
        written(tmp_path / "spans.jsonl", *lines),
    ):
        fields = case(path)
        expected = (TRACE, "My order is late.", {"reply": "It is in transit."})
        assert (fields["id"], fields["inputs"], fields["outputs"]) == expected
        tree = span_tree(fields["trace"])
        assert tree
        assert [span.name for span in tree.spans] == ["support", "look up"]


def test_messages_of_texts_are_turns(tmp_path: Path) -> None:
    attributes = {"gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": ANSWER}
    fields = case(written(tmp_path / "spans.json", genai(TRACE, **attributes)))
    assert fields["outputs"] == "It is in transit."
    assert fields["inputs"] == [
        {"role": "system", "content": "Be warm."},
        {"role": "user", "content": "My order is late."},
    ]


def test_an_evaluation_is_never_shown(tmp_path: Path) -> None:
    document = otlp(STEPS)
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": [{"key": "score", "value": {"doubleValue": 1.0}}],
    }
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["events"] = [
        event,
        {"name": "retry"},
    ]
    tree = span_tree(case(written(tmp_path / "spans.json", document))["trace"])
    assert tree is not None
    assert [event["name"] for event in tree.spans[0].events] == ["retry"]


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "t-1", "trace": {"resourceSpans": []}}',
        '[{"id": "t", "outputs": "resourceSpans"}]',
    ],
)
def test_what_holds_no_span_is_named(tmp_path: Path, text: str) -> None:
    empty = written(tmp_path / "empty.json", {"resourceSpans": []})
    other = tmp_path / "other.json"
    (error,) = trace_rows(empty)
    assert isinstance(error, RowError)
    assert "no spans" in error.reason
    other.write_text(text, "utf-8")
    assert (holds_spans(empty), holds_spans(other)) == (True, False)
    with pytest.raises(InputError, match="no such file"):
        trace_rows(tmp_path / "missing.json")


EXPORTS: dict[str, list[dict[str, Any]]] = {
    "phoenix": [
        {"name": "agent", "context": {"trace_id": "t", "span_id": "1"}, "span_kind": "CHAIN", "start_time": "2026-03-01T12:00:00+00:00", "end_time": "2026-03-01T12:00:02+00:00", "status_code": "OK", "attributes": {"input.value": "q", "output.value": "a"}},
        {"name": "look up", "context": {"trace_id": "t", "span_id": "2"}, "parent_id": "1", "span_kind": "TOOL", "start_time": "2026-03-01T12:00:01+00:00", "end_time": "2026-03-01T12:00:02+00:00", "status_code": "ERROR", "status_message": "late"},
    ],
    "langfuse": [
        {"id": "1", "traceId": "t", "type": "CHAIN", "name": "agent", "startTime": "2026-03-01 12:00:00+00:00", "endTime": "2026-03-01 12:00:02+00:00", "level": "DEFAULT", "input": "q", "output": "a"},
        {"id": "2", "traceId": "t", "parentObservationId": "1", "type": "TOOL", "name": "look up", "startTime": "2026-03-01 12:00:01+00:00", "endTime": "2026-03-01 12:00:02+00:00", "level": "ERROR", "statusMessage": "late"},
    ],
    "langsmith": [
        {"id": "1", "trace_id": "t", "parent_run_ids": [], "run_type": "chain", "name": "agent", "start_time": "2026-03-01 12:00:00+00:00", "end_time": "2026-03-01 12:00:02+00:00", "status": "success", "inputs": "q", "outputs": "a", "feedback_stats": {"tone": {"avg": 1.0}}},
        {"id": "2", "trace_id": "t", "parent_run_ids": ["1"], "run_type": "tool", "name": "look up", "start_time": "2026-03-01 12:00:01+00:00", "end_time": "2026-03-01 12:00:02+00:00", "status": "error", "error": "late"},
    ],
    "braintrust": [
        {"span_id": "1", "root_span_id": "t", "span_parents": None, "name": "agent", "kind": "chain", "start": 1772366400.0, "end": 1772366402.0, "input": "q", "output": "a", "scores": {"tone": 1}, "metadata": {"comment": "no tone"}},
        {"span_id": "2", "root_span_id": "t", "span_parents": ["1"], "name": "look up", "kind": "tool", "start": 1772366401.0, "end": 1772366402.0, "error": "late"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("tool", EXPORTS)
def test_spans_of_every_tool_are_read_from_such_a_file(
    tmp_path: Path, tool: str
) -> None:
    fields = case(
        written(
            tmp_path / "spans.json",
            {"resourceSpans": [{"scopeSpans": [{"spans": EXPORTS[tool]}]}]},
        )
    )
    assert (fields["id"], fields["inputs"], fields["outputs"]) == ("t", "q", "a")
    tree = span_tree(fields["trace"])
    assert tree is not None
    assert not tree.notes
    assert [
        (s.name, s.kind, s.depth, s.status == "error", s.message, s.seconds)
        for s in tree.spans
    ] == [
        ("agent", "CHAIN", 0, False, "", 2.0),
        ("look up", "TOOL", 1, True, "late", 1.0),
    ]
    assert "tone" not in repr(tree)
