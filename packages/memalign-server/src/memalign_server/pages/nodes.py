"""JSON and traces as folded parts, as many as a page has room for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from markupsafe import Markup, escape

from memalign.content import Span
from memalign_server.pages.texts import prose, visible

__all__ = ["Node", "json_inside", "json_text", "nodes_of_json", "nodes_of_spans"]

_Below = Mapping[str | None, list[Span]]
"""Spans by the id of the span that they are parts of."""

_MOST_NODES: Final = 2_000
_DEEPEST: Final = 40
"""Parts within parts: a page nests no deeper."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A part of JSON or of a trace.

    Attributes:
        name: The key, the place in a list, or the span's name.
        text: The value, safe; None where it has parts.
        parts: The parts below it.
        note: How many parts there are, or what else is known of a span.
        failed: Whether the span failed.
    """

    name: str
    text: Markup | None = None
    parts: tuple[Node, ...] = ()
    note: str = ""
    failed: bool = False


_MORE: Final = Node(name="…", text=Markup("…"))
"""In the place of everything for which there is no room."""


def json_inside(text: str) -> dict[str, Any] | list[Any] | None:
    """Return the object or the list that a text is, or None for any other text."""
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def json_text(value: object) -> str:
    """Return a value as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def nodes_of_json(value: object) -> tuple[Node, ...]:
    """Return the parts of a JSON value; a plain value is one part without a name."""
    return tuple(_Builder().parts(value))


def nodes_of_spans(spans: Sequence[Span]) -> tuple[Node, ...]:
    """Return a trace's spans, each with its inputs and outputs and with the spans below it."""
    below = defaultdict[str | None, list[Span]](list)
    for span in spans:
        below[span.parent].append(span)
    return tuple(_Builder(below).spans())


class _Builder:
    """Builds the nodes of one block, until there is no room for more."""

    def __init__(self, below: _Below | None = None) -> None:
        self.room = _MOST_NODES
        self.below = below or {}

    def _is_full(self) -> bool:
        self.room -= 1
        return self.room < 0

    def parts(self, value: object, depth: int = 0) -> Iterator[Node]:
        """Yield the parts of a JSON value."""
        entries: Iterable[tuple[object, object]]
        if isinstance(value, dict):
            entries = value.items()
        elif isinstance(value, list):
            entries = enumerate(value, 1)
        else:
            yield Node(name="", text=visible(json_text(value)))
            return
        for key, part in entries:
            if self._is_full():
                yield _MORE
                return
            name = visible(str(key))
            yield self._part(name, part, depth)

    def _part(self, name: str, part: object, depth: int) -> Node:
        if isinstance(part, str):
            return Node(name=name, text=prose(part))
        if not isinstance(part, dict | list) or not part:
            return Node(name=name, text=escape(json_text(part)))
        inner: tuple[Node, ...] = (_MORE,)
        if depth < _DEEPEST:
            inner = tuple(self.parts(part, depth + 1))
        return Node(name=name, parts=inner, note=str(len(part)))

    def spans(self, parent: str | None = None, depth: int = 0) -> Iterator[Node]:
        """Yield the spans below a parent, with all that is below them."""
        for span in self.below.get(parent, ()):
            if self._is_full() or depth >= _DEEPEST:
                yield _MORE
                return
            own = self.parts(_content(span))
            inner = self.spans(span.id, depth + 1)
            yield Node(
                name=visible(span.name),
                parts=(*own, *inner),
                note=_note(span),
                failed=span.status == "error",
            )


def _content(span: Span) -> dict[str, Any]:
    """Return what a span was given and gave, and its attributes, where there are any."""
    content: dict[str, Any] = {"inputs": span.inputs, "outputs": span.outputs}
    if span.attributes:
        content["attributes"] = span.attributes
    return {name: part for name, part in content.items() if part is not None}


def _note(span: Span) -> str:
    timed = "" if span.seconds is None else f"{span.seconds:.2f} s"
    parts = filter(None, (span.kind, timed, span.message))
    return visible(" · ".join(parts))
