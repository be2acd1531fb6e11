"""Files of spans as rows, one for each trace, that every command reads that takes examples.

A file is OTLP/JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), as the
collector's file exporter writes it: one document, or one in each line. Its spans may have the
fields of any tracer that `memalign.content` reads. There is no feedback in such a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memalign.content import exported_spans, shown_spans, span_tree, trace_of
from memalign.errors import RowError
from memalign.io.files import path_of
from memalign.io.rows import Row, file_lines, json_rows

__all__ = ["holds_spans", "trace_rows"]

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_BEGINNING = re.compile(rb'\s*\[?\s*\{\s*"resource_?[sS]pans"\s*:')
_HOUSEKEEPING = frozenset(
    (
        "bookmarked",
        "public",
        "environment",
        "createdAt",
        "updatedAt",
        "isRootObservation",
    )
)
"""What Langfuse writes of a span and changes afterwards: the same run would be another case."""


def holds_spans(path: str | Path) -> bool:
    """Say whether a file begins as OTLP/JSON does, and not with rows of examples.

    Args:
        path: Only its beginning is read.

    Returns:
        False also for a file that cannot be read: reading it as rows says why.
    """
    place = path_of(path)
    if place.suffix.lower() not in _SUFFIXES:
        return False
    try:
        if not place.is_file():
            return False
        with place.open("rb") as file:
            beginning = file.read(4_096).removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return False
    return _BEGINNING.match(beginning) is not None


def trace_rows(path: str | Path) -> list[Row | RowError]:
    """Read a file of spans as one row for each trace, in the order in which the traces begin.

    Args:
        path: The file, which is held in memory.

    Returns:
        First a RowError for every line that cannot be read; then rows with `id` (the trace's),
        `inputs` and `outputs` (those of the uppermost span that has them), and `trace` (the spans,
        without those of evaluators and annotations).

    Raises:
        InputError: When the file as a whole cannot be read.
    """
    traces: dict[str, list[dict[str, Any]]] = {}
    rows: list[Row | RowError] = []
    for document in json_rows(file_lines(path_of(path))):
        if isinstance(document, RowError):
            rows.append(document)
            continue
        reason = _add_spans(document.fields, traces)
        if reason:
            rows.append(RowError(line=document.line, reason=reason))
    for number, (trace, spans) in enumerate(traces.items(), start=1):
        rows.append(Row(line=number, fields=_fields(trace, spans)))
    return rows


def _add_spans(document: Any, traces: dict[str, list[dict[str, Any]]]) -> str:
    """Add a document's spans to those of their traces; return what is wrong with it, or ""."""
    reason = "no spans: nothing in resourceSpans has a name"
    nameless = ""
    for span in exported_spans(document):
        if not isinstance(span, dict) or "name" not in span:
            continue
        reason = ""
        trace = trace_of(span)
        if not trace:
            nameless = nameless or f"the span {span['name']!r} names no trace"
            continue
        kept = {name: span[name] for name in span if name not in _HOUSEKEEPING}
        traces.setdefault(trace, []).append(kept)
    return nameless or reason


def _fields(trace: str, spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of a trace.

    If its uppermost span has none, the first inputs and the last outputs of the others count.
    """
    tree = span_tree(spans)
    steps = () if tree is None else tree.spans
    inputs = [step.inputs for step in steps if step.inputs is not None]
    outputs = [step.outputs for step in steps if step.outputs is not None]
    fields: dict[str, Any] = {"id": trace, "trace": shown_spans(spans)}
    if inputs:
        fields["inputs"] = _as_turns(inputs[0])
    if outputs:
        uppermost = steps[0].outputs is not None
        fields["outputs"] = _as_turns(outputs[0] if uppermost else outputs[-1])
    return {name: fields[name] for name in fields if fields[name] not in ("", [], {})}


def _as_turns(value: Any) -> Any:
    """Return messages that are nothing but texts as turns, and a single one as its text."""
    if not isinstance(value, list):
        return value
    turns = []
    for message in value:
        turn = _turn(message)
        if turn is None:
            return value
        turns.append(turn)
    return turns[0]["content"] if len(turns) == 1 else turns


def _turn(message: Any) -> dict[str, str] | None:
    """Return a message as a turn, or None if there is more to it than a role and a text.

    OpenTelemetry's convention writes a text as `parts`.
    """
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    parts = message.get("parts")
    if isinstance(parts, list):
        texts = []
        for part in parts:
            if not isinstance(part, dict) or part.get("type") != "text":
                return None
            texts.append(str(part.get("content", "")))
        content = "\n".join(texts)
    elif message.keys() != {"role", "content"}:
        return None
    if not isinstance(content, str):
        return None
    return {"role": str(message.get("role")), "content": content}
