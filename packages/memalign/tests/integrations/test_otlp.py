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
    with path.open("w", encoding="utf-8") as file:
        for document in documents:
            file.write(f"{json.dumps(document)}\n")
    return path


def exported(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}


def genai(**attributes: Any) -> dict[str, Any]:
    """A span of the convention for generative AI, as an exporter writes it."""
    values = []
    for name, value in attributes.items():
        values.append({"key": name, "value": {"stringValue": json.dumps(value)}})
    return {
        "traceId": TRACE,
        "spanId": "eee19b7ec3c1b174",
        "name": "chat m",
        "attributes": values,
    }


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
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": MESSAGES,
        "gen_ai.output.messages": ANSWER,
    }
    document = exported(genai(**attributes))
    fields = case(written(tmp_path / "spans.json", document))
    assert fields["outputs"] == "It is in transit."
    assert fields["inputs"] == [
        {"role": "system", "content": "Be warm."},
        {"role": "user", "content": "My order is late."},
    ]


def test_an_evaluation_is_never_shown(tmp_path: Path) -> None:
    document = otlp(STEPS)
    score = {"key": "score", "value": {"doubleValue": 1.0}}
    event = {"name": "gen_ai.evaluation.result", "attributes": [score]}
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    span["events"] = [event, {"name": "retry"}]
    tree = span_tree(case(written(tmp_path / "spans.json", document))["trace"])
    assert tree is not None
    (shown,) = tree.spans[0].events
    assert shown["name"] == "retry"


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


EXPORTS = Path(__file__).parent / "exports.json"
"""By the name of a tool: a run of two spans, as it exports them."""


@pytest.mark.parametrize("tool", ["phoenix", "langfuse", "langsmith", "braintrust"])
def test_spans_of_every_tool_are_read_from_such_a_file(
    tmp_path: Path, tool: str
) -> None:
    spans = json.loads(EXPORTS.read_text("utf-8"))[tool]
    fields = case(written(tmp_path / "spans.json", exported(*spans)))
    assert (fields["id"], fields["inputs"], fields["outputs"]) == ("t", "q", "a")
    tree = span_tree(fields["trace"])
    assert tree is not None
    assert not tree.notes
    agent, look_up = tree.spans
    assert (agent.name, agent.kind, agent.depth) == ("agent", "CHAIN", 0)
    assert (agent.message, agent.seconds) == ("", 2.0)
    assert (look_up.name, look_up.kind, look_up.depth) == ("look up", "TOOL", 1)
    assert (look_up.message, look_up.seconds) == ("late", 1.0)
    assert agent.status != look_up.status == "error"
    assert "tone" not in repr(tree)
