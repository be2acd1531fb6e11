"""A trace as a tree of spans, whichever of the usual forms it was written in.

- OpenTelemetry's JSON export: resourceSpans → scopeSpans → spans, attributes as lists of key and
  value (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding);
- a list of spans, each with its id and its parent's;
- an object that has such a list: MLflow's trace (data.spans), or `spans`.

Tracers have several names for the same field; of these the first that a span has counts. Fields of
other names are shown too, but for those in which tools keep what was said of the run. Nor are the
spans of evaluators, scorers and annotations shown, and all that is below them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from memalign.content.json_values import opened
from memalign.content.normal import snake_case

__all__ = ["Span", "SpanTree", "exported_spans", "shown_spans", "span_tree", "trace_of"]

IDS = ("spanId", "span_id")
PARENTS = (
    "parentSpanId",
    "parent_span_id",
    "parent_id",
    "parent_run_ids",
    "parentObservationId",
    "span_parents",
)
TRACES = ("traceId", "trace_id", "root_span_id")
STARTS = (
    "startTimeUnixNano",
    "start_time_unix_nano",
    "start_time",
    "startTime",
    "start",
)
ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "end")
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
STATUSES: dict[str, Literal["ok", "error", "unset"]] = {
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
            *INPUTS,
            *OUTPUTS,
            *KINDS,
            *MESSAGES,
        ),
        *(
            "id",
            "name",
            "context",
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
    status: Literal["ok", "error", "unset"] = "unset"
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
        return (max(ends) - min(starts)) / 1e9 if starts else None


def span_tree(trace: object) -> SpanTree | None:
    """Read a trace in one of the forms above, or in their JSON text, as a tree of spans.

    Returns:
        None for anything else: other JSON and plain text are judged as they are.
    """
    spans = _spans_in(opened(trace))
    for span in spans:
        if not isinstance(span, Mapping) or "name" not in span or not _id(span):
            return None
    return _tree([_span(span) for span in spans]) if spans else None


def _spans_in(trace: object) -> Sequence[Any]:
    if isinstance(trace, Mapping):
        data = trace["data"] if isinstance(trace.get("data"), Mapping) else trace
        listed = _list(data.get("spans"))
        return exported_spans(trace) if listed is None else listed
    spans: list[Any] = []
    for part in _list(trace) or ():
        spans += exported_spans(part) or [part]
    return spans


def exported_spans(trace: object) -> list[Any]:
    """Return the spans in an object of OpenTelemetry's JSON export, none for anything else."""
    parts = [trace]
    for keys in (
        ("resourceSpans", "resource_spans"),
        ("scopeSpans", "scope_spans"),
        ("spans",),
    ):
        parts = [inner for part in parts for inner in _list(_first(part, keys)) or ()]
    return parts


def shown_spans(spans: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
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
    return str(_first(span, TRACES) or _first(_first(span, ("context",)), TRACES) or "")


def _id(span: object) -> str:
    """Return the id of a span; one that is called `id` alone is none."""
    own = _first(span, IDS) or _first(_first(span, ("context",)), IDS)
    if own is None and trace_of(span):
        own = _first(span, ("id",))
    return str(own or "")


def _first(value: object, keys: Sequence[str]) -> Any:
    """Return the value of the first of these keys that an object has."""
    if not isinstance(value, Mapping):
        return None
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _list(value: object) -> Sequence[Any] | None:
    return value if isinstance(value, list | tuple) else None


# -- one span --------------------------------------------------------------------------------------


def _span(value: Mapping[str, Any]) -> Span:
    """Return the span with the ids that the tracer gave it and its parent, "" for none."""
    attributes = _attributes(value.get("attributes"))
    start = _moment(value, STARTS)
    end = _moment(value, ENDS)
    timed = start is not None and end is not None and end >= start
    status, message = _status(value)
    read = READ | {"error"} if isinstance(value.get("error"), str) else READ
    kind = _kind(value, attributes)
    inputs = _taken(value, INPUTS, attributes, INPUT_ATTRIBUTES)
    outputs = _taken(value, OUTPUTS, attributes, OUTPUT_ATTRIBUTES)
    return Span(
        id=_id(value),
        parent=_parent(value),
        name=" ".join(str(value.get("name") or "").split()) or "(unnamed)",
        kind=kind,
        status=status,
        message=message,
        start=start,
        seconds=((end or 0) - (start or 0)) / 1e9 if timed else None,
        inputs=inputs,
        outputs=outputs,
        attributes=_tidy(attributes) | _others(value, read),
        events=_events(value.get("events")),
    )


def _parent(value: Mapping[str, Any]) -> str:
    """Return the parent's id as the tracer gave it; of several spans above, the nearest is last."""
    parent = _first(value, PARENTS) or ""
    return str(parent[-1] if _list(parent) else parent)


def _taken(
    span: Mapping[str, Any],
    keys: Sequence[str],
    attributes: dict[str, Any],
    named: Sequence[str],
) -> Any:
    """Return the value of the first key, else of the first `named` attribute, taken out."""
    value = _first(span, keys)
    if value is None:
        name = next((name for name in named if attributes.get(name) is not None), "")
        value = attributes.pop(name, None)
    return _opened(value)


def _kind(span: Mapping[str, Any], attributes: dict[str, Any]) -> str:
    """Return the first kind of a span, and before it one by which the span is an evaluator's."""
    named: list[Any] = []
    for name, value in _dotted(span, attributes):
        if KIND_NAMES.fullmatch(snake_case(name)):
            named.append(value)
    own = [attributes.pop(name, None) for name in KIND_ATTRIBUTES]
    words = [word for word in map(_kind_word, (*own, *map(span.get, KINDS))) if word]
    for word in (*words, *map(_kind_word, named)):
        if word in EVALUATIONS or JUDGING.fullmatch(word):
            return word
    if "evaluator_name" in attributes:
        return "EVALUATOR"
    return words[0] if words and words[0] not in ("UNKNOWN", "INTERNAL") else ""


def _kind_word(kind: object) -> str:
    """Return a kind in capitals, without its surroundings; OpenTelemetry's numbers are no kinds."""
    word = kind if isinstance(kind, str) else ""
    word = word.strip('"').rpartition(".")[2].upper().removeprefix("SPAN_KIND_")
    return re.sub(r"[^\w-]", "", word)[:40]


def _dotted(
    span: Mapping[str, Any], attributes: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a span with their names in full, also nested ones."""
    outer = {"span_attributes": span.get("span_attributes"), **attributes}
    waiting = [(name, value, 1) for name, value in outer.items()]
    while waiting:
        name, value, depth = waiting.pop()
        inner = _opened(value) if name.endswith("span_attributes") else value
        if isinstance(inner, Mapping) and depth < LEVELS:
            waiting.extend(
                (f"{name}.{key}", part, depth + 1) for key, part in inner.items()
            )
        else:
            yield name, value


def _status(span: Mapping[str, Any]) -> tuple[Literal["ok", "error", "unset"], str]:
    """Return how a span ended, and the message; a word of its own is a message."""
    status = span.get("status", span)
    code = status
    if isinstance(status, Mapping):
        code = _first(status, ("code", "status_code", "level"))
    error = span.get("error") if isinstance(span.get("error"), str) else ""
    message = str(_first(status, MESSAGES) or error)
    word = (
        str("" if code is None else code).upper().rpartition("_")[2].rpartition(".")[2]
    )
    if error:
        return "error", message
    if word in STATUSES:
        return STATUSES[word], message
    return "unset", f"{code}: {message}" if message else str(code)


def _events(value: object) -> tuple[dict[str, Any], ...]:
    """Return the events that do not tell the judge the verdict by saying how good the run was."""
    events: list[dict[str, Any]] = []
    for event in _list(value) or ():
        if isinstance(event, Mapping) and not _is_said(str(event.get("name", ""))):
            attributes = _tidy(_attributes(event.get("attributes")))
            events.append(_others(event, ("attributes",)) | attributes)
    return tuple(events)


def _others(value: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """Return the fields of a span or an event that are shown although no convention names them."""
    others: dict[str, Any] = {}
    for name in value:
        if name not in read and not RECORDED.fullmatch(snake_case(str(name))):
            others[str(name)] = value[name]
    return _tidy(others)


def _tidy(attributes: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    """Return attributes by name, without a tracer's own and what was said of the run."""
    tidy: dict[str, Any] = {}
    for name in sorted(attributes):
        if TRACERS.fullmatch(name) or _is_said(name):
            continue
        value = _opened(attributes[name])
        if isinstance(value, Mapping) and (
            NAMESPACES.fullmatch(name) or 1 < depth < LEVELS
        ):
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


def _moment(span: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """Return a time in nanoseconds since the epoch.

    In `start` and `end` a whole number may be seconds without their fraction.
    """
    time = _time(_first(span, keys))
    bare = _first(span, keys[:-1]) is None
    if bare and time is not None and SECONDS <= time < 100 * SECONDS:
        return time * 10**9
    return time


def _time(value: object) -> int | None:
    """Return nanoseconds: a whole number as it is, a fraction of seconds, or a text in ISO 8601."""
    try:
        if isinstance(value, str):
            whole = value.isdecimal()
            value = (
                int(value)
                if whole
                else datetime.fromisoformat(value.strip()).timestamp()
            )
        nanoseconds = round(value * 1e9) if isinstance(value, float) else value
    # Not a time, or of a year that the system's clock does not know.
    except (ValueError, OverflowError, OSError):
        return None
    if not isinstance(nanoseconds, int) or isinstance(nanoseconds, bool):
        return None
    return nanoseconds if 0 <= nanoseconds < 2**63 else None


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes of a span or an event by their names, however they are written."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    attributes: dict[str, Any] = {}
    for pair in _list(value) or ():
        if isinstance(pair, Mapping) and "key" in pair:
            attributes[str(pair["key"])] = _any_value(pair.get("value"))
    return attributes


def _any_value(value: object) -> Any:
    """Return an OTLP AnyValue as plain JSON."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind == "intValue":  # a text, since JSON's numbers end at 2^53
        return int(content) if re.fullmatch(r"-?[0-9]{1,40}", str(content)) else content
    values = _list(content.get("values", ())) if isinstance(content, Mapping) else None
    if kind == "arrayValue" and values is not None:
        return [_any_value(part) for part in values]
    if kind == "kvlistValue" and values is not None:
        return _attributes(values)
    return content if str(kind).endswith("Value") else value


# -- the tree --------------------------------------------------------------------------------------


def _tree(links: Sequence[Span]) -> SpanTree:
    """Return the spans, each below its parent and siblings by their start."""
    by_start = sorted(range(len(links)), key=lambda place: _start(links[place]))
    children = _children(links, by_start)
    hidden = _judging(links, children)
    spans: dict[int, Span] = {}
    # Spans that no uppermost span leads to are in a circle, or below one: the first of it becomes
    # uppermost.
    for root in (*children.get(None, ()), *by_start):
        # A stack, not recursion: an agent's loop nests thousands deep.
        waiting: list[tuple[int, str | None, int]] = [(root, None, 0)]
        while waiting:
            place, parent, depth = waiting.pop()
            if place not in spans and place not in hidden:
                own = f"S{len(spans) + 1}"
                link = links[place]
                spans[place] = msgspec.structs.replace(
                    link, id=own, parent=parent, depth=depth
                )
                below = reversed(children.get(place, ()))
                waiting.extend((child, own, depth + 1) for child in below)
    orphans: list[str] = []
    for place, span in spans.items():
        if links[place].parent and span.parent is None:
            orphans.append(span.name[:40])
    return SpanTree(spans=tuple(spans.values()), notes=_notes(orphans, len(spans)))


def _start(span: Span) -> tuple[bool, int]:
    return span.start is None, span.start or 0


def _notes(orphans: Sequence[str], count: int) -> tuple[str, ...]:
    if not orphans:
        return ()
    names = ", ".join((*orphans[:5], "…") if len(orphans) > 5 else orphans)
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
        children.setdefault(places.get(links[place].parent), []).append(place)
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
