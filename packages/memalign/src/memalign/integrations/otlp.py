"""Files of spans as rows, one for each trace, that every command reads that takes examples.

A file is OTLP/JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding), one document or one a line, as
the collector's file exporter writes it. Its spans may have the fields of any tracer that `memalign.content` reads.
There is no feedback in such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memalign.content import exported_spans, shown_spans, span_tree, trace_of
from memalign.errors import RowError
from memalign.io.files import path_of
from memalign.io.rows import Row, file_lines, json_rows

__all__ = ["holds_spans", "trace_rows"]

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
"""What Langfuse writes of a span and changes afterwards, so that the same run would be another case."""
_BEGINNING = re.compile(rb'\s*\[?\s*\{\s*"resource_?[sS]pans"\s*:')


def holds_spans(path: str | Path) -> bool:
    """Say whether a file begins as OTLP/JSON does, and not with rows of examples.

    Args:
        path: Only its beginning is read.

    Returns:
        False also for a file that cannot be read: reading it as rows says why.
    """
    place = path_of(path)
    try:
        if (
            place.suffix.lower() not in (".json", ".jsonl", ".ndjson")
            or not place.is_file()
        ):
            return False
        with place.open("rb") as file:
            return (
                _BEGINNING.match(file.read(4_096).removeprefix(b"\xef\xbb\xbf"))
                is not None
            )
    except OSError:
        return False


def trace_rows(path: str | Path) -> list[Row | RowError]:
    """Read a file of spans as one row for each trace, in the order in which the traces begin in the file.

    Args:
        path: The file, which is held in memory.

    Returns:
        First a RowError for every line that cannot be read; then rows with `id` (the trace's), `inputs` and `outputs`
        (those of the uppermost span that has them), and `trace` (the spans, without those of
        evaluators and annotations).

    Raises:
        InputError: When the file as a whole cannot be read.
    """
    traces: dict[str, list[dict[str, Any]]] = {}
    errors: list[RowError] = []
    for number, document in _documents(path_of(path)):
        if isinstance(document, RowError):
            errors.append(document)
            continue
        spans = [
            span
            for span in exported_spans(document)
            if isinstance(span, dict) and "name" in span
        ]
        for span in spans:
            kept = {
                name: value for name, value in span.items() if name not in _HOUSEKEEPING
            }
            traces.setdefault(trace_of(span), []).append(kept)
        if nameless := [span["name"] for span in traces.pop("", [])]:
            errors.append(
                RowError(line=number, reason=f"the span {nameless[0]!r} names no trace")
            )
        elif not spans:
            errors.append(
                RowError(
                    line=number, reason="no spans: nothing in resourceSpans has a name"
                )
            )
    return [
        *errors,
        *(
            Row(line=n, fields=_fields(trace, traces[trace]))
            for n, trace in enumerate(traces, 1)
        ),
    ]


def _documents(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield the documents of a file, each with its line or place, or a RowError for a broken one."""
    for row in json_rows(file_lines(path)):
        yield row.line, row if isinstance(row, RowError) else row.fields


def _fields(trace: str, spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The row of a trace: where its uppermost span has none, its first inputs and its last outputs count."""
    tree = span_tree(spans)
    steps = tree.spans if tree is not None else ()
    inputs = [step.inputs for step in steps if step.inputs is not None] or [None]
    outputs = [step.outputs for step in steps if step.outputs is not None] or [None]
    answer = outputs[0] if steps and steps[0].outputs is not None else outputs[-1]
    fields = {
        "id": trace,
        "inputs": _as_turns(inputs[0]),
        "outputs": _as_turns(answer),
        "trace": shown_spans(spans),
    }
    return {
        name: value for name, value in fields.items() if value not in (None, "", [], {})
    }


def _as_turns(value: Any) -> Any:
    """Messages that are nothing but texts: one is its text, several are turns."""
    turns = [_turn(message) for message in value] if isinstance(value, list) else []
    if not turns or not all(turns):
        return value
    return turns[0]["content"] if len(turns) == 1 else turns


def _turn(message: Any) -> dict[str, str]:
    """A message as a turn, empty for one with more to it; OpenTelemetry's convention writes its text as `parts`."""
    if not isinstance(message, Mapping):
        return {}
    content, parts = message.get("content"), message.get("parts")
    if isinstance(parts, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" for part in parts
    ):
        content = "\n".join(str(part.get("content", "")) for part in parts)
    elif message.keys() != {"role", "content"}:
        return {}
    return (
        {"role": str(message.get("role")), "content": content}
        if isinstance(content, str)
        else {}
    )
