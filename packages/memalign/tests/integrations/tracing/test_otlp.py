"""OpenTelemetry's spans out of files of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memalign.content import span_tree
from memalign.errors import InputError, RowError
from memalign.integrations.tracing import Record, Wanted, open_tool
from tests.support.spans import Step, otlp

TRACE = "5b8efff798038103d269b633813fc60c"
STEPS = [
    Step(parent=None, name="support", kind="AGENT", inputs="My order is late.", outputs={"reply": "It is in transit."}),
    Step(parent=0, name="look up", kind="TOOL", start=1, inputs={"order": 7}, outputs="in transit"),
]
MESSAGES = [
    {"role": "system", "parts": [{"type": "text", "content": "Be warm."}]},
    {"role": "user", "parts": [{"type": "text", "content": "My order is late."}]},
]
ANSWER = [{"role": "assistant", "parts": [{"type": "text", "content": "It is in transit."}], "finish_reason": "stop"}]


def read(path: Path, *, trace: bool = False) -> list[Record | RowError]:
    return list(open_tool("otlp", str(path)).records(Wanted(every=True, trace=trace)))


def written(path: Path, *documents: Any) -> Path:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in documents), "utf-8")
    return path


def genai(trace: str, **attributes: Any) -> dict[str, Any]:
    """A span of the convention for generative AI, as an exporter writes it."""
    held = {"gen_ai.operation.name": "chat", **attributes}
    span = {
        "traceId": trace,
        "spanId": "eee19b7ec3c1b174",
        "name": "chat m",
        "attributes": [{"key": name, "value": {"stringValue": json.dumps(value)}} for name, value in held.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def test_one_document_is_one_case(tmp_path: Path) -> None:
    (case,) = read(written(tmp_path / "spans.json", otlp(STEPS)))
    assert isinstance(case, Record)
    assert (case.id, dict(case.columns)) == (
        TRACE,
        {"inputs": "My order is late.", "outputs": {"reply": "It is in transit."}},
    )


def test_a_trace_may_lie_on_many_lines(tmp_path: Path) -> None:
    whole = otlp(STEPS)
    lines = [{"resourceSpans": [each]} for each in whole["resourceSpans"]]
    (case,) = read(written(tmp_path / "spans.jsonl", *lines), trace=True)
    assert isinstance(case, Record)
    tree = span_tree(case.columns["trace"])
    assert tree is not None
    assert [span.name for span in tree.spans] == ["support", "look up"]


def test_messages_of_texts_are_turns(tmp_path: Path) -> None:
    told = {"gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": ANSWER}
    (case,) = read(written(tmp_path / "spans.json", genai(TRACE, **told)))
    assert isinstance(case, Record)
    assert case.columns["outputs"] == "It is in transit."
    assert case.columns["inputs"] == [
        {"role": "system", "content": "Be warm."},
        {"role": "user", "content": "My order is late."},
    ]


@pytest.mark.parametrize(
    "names",
    [
        ("gen_ai.prompt.{}.{}", "gen_ai.completion.{}.{}"),
        ("llm.input_messages.{}.message.{}", "llm.output_messages.{}.message.{}"),
    ],
    ids=["openllmetry", "openinference"],
)
def test_messages_under_numbered_names_are_turns(tmp_path: Path, names: tuple[str, str]) -> None:
    given, returned = names
    said = {given.format(0, "role"): "system", given.format(0, "content"): "Be warm."}
    said |= {given.format(10, "role"): "user", given.format(10, "content"): "Late again."}
    said |= {returned.format(0, "role"): "assistant", returned.format(0, "content"): "Sorry to hear it."}
    document = genai(TRACE)
    held = [{"key": name, "value": {"stringValue": value}} for name, value in said.items()]
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"] = held
    (case,) = read(written(tmp_path / "spans.json", document))
    assert isinstance(case, Record)
    assert case.columns["outputs"] == "Sorry to hear it."
    assert case.columns["inputs"] == [
        {"role": "system", "content": "Be warm."},
        {"role": "user", "content": "Late again."},
    ]


def test_an_evaluation_is_never_shown(tmp_path: Path) -> None:
    document = otlp(STEPS)
    event = {"name": "gen_ai.evaluation.result", "attributes": [{"key": "score", "value": {"doubleValue": 1.0}}]}
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["events"] = [event, {"name": "retry"}]
    (case,) = read(written(tmp_path / "spans.json", document), trace=True)
    assert isinstance(case, Record)
    tree = span_tree(case.columns["trace"])
    assert tree is not None
    assert [each["name"] for each in tree.spans[0].events] == ["retry"]


@pytest.mark.parametrize(
    "columns",
    [
        {"trace_id": TRACE, "span_id": "a1", "name": "chat", "attributes": {"input.value": "Hi", "output.value": "Ho"}},
        {
            "context.trace_id": TRACE,
            "context.span_id": "a1",
            "name": "chat",
            "parent_id": None,
            "attributes.input.value": "Hi",
            "attributes.output.value": "Ho",
        },
        {
            "TraceId": TRACE,
            "SpanId": "a1",
            "ParentSpanId": "",
            "SpanName": "chat",
            "SpanAttributes": [("input.value", "Hi"), ("output.value", "Ho")],
        },
    ],
    ids=["otlp", "phoenix", "clickhouse"],
)
def test_parquet_has_a_row_a_span(tmp_path: Path, columns: dict[str, Any]) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    kinds = {"SpanAttributes": pa.map_(pa.string(), pa.string())}
    table = pa.table({name: pa.array([value], kinds.get(name)) for name, value in columns.items()})
    pq.write_table(table, tmp_path / "spans.parquet")
    (case,) = read(tmp_path / "spans.parquet")
    assert isinstance(case, Record)
    assert (case.id, dict(case.columns)) == (TRACE, {"inputs": "Hi", "outputs": "Ho"})


def test_a_cut_line_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "spans.jsonl", otlp(STEPS), otlp(STEPS))
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    bad, case = read(path)
    assert isinstance(bad, RowError)
    assert bad.line == 2
    assert "broken JSON" in bad.reason
    assert isinstance(case, Record)


def test_what_holds_no_span_is_named(tmp_path: Path) -> None:
    (bad,) = read(written(tmp_path / "logs.json", {"resourceLogs": []}))
    assert isinstance(bad, RowError)
    assert "no spans" in bad.reason
    with pytest.raises(InputError, match="is empty"):
        read(written(tmp_path / "empty.json"))
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "missing.json")


def test_a_file_of_spans_has_no_feedback(tmp_path: Path) -> None:
    path = written(tmp_path / "spans.json", otlp(STEPS))
    with pytest.raises(InputError, match="no annotations by people: --examples"):
        list(open_tool("otlp", str(path)).records(Wanted()))
