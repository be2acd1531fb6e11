"""Traces out of OpenTelemetry's files, as rows that every place reads that takes examples.

A file is OTLP/JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), one document or one a line, as
the collector's file exporter writes it. A case is a trace, which may lie on many lines. OpenTelemetry has no
annotations by people, so there is no feedback in such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from memalign.content import exported_spans, span_tree
from memalign.content.trace_names import STARTS, TRACES
from memalign.errors import RowError
from memalign.io.locations import Location, location_of, store_errors
from memalign.io.rows import Row, file_lines, json_rows

__all__ = ["holds_spans", "trace_rows"]

_DOCUMENT = re.compile(rb'\s*\[?\s*\{\s*"resource_?[sS]pans"\s*:')
"""How every file of OTLP/JSON begins: one object, or an array of them, whose first key this is."""
_BEGINNING = 4_096  # bytes: enough for white space before the key


def holds_spans(path: str | Path) -> bool:
    """Say whether a file holds OpenTelemetry's spans rather than rows of examples.

    Args:
        path: A path or the URL of an object store; only the beginning is read.

    Returns:
        False also for a file that cannot be read: reading it as rows says why.
    """
    if not str(path).lower().endswith((".json", ".jsonl", ".ndjson")):
        return False
    place = location_of(path)
    if isinstance(place, Path) and not place.is_file():
        return False
    with store_errors(place), place.open("rb") as file:
        return _DOCUMENT.match(file.read(_BEGINNING).removeprefix(b"\xef\xbb\xbf")) is not None


def trace_rows(path: str | Path) -> list[Row | RowError]:
    """Read a file of spans as one row a trace, in the order in which the traces begin in the file.

    Args:
        path: A path or the URL of an object store. The file is held in memory.

    Returns:
        Rows with `id` (the trace's), `inputs` and `outputs` (those of the uppermost span that has them), `trace` (the
        spans) and `meta`. A RowError stands first for every line that cannot be read.

    Raises:
        InputError: When the file as a whole cannot be read.
    """
    traces: dict[str, list[dict[str, Any]]] = {}
    errors: list[Row | RowError] = []
    for span in _spans(location_of(path)):
        trace = (
            None if isinstance(span, RowError) else next((str(span[name]) for name in TRACES if span.get(name)), None)
        )
        if isinstance(span, RowError):
            errors.append(span)
        elif trace is None:
            errors.append(RowError(line=0, reason=f"the span {span.get('name')!r} names no trace"))
        else:
            traces.setdefault(trace, []).append(span)
    return [*errors, *(Row(line=n, fields=_fields(trace, traces[trace])) for n, trace in enumerate(traces, 1))]


def _spans(place: Location) -> Iterator[dict[str, Any] | RowError]:
    with store_errors(place):
        lines = list(file_lines(place))
    try:
        document = msgspec.json.decode(b"".join(line for _, line in lines))
    except (msgspec.DecodeError, RecursionError):
        for row in json_rows(lines):
            yield from [row] if isinstance(row, RowError) else _of_document(row.fields, row.line)
        return
    for number, part in enumerate(document if isinstance(document, list) else [document], 1):
        yield from _of_document(part, number)


def _of_document(document: Any, number: int) -> Iterator[dict[str, Any] | RowError]:
    exported = exported_spans(document) if isinstance(document, Mapping) else []
    spans = [span for span in exported if isinstance(span, dict) and "name" in span]
    if not spans:
        yield RowError(line=number, reason="no spans: there is no resourceSpans with a span that has a name")
    yield from spans


def _fields(trace: str, spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of a trace: where its uppermost span has none, its first inputs and its last outputs count."""
    tree = span_tree(spans)
    steps = tree.spans if tree is not None else ()
    inputs = next((step.inputs for step in steps if step.inputs is not None), None)
    outputs = [step.outputs for step in steps if step.outputs is not None]
    answer = steps[0].outputs if steps and steps[0].outputs is not None else (outputs or [None])[-1]
    start = next((span[name] for span in spans for name in STARTS if span.get(name)), None)
    meta = {"began": start, "spans": len(spans)}
    fields = {"id": trace, "inputs": _plain(inputs), "outputs": _plain(answer), "trace": list(spans), "meta": meta}
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _plain(value: Any) -> Any:
    """Messages that are nothing but texts: one is its text, several are turns."""
    turns = [_turn(message) for message in value] if isinstance(value, list) else []
    if not turns or not all(turns):
        return value
    return turns[0]["content"] if len(turns) == 1 else turns


def _turn(message: Any) -> dict[str, str]:
    """A message as a turn, empty for one with more to it; OpenTelemetry's convention writes its text as `parts`."""
    if not isinstance(message, Mapping):
        return {}
    if message.keys() == {"role", "content"} and isinstance(message["content"], str):
        return dict(message)
    parts = message.get("parts")
    if not isinstance(parts, list) or not all(
        isinstance(part, Mapping) and part.get("type") == "text" for part in parts
    ):
        return {}
    return {"role": str(message.get("role")), "content": "\n".join(str(part.get("content", "")) for part in parts)}
