"""A trace as a tree of spans, whichever of the usual forms it was written in.

- OpenTelemetry's JSON export: resourceSpans → scopeSpans → spans, attributes as lists of key and
  value (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding);
- a list of spans, each with its id and its parent's;
- an object that has such a list: MLflow's trace (data.spans), `spans`, or `observations`.

Tracers have several names for the same field; of these the first that a span has counts. Fields of
other names are shown too, but for those in which tools keep what was said of the run. Nor are the
spans of evaluators, scorers and annotations shown, and all that is below them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from memalign.content.json_values import opened
from memalign.content.normal import snake_case
from memalign.content.walk import first_of

__all__ = ["Span", "SpanTree", "exported_spans", "shown_spans", "span_tree", "trace_of"]

IDS = ("spanId", "span_id", "context.span_id")
PARENTS = (
    "parentSpanId",
    "parent_span_id",
    "parent_id",
    "parentId",
    "parent_run_id",
    "parent_run_ids",
    "parentObservationId",
    "span_parents",
)
TRACES = ("traceId", "trace_id", "root_span_id", "context.trace_id")
STARTS = (
    "startTimeUnixNano",
    "start_time_unix_nano",
    "start_time",
    "startTime",
    "start",
)
ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "end")
NAMES = ("name", "op_name", "operation_name")
INPUTS = ("inputs", "input")
OUTPUTS = ("outputs", "output")
KINDS = ("span_kind", "run_type", "type", "kind")
MESSAGES = ("message", "description", "status_message", "statusMessage")
INPUT_ATTRIBUTES = (
    "mlflow.spanInputs",
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "gen_ai.input.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.prompt",
)
OUTPUT_ATTRIBUTES = (
    "mlflow.spanOutputs",
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "gen_ai.output.messages",
    "gen_ai.tool.call.result",
    "gen_ai.completion",
)
KIND_ATTRIBUTES = (
    "mlflow.spanType",
    "openinference.span.kind",
    "traceloop.span.kind",
    "gen_ai.operation.name",
)
Status = Literal["ok", "error", "unset"]
STATUSES: dict[str, Status] = {
    "1": "ok",
    "OK": "ok",
    "SUCCESS": "ok",
    "2": "error",
    "ERROR": "error",
    "FAILED": "error",
    "": "unset",
    "0": "unset",
    "UNSET": "unset",
    "DEFAULT": "unset",
}
READ = frozenset(
    (
        *(
            *IDS,
            *PARENTS,
            *TRACES,
            *STARTS,
            *ENDS,
            *NAMES,
            *INPUTS,
            *OUTPUTS,
            *KINDS,
            *MESSAGES,
        ),
        *(
            "id",
            "context",
            "child_runs",
            "span_attributes",
            "attributes",
            "events",
            "status",
            "status_code",
            "level",
        ),
    )
)
"""Fields of a span that are read as something."""

SAID = re.compile(
    r"(?!retrieval|reranker).*"
    r"(scores?|scoring|feedback|assessment|annotation|evaluat|comment|metadata|verdict"
    r"|association).*"
    r"|(.*[._-])?(tags?|ratings?|thumbs?|(human|expert|gold|reviewer)[._-]labels?)([._-].*)?"
)
"""Names of what somebody said of a run: it would tell the judge the verdict."""

RECORDED = re.compile(
    r".*(time|dropped|trace_?state|instrumentation|metrics).*|.*_ids?"
    r"|flags|links|resource|scope|dotted_order|bookmarked|public|environment"
    r"|(created|updated|is_root).*"
)
"""Names of fields that say how a run was recorded."""

TRACERS = re.compile(
    r"mlflow\.(traceRequestId|spanFunctionName|experimentId|spanLogLevel)|(in|out)put\.mime_type"
)
KIND_NAMES = re.compile(
    r"(.*[._])?(span|observation|run|event|call|weave)(_attributes)?[._]?(kind|type)"
)
JUDGING = re.compile(
    r"(.*[_-])?(EVALUATORS?|SCORERS?|SCORES?|SCORING|GRADERS?|JUDGES?|ANNOTATIONS?|ANNOTATORS?"
    r"|FEEDBACK|ASSESSMENTS?)|REVIEW"
)
"""Kinds of spans that say how good the run was."""

EVALUATIONS = ("EVAL", "EVALUATION")
"""Kinds of spans that are a whole experiment if uppermost, and a verdict below another span."""

NAMESPACES = re.compile(
    "ai|arize|braintrust|eval|gen_ai|langfuse|langsmith|lmnr|logfire|mlflow|opik|phoenix"
    "|traceloop|weave"
)
"""Attributes in which tracers nest their names, instead of writing dots. Others nest content."""

SECONDS = 10**9
"""From here to its hundredfold, a number in `start` is seconds since 1970, not nanoseconds."""

LEVELS = 4
"""How deep such names are nested at most."""


Fields = Mapping[str, Any]
"""A span, an event or attributes, as a tracer wrote them."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run, with what it was given and what it returned.

    Attributes:
        id: S1, S2, … in the order of the tree.
        parent: The id of the span that it belongs to; None for an uppermost one.
        depth: How many spans are above it.
        name: Its name, in one line.
        kind: What the tracer says: LLM, TOOL, CLIENT, …
        status: How it ended.
        message: What it says of how it ended.
        start: Nanoseconds since the epoch; None where unknown.
        seconds: How long it took; None where unknown.
        inputs: What it was given.
        outputs: What it returned.
        attributes: What else the tracer kept, without what was said of the run.
        events: What happened meanwhile, likewise.
    """

    id: str = ""
    parent: str | None = None
    depth: int = 0
    name: str
    kind: str = ""
    status: Status = "unset"
    message: str = ""
    start: int | None = None
    seconds: float | None = None
    inputs: Any = None
    outputs: Any = None
    attributes: dict[str, Any] = {}
    events: tuple[dict[str, Any], ...] = ()


class SpanTree(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of a trace, each once: every span after its parent, siblings by when they started.

    `notes` say which spans had to be shown as uppermost, because their parent is missing or below
    them.
    """

    spans: tuple[Span, ...]
    notes: tuple[str, ...] = ()

    @property
    def errors(self) -> int:
        """How many spans failed."""
        return sum(span.status == "error" for span in self.spans)

    @property
    def seconds(self) -> float | None:
        """From the start of the first span to the end of the last, None where times are unknown."""
        starts: list[int] = []
        ends: list[int] = []
        for span in self.spans:
            if span.start is not None and span.seconds is not None:
                starts.append(span.start)
                ends.append(span.start + round(span.seconds * 1e9))
        if not starts:
            return None
        return (max(ends) - min(starts)) / 1e9


def span_tree(trace: object) -> SpanTree | None:
    """Read a trace in one of the forms above, or in their JSON text, as a tree of spans.

    Returns:
        None for anything else: other JSON and plain text are judged as they are.
    """
    spans = [span for span in _spans_in(opened(trace)) if span is not None]
    if not spans or not all(map(_id, spans)):
        return None
    links = [_span(span) for span in spans]
    return _tree(links)


def _spans_in(trace: object) -> Sequence[Any]:
    if isinstance(trace, Mapping):
        data = trace.get("data")
        if not isinstance(data, Mapping):
            data = trace
        listed = _list(first_of(data, ("spans", "observations")))
        return listed or exported_spans(trace) or _nested(trace)
    spans: list[Any] = []
    for part in _list(trace):
        spans += exported_spans(part) or [part]
    return spans


def _nested(run: Fields) -> list[Any]:
    """Return a run of LangSmith and all that it holds; nothing for one that holds none."""
    runs: list[Any] = [run]
    for each in runs:
        runs += _list(first_of(each, ("child_runs",)))
    return runs[1:] and runs


def exported_spans(trace: object) -> list[Any]:
    """Return the spans in an object of OpenTelemetry's JSON export, none for anything else."""
    parts = [trace]
    for keys in (
        ("resourceSpans", "resource_spans", "batches"),
        ("scopeSpans", "scope_spans"),
        ("spans",),
    ):
        inner: list[Any] = []
        for part in parts:
            inner += _list(first_of(part, keys))
        parts = inner
    return parts


def shown_spans(spans: Sequence[Fields]) -> list[Fields]:
    """Leave out the spans of evaluators, scorers and annotations, and all below them.

    Args:
        spans: Spans in one of the forms above.

    Returns:
        The others as they were given, in the same order.
    """
    links = []
    for span in spans:
        kind = _kind(span, _attributes(span.get("attributes")))
        links.append(Span(id=_id(span), parent=_parent(span), name="", kind=kind))
    hidden = _judging(links, _children(links, range(len(links))))
    return [span for place, span in enumerate(spans) if place not in hidden]


def trace_of(span: object) -> str:
    """Return the id of the trace that a span belongs to, "" if it names none."""
    return _name_in(span, TRACES)


def _id(span: object) -> str:
    """Return the id of a span, "" for none; one that is called `id` alone is none."""
    own = _name_in(span, IDS)
    if not own and trace_of(span):
        return _name_in(span, ("id",))
    return own


def _name_in(span: object, keys: Sequence[str]) -> str:
    """Return the id under one of these keys, of the span or its context."""
    for fields in (span, first_of(span, ("context",))):
        name = first_of(fields, keys)
        if name not in (None, ""):
            return str(name)
    return ""


def _list(value: object) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    return ()


# -- one span --------------------------------------------------------------------------------------


def _span(value: Fields) -> Span:
    """Return the span with the ids that the tracer gave it and its parent, "" for none."""
    attributes = _attributes(value.get("attributes"))
    start = _moment(value, STARTS)
    end = _moment(value, ENDS)
    seconds = None
    if start is not None and end is not None and end >= start:
        seconds = (end - start) / 1e9
    status, message = _status(value)
    read = set(READ)
    if isinstance(value.get("error"), str):
        read.add("error")
    name = first_of(value, NAMES) or first_of(value.get("span_attributes"), NAMES)
    name = " ".join(str(name or "").split())
    kind = _kind(value, attributes)
    inputs = _taken(value, INPUTS, attributes, INPUT_ATTRIBUTES)
    outputs = _taken(value, OUTPUTS, attributes, OUTPUT_ATTRIBUTES)
    return Span(
        id=_id(value),
        parent=_parent(value),
        name=name or "(unnamed)",
        kind=kind,
        status=status,
        message=message,
        start=start,
        seconds=seconds,
        inputs=inputs,
        outputs=outputs,
        attributes=_tidy(attributes) | _others(value, read),
        events=_events(value.get("events")),
    )


def _parent(value: Fields) -> str:
    """Return the parent's id as the tracer gave it; of several spans above, the nearest is last."""
    parent = first_of(value, PARENTS)
    for each in _list(parent):
        parent = each
    return "" if parent in (None, []) else str(parent)


def _taken(
    span: Fields,
    keys: Sequence[str],
    attributes: dict[str, Any],
    named: Sequence[str],
) -> Any:
    """Return the value of the first key, else of the first `named` attribute, taken out."""
    value = first_of(span, keys)
    for name in named:
        if value is not None:
            break
        if attributes.get(name) is not None:
            value = attributes.pop(name)
    return _opened(value)


def _kind(span: Fields, attributes: dict[str, Any]) -> str:
    """Return the first kind of a span, and before it one by which the span is an evaluator's."""
    named: list[Any] = []
    for name, value in _dotted(span, attributes):
        if KIND_NAMES.fullmatch(snake_case(name)):
            named.append(value)
    own = [attributes.pop(name, None) for name in KIND_ATTRIBUTES]
    own += [span.get(name) for name in KINDS]
    words = list(filter(None, map(_kind_word, own)))
    for word in (*words, *map(_kind_word, named)):
        if word in EVALUATIONS or JUDGING.fullmatch(word):
            return word
    if "evaluator_name" in attributes:
        return "EVALUATOR"
    if not words or words[0] in ("UNKNOWN", "INTERNAL"):
        return ""
    return words[0]


def _kind_word(kind: object) -> str:
    """Return a kind in capitals, without its surroundings; OpenTelemetry's numbers are no kinds."""
    if not isinstance(kind, str):
        return ""
    word = kind.strip('"').rpartition(".")[2].upper()
    word = word.removeprefix("SPAN_KIND_")
    return re.sub(r"[^\w-]", "", word)[:40]


def _dotted(span: Fields, attributes: Fields) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a span with their names in full, also nested ones."""
    outer = {"span_attributes": span.get("span_attributes"), **attributes}
    waiting = [(name, value, 1) for name, value in outer.items()]
    while waiting:
        name, value, depth = waiting.pop()
        inner = value
        if name.endswith("span_attributes"):
            inner = _opened(value)
        if not isinstance(inner, Mapping) or depth >= LEVELS:
            yield name, value
            continue
        for key, part in inner.items():
            waiting.append((f"{name}.{key}", part, depth + 1))


def _status(span: Fields) -> tuple[Status, str]:
    """Return how a span ended, and the message; a word of its own is a message."""
    status = span.get("status", span)
    code = status
    if isinstance(status, Mapping):
        code = first_of(status, ("code", "status_code", "level"))
    if code is None:
        code = ""
    error = span.get("error")
    if not isinstance(error, str):
        error = ""
    message = str(first_of(status, MESSAGES) or error)
    if error:
        return "error", message
    word = re.split(r"[_.]", str(code).upper())[-1]
    if word in STATUSES:
        return STATUSES[word], message
    if message:
        return "unset", f"{code}: {message}"
    return "unset", str(code)


def _events(value: object) -> tuple[dict[str, Any], ...]:
    """Return the events that do not tell the judge the verdict by saying how good the run was."""
    events: list[dict[str, Any]] = []
    for event in _list(value):
        if not isinstance(event, Mapping):
            continue
        name = str(event.get("name", ""))
        if _is_said(name):
            continue
        attributes = _tidy(_attributes(event.get("attributes")))
        events.append(_others(event, ("attributes",)) | attributes)
    return tuple(events)


def _others(value: Fields, read: Collection[str]) -> dict[str, Any]:
    """Return the fields of a span or an event that are shown although no convention names them."""
    others: dict[str, Any] = {}
    for name in value:
        if name not in read and not RECORDED.fullmatch(snake_case(str(name))):
            others[str(name)] = value[name]
    return _tidy(others)


def _tidy(attributes: Fields, depth: int = 1) -> dict[str, Any]:
    """Return attributes by name, without a tracer's own and what was said of the run."""
    tidy: dict[str, Any] = {}
    for name in sorted(attributes):
        if TRACERS.fullmatch(name) or _is_said(name):
            continue
        value = _opened(attributes[name])
        nests = NAMESPACES.fullmatch(name) or 1 < depth < LEVELS
        if nests and isinstance(value, Mapping):
            value = _tidy(_attributes(value), depth + 1)
        if value not in (None, "", [], {}):
            tidy[name] = value
    return tidy


def _is_said(name: str) -> bool:
    """Return whether something of this name holds what somebody said of the run."""
    return SAID.fullmatch(snake_case(name)) is not None


def _opened(value: object) -> Any:
    """Return the value that a text of JSON is, as most tracers write what a span was given."""
    return opened(value, '{["')


def _moment(span: Fields, keys: Sequence[str]) -> int | None:
    """Return a time in nanoseconds since the epoch.

    In `start` and `end` a whole number may be seconds without their fraction.
    """
    time = _time(first_of(span, keys))
    if time is None or not SECONDS <= time < 100 * SECONDS:
        return time
    is_bare = first_of(span, keys[:-1]) is None
    if is_bare:
        return time * 10**9
    return time


def _time(value: object) -> int | None:
    """Return nanoseconds: a whole number as it is, a fraction of seconds, or a text in ISO 8601."""
    try:
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        elif isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            # Without a zone it is UTC, not that of whichever machine reads it.
            value = moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
        if isinstance(value, float):
            value = round(value * 1e9)
    # Not a time, or of a year that the system's clock does not know.
    except (ValueError, OverflowError, OSError):
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if not 0 <= value < 2**63:
        return None
    return value


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes of a span or an event by their names, however they are written."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    attributes: dict[str, Any] = {}
    for pair in _list(value):
        if isinstance(pair, Mapping) and "key" in pair:
            attributes[str(pair["key"])] = _any_value(pair.get("value"))
    return attributes


def _any_value(value: object) -> Any:
    """Return an OTLP AnyValue as plain JSON."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind == "intValue":  # a text, since JSON's numbers end at 2^53
        is_number = re.fullmatch(r"-?[0-9]{1,40}", str(content))
        return int(content) if is_number else content
    if isinstance(content, Mapping):
        values = content.get("values", [])
        is_known = isinstance(values, list | tuple)
        if is_known and kind == "arrayValue":
            return [_any_value(part) for part in values]
        if is_known and kind == "kvlistValue":
            return _attributes(values)
    if str(kind).endswith("Value"):
        return content
    return value


# -- the tree --------------------------------------------------------------------------------------


_NO_PARENT = ("", "0", "False")
"""What tracers write for the parent of a span without one."""


def _tree(links: Sequence[Span]) -> SpanTree:
    """Return the spans, each below its parent and siblings by their start."""
    by_start = sorted(range(len(links)), key=lambda place: _start(links[place]))
    children = _children(links, by_start)
    hidden = _judging(links, children)
    # Spans that no uppermost span leads to are in a circle, or below one: the first of it becomes
    # uppermost.
    roots = [*children.get(None, ()), *by_start]
    spans: dict[int, Span] = {}
    # A stack, not recursion: an agent's loop nests thousands deep.
    waiting: list[tuple[int, Span | None]] = [(root, None) for root in reversed(roots)]
    while waiting:
        place, above = waiting.pop()
        if place in spans or place in hidden:
            continue
        number = len(spans) + 1
        span = _placed(links[place], number, above)
        spans[place] = span
        for child in reversed(children.get(place, ())):
            waiting.append((child, span))
    orphans: list[str] = []
    for place, span in spans.items():
        if links[place].parent not in _NO_PARENT and span.parent is None:
            orphans.append(span.name[:40])
    return SpanTree(spans=tuple(spans.values()), notes=_notes(orphans, len(spans)))


def _placed(link: Span, number: int, above: Span | None) -> Span:
    """Return a span with its place in the tree, below another or uppermost."""
    parent = None
    depth = 0
    if above is not None:
        parent = above.id
        depth = above.depth + 1
    return msgspec.structs.replace(link, id=f"S{number}", parent=parent, depth=depth)


def _start(span: Span) -> tuple[bool, int]:
    return span.start is None, span.start or 0


def _notes(orphans: Sequence[str], count: int) -> tuple[str, ...]:
    if not orphans:
        return ()
    shown = list(orphans[:5])
    if len(orphans) > 5:
        shown.append("…")
    names = ", ".join(shown)
    some = f"{len(orphans)} of {count} spans ({names})"
    return (f"trace: {some} have no parent in it; shown as uppermost",)


def _children(
    links: Sequence[Span], order: Iterable[int]
) -> dict[int | None, list[int]]:
    """Return the places of spans by that of their parent, None where it is not there."""
    places: dict[str | None, int] = {}
    for place, link in enumerate(links):
        places.setdefault(link.id, place)
    children: dict[int | None, list[int]] = {}
    for place in order:
        parent = places.get(links[place].parent)
        children.setdefault(parent, []).append(place)
    return children


def _judging(
    links: Sequence[Span], children: Mapping[int | None, Sequence[int]]
) -> set[int]:
    """Return the places of spans that say how good the run was, and of all below them."""
    uppermost = set(children.get(None, ()))
    waiting: list[int] = []
    for place, link in enumerate(links):
        verdict = link.kind in EVALUATIONS and place not in uppermost
        if verdict or JUDGING.fullmatch(link.kind):
            waiting.append(place)
    hidden: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place not in hidden:
            hidden.add(place)
            waiting.extend(children.get(place, ()))
    return hidden
