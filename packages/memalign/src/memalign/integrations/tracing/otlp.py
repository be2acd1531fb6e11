"""OpenTelemetry's spans out of files, and verdicts as its events `gen_ai.evaluation.result` into a collector.

Files are OTLP/JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), one document or one a line as the
collector's file exporter writes it, or Parquet with a row a span: OTLP's names, Phoenix's frames of spans, or the columns of
the collector's ClickHouse exporter. A case is a trace. OpenTelemetry has no annotations by people, so there is no feedback.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from memalign.content.span_forms import exported_spans
from memalign.content.span_names import IDS, STARTS, TRACES
from memalign.errors import InputError, RowError
from memalign.integrations.tracing.json_api import JsonApi, address
from memalign.integrations.tracing.records import Record, Verdict, Wanted, content_of_spans, present
from memalign.io.parquet import parquet_rows
from memalign.io.rows import file_lines, json_rows

__all__ = ["Otlp"]

_CLICKHOUSE = {
    "TraceId": "trace_id",
    "SpanId": "span_id",
    "ParentSpanId": "parent_id",
    "SpanName": "name",
    "Timestamp": "start_time",
    "SpanAttributes": "attributes",
    "StatusCode": "status_code",
    "StatusMessage": "status_message",
    "SpanKind": "kind",
}
_EVENT = "gen_ai.evaluation.result"


class Otlp:
    """A file of spans; no file where verdicts are written."""

    def __init__(self, place: str | None) -> None:
        """Keep the file's path."""
        self._place = place

    def records(self, wanted: Wanted) -> Iterator[Record | RowError]:
        """The traces, in the order in which they begin in the file."""
        if self._place is None:
            raise InputError("which file? OTLP/JSON, one document or one a line, or Parquet with a row a span")
        if not wanted.every:
            raise InputError("OpenTelemetry has no annotations by people: --examples takes its traces")
        if wanted.since is not None:
            raise InputError("a file is read whole: leave --since out")
        traces: dict[str, list[dict[str, Any]]] = {}
        for span in _spans(Path(self._place)):
            if isinstance(span, RowError):
                yield span
                continue
            context = span.get("context")
            held = {**context, **span} if isinstance(context, Mapping) else span
            trace = next((str(held[name]) for name in TRACES if held.get(name)), None)
            if trace is None:
                yield RowError(
                    line=0, reason="a span names no trace", id=str(next(map(held.get, IDS), None) or "") or None
                )
            else:
                traces.setdefault(trace, []).append(span)
        for trace, spans in traces.items():
            began = next((span[name] for span in spans for name in STARTS if span.get(name)), None)
            content = content_of_spans(spans, trace=wanted.trace)
            yield Record(id=trace, columns=content, meta=present(tool="otlp", began=began, spans=len(spans)))

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Log records to the collector; a collector keeps what it is sent, so a second export adds to the first."""
        given = (
            pair.partition("=") for pair in os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", "").split(",") if "=" in pair
        )
        headers = {name.strip(): unquote(value.strip()) for name, _, value in given}
        names = "OTEL_EXPORTER_OTLP_ENDPOINT"
        api = JsonApi("the collector", address((names,), None), keys="OTEL_EXPORTER_OTLP_HEADERS", headers=headers)
        logs = [_log(each) for each in verdicts]
        for first in range(0, len(logs), 500):
            scope = {"scope": {"name": "memalign"}, "logRecords": logs[first : first + 500]}
            api.send("/v1/logs", {"resourceLogs": [{"scopeLogs": [scope]}]})
        return len(logs)


def _spans(path: Path) -> Iterator[dict[str, Any] | RowError]:
    if path.suffix.lower() in (".parquet", ".pq"):
        for row in parquet_rows(path, None):
            yield row if isinstance(row, RowError) else _of_columns(row[1])
        return
    raw = b"".join(line for _, line in file_lines(path))
    if not raw.strip():
        raise InputError(f"{path} is empty: it has no span")
    try:
        whole = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        for line in json_rows(file_lines(path)):
            yield from [line] if isinstance(line, RowError) else _held(line.fields, line.line)
        return
    for number, each in enumerate(whole if isinstance(whole, list) else [whole], 1):
        yield from _held(each, number)


def _held(value: Any, number: int) -> Iterator[dict[str, Any] | RowError]:
    """The spans of one document, or the one that it is."""
    found = value if not isinstance(value, Mapping) else exported_spans(value) or value.get("spans") or [value]
    spans = [span for span in found if isinstance(span, dict) and "name" in span] if isinstance(found, list) else []
    if not spans:
        yield RowError(line=number, reason="no spans: neither resourceSpans nor a span with a name")
    yield from spans


def _of_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """A span out of columns: `context.span_id` and `attributes.input.value` lie inside, a map is a list of pairs."""
    span: dict[str, Any] = {}
    for name, value in row.items():
        if value is None:
            continue
        outer, dot, inner = _CLICKHOUSE.get(name, name).partition(".")
        if isinstance(value, list) and value and all(isinstance(each, list) and len(each) == 2 for each in value):
            value = {str(each[0]): each[1] for each in value}  # noqa: PLW2901
        if dot and isinstance(span.setdefault(outer, {}), dict):
            span[outer][inner] = value
        else:
            span[outer] = value
    return span


def _log(verdict: Verdict) -> dict[str, Any]:
    told: dict[str, Any] = {
        "gen_ai.evaluation.name": verdict.judge,
        "gen_ai.evaluation.score.label": verdict.label,
        "gen_ai.evaluation.score.value": None if isinstance(verdict.value, str) else float(verdict.value),
        "gen_ai.evaluation.explanation": verdict.rationale,
        **{f"memalign.{name}": str(value) for name, value in verdict.meta.items()},
    }
    attributes = [
        {"key": name, "value": {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}}
        for name, value in told.items()
        if value is not None
    ]
    now = str(time.time_ns())
    moments = {"timeUnixNano": now, "observedTimeUnixNano": now}
    return {**moments, "eventName": _EVENT, "traceId": verdict.id, "attributes": attributes}
