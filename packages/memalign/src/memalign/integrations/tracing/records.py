"""What every tool's traces and annotations are read into, and what verdicts are written back from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from memalign.content import span_tree
from memalign.errors import RowError
from memalign.types import UNKNOWN_SOURCE

__all__ = ["Record", "Said", "Tool", "Verdict", "Wanted", "content_of_spans", "present"]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to read: the cases that somebody annotated, or `every` one; with the `trace` or without it.

    `since` is ISO 8601 or None: of annotations when they were given where the tool can tell, else when traces began.
    """

    every: bool = False
    trace: bool = False
    since: str | None = None


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What one person or program said of a case.

    `name` is what the tool calls the annotation, score or question; "" for words that belong to none, such as a comment.
    `value` is the label, and `score` the number that stands beside it or alone.
    """

    name: str
    person: bool
    source: str = UNKNOWN_SOURCE
    value: Any = None
    score: float | None = None
    words: str | None = None
    created_at: str | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One case of a tool: its id there, its columns (content fields among them), what else is known, what was said."""

    id: str
    columns: Mapping[str, Any]
    meta: Mapping[str, Any] = {}
    said: Sequence[Said] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's verdict on the case `id`, as tools keep one.

    `label` is the value as text; `share` where it lies from 0 to 1, None for choices and texts. `identifier` is the
    same for the same judge and version: a second export replaces the first. `meta` names judge, version and model.
    """

    id: str
    judge: str
    value: bool | int | float | str
    label: str
    share: float | None
    confidence: float | None
    rationale: str | None
    identifier: str
    meta: Mapping[str, Any]


class Tool(Protocol):
    """A tool: cases and what was said of them out of it, verdicts back into it."""

    def records(self, wanted: Wanted) -> Iterable[Record | RowError]:
        """The cases, as they are read; a RowError stands where one cannot be."""
        ...

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Write the verdicts back, and give how many the tool took; doing it twice leaves one of each."""
        ...


def present(**fields: Any) -> dict[str, Any]:
    """The fields that say anything."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def content_of_spans(spans: Sequence[Any], *, trace: bool = False) -> dict[str, Any]:
    """What the run was given and what it returned, and with `trace` its spans.

    That of the uppermost span counts; where it has none, the first span with inputs and the last one with outputs do.
    """
    tree = span_tree(spans)
    if tree is None:
        return {}
    inputs = next((span.inputs for span in tree.spans if span.inputs is not None), None)
    outputs = [span.outputs for span in tree.spans if span.outputs is not None]
    returned = tree.spans[0].outputs if tree.spans[0].outputs is not None else (outputs or [None])[-1]
    return present(inputs=_plain(inputs), outputs=_plain(returned), trace=list(spans) if trace else None)


def _plain(value: Any) -> Any:
    """Messages that are nothing but texts: one is its text, several are turns."""
    turns = [_turn(each) for each in value] if isinstance(value, list) else []
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
