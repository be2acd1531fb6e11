"""A trace as a tree of spans, whatever of the usual forms it was written in (see `span_forms`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from memalign.content.span_forms import RawSpan, read_spans

__all__ = ["Span", "SpanTree", "span_tree"]

SHOWN_NAMES = 5


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run.

    `id` is S1, S2, … in the order of the tree; `parent` is the id of the span that it belongs to, `depth` 0 without one.
    `kind` is what the tracer says (LLM, TOOL, CLIENT, …), "" for nothing. `message` is what its status says. `start` is in
    nanoseconds since the epoch; it and `seconds` are None where they are unknown. `attributes` are those that are not
    shown otherwise; `events` have a name, attributes and times.
    """

    id: str
    parent: str | None = None
    depth: int = 0
    name: str
    kind: str = ""
    status: Literal["ok", "error", "unset"] = "unset"
    message: str = ""
    start: int | None = None
    seconds: float | None = None
    inputs: Any = None
    outputs: Any = None
    attributes: dict[str, Any] = {}
    events: tuple[dict[str, Any], ...] = ()


class SpanTree(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of a trace: every span after its parent, siblings by when they started.

    `info` is what is said of the whole trace. `notes` name what had to be repaired: spans without their parent, ids that
    came twice, circles.
    """

    spans: tuple[Span, ...]
    info: dict[str, Any] = {}
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> int:
        """How many spans failed."""
        return sum(span.status == "error" for span in self.spans)

    @property
    def seconds(self) -> float | None:
        """From the start of the first span to the end of the last, None where times are unknown."""
        timed = [
            (s.start, s.start + round(s.seconds * 1e9))
            for s in self.spans
            if s.start is not None and s.seconds is not None
        ]
        return (max(end for _, end in timed) - min(start for start, _ in timed)) / 1e9 if timed else None

    def children(self, span_id: str | None) -> tuple[Span, ...]:
        """The spans right below one, or the uppermost for None."""
        return tuple(span for span in self.spans if span.parent == span_id)

    def span(self, span_id: str) -> Span | None:
        """The span of that id (`S3`), or None."""
        return next((span for span in self.spans if span.id == span_id), None)


def span_tree(trace: object) -> SpanTree | None:
    """The spans of a trace; None where it is none that is known: other JSON and plain text are judged as they stand.

    Known are OpenTelemetry's JSON export (`resourceSpans`), a list of spans, MLflow's trace, spans with their `children`
    inside them, and each of these as text. A span whose parent is missing becomes one of the uppermost; of a circle, the
    earliest does; of ids that come twice, the second span stays beside the first. `notes` say so.
    """
    found = read_spans(trace)
    if found is None or not found.spans:
        return None
    notes = list(found.notes)
    parents = _parents(found.spans, notes)
    return SpanTree(spans=_in_order(found.spans, parents), info=found.info, notes=tuple(notes))


def _parents(raw: Sequence[RawSpan], notes: list[str]) -> list[int | None]:
    """For each span the place of its parent; what cannot be is noted and becomes None."""
    place: dict[tuple[str, str], int] = {}
    twice, orphans = [], []
    for number, span in enumerate(raw):
        if span.id and (span.trace, span.id) in place:
            twice.append(span)
        elif span.id:
            place[span.trace, span.id] = number
    parents: list[int | None] = []
    for span in raw:
        parent = place.get((span.trace, span.parent)) if span.parent else None
        if span.parent and parent is None:
            orphans.append(span)
        parents.append(parent)
    circles = _open_circles(raw, parents)
    for spans, what in (
        (twice, "have an id that another span has too; each is shown"),
        (orphans, "name a parent that the trace does not hold; shown as uppermost"),
        ([raw[number] for number in circles], "are below themselves; shown as uppermost"),
    ):
        if spans:
            names = ", ".join(span.name[:40] for span in spans[:SHOWN_NAMES])
            more = f" and {len(spans) - SHOWN_NAMES} more" if len(spans) > SHOWN_NAMES else ""
            notes.append(f"trace: {len(spans)} of {len(raw)} spans ({names}{more}) {what}")
    return parents


def _open_circles(raw: Sequence[RawSpan], parents: list[int | None]) -> list[int]:
    """Cut every circle above its earliest span; the places of those spans."""
    state = [0] * len(parents)  # 0 new, 1 on the way that is walked now, 2 done
    cut = []
    for first in range(len(parents)):
        walked: list[int] = []
        at: int | None = first
        while at is not None and state[at] == 0:
            state[at] = 1
            walked.append(at)
            at = parents[at]
        if at is not None and state[at] == 1:
            circle = walked[walked.index(at) :]
            top = min(circle, key=lambda number: _when(raw, number))
            parents[top] = None
            cut.append(top)
        for number in walked:
            state[number] = 2
    return cut


def _in_order(raw: Sequence[RawSpan], parents: Sequence[int | None]) -> tuple[Span, ...]:
    below: dict[int | None, list[int]] = {}
    for number in sorted(range(len(raw)), key=lambda number: _when(raw, number)):
        below.setdefault(parents[number], []).append(number)
    spans: list[Span] = []
    # A stack, not recursion: an agent's loop nests thousands deep.
    waiting: list[tuple[int, str | None, int]] = [(number, None, 0) for number in reversed(below.get(None, []))]
    while waiting:
        number, parent, depth = waiting.pop()
        span = raw[number].span(id=f"S{len(spans) + 1}", parent=parent, depth=depth)
        spans.append(Span(**span))
        waiting.extend((child, str(span["id"]), depth + 1) for child in reversed(below.get(number, [])))
    return tuple(spans)


def _when(raw: Sequence[RawSpan], number: int) -> tuple[bool, int, int]:
    """By start; a span without one comes after those with one, in the order in which it was given."""
    start = raw[number].start
    return (start is None, start or 0, number)
