"""A trace as a tree of spans, whichever of the usual forms it was written in.

- OpenTelemetry's JSON export: resourceSpans → scopeSpans → spans, attributes as lists of key and value
  (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding);
- a list of spans, each with its id and its parent's;
- an object that has such a list: MLflow's trace (data.spans), or `spans`.

Tracers have several names for the same field; of these the first that a span has counts. Fields of other names are
shown too, but for those in which tools keep what was said of the run. Nor are the spans of evaluators, scorers and
annotations shown, and all that is below them.
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
STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "start")
ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "end")
INPUTS = ("inputs", "input")
OUTPUTS = ("outputs", "output")
KINDS = ("span_kind", "run_type", "type", "kind")
MESSAGES = ("message", "description", "status_message", "statusMessage")
INPUT_ATTRIBUTES = ("mlflow.spanInputs", "input.value", "traceloop.entity.input", "langfuse.observation.input",
                    "gen_ai.input.messages", "gen_ai.tool.call.arguments", "gen_ai.prompt")  # fmt: skip
OUTPUT_ATTRIBUTES = ("mlflow.spanOutputs", "output.value", "traceloop.entity.output", "langfuse.observation.output",
                     "gen_ai.output.messages", "gen_ai.tool.call.result", "gen_ai.completion")  # fmt: skip
KIND_ATTRIBUTES = (
    "mlflow.spanType",
    "openinference.span.kind",
    "traceloop.span.kind",
    "gen_ai.operation.name",
)
OK, FAILED, UNSET = ("1", "OK", "SUCCESS"), ("2", "ERROR", "FAILED"), ("", "0", "UNSET", "DEFAULT")
READ = frozenset((*IDS, *PARENTS, *TRACES, *STARTS, *ENDS, *INPUTS, *OUTPUTS, *KINDS, *MESSAGES, "id", "name",
                  "context", "attributes", "events", "status", "status_code", "level"))  # fmt: skip
SAID = re.compile(  # names of what somebody said of a run: they would tell the judge the verdict
    r"(?!retrieval|reranker).*"
    r"(scores?|scoring|feedback|assessment|annotation|evaluat|comment|metadata|verdict|association).*"
    r"|(.*[._-])?(tags?|ratings?|thumbs?|(human|expert|gold|reviewer)[._-]labels?)([._-].*)?"
)
RECORDED = re.compile(  # names of fields that say how a run was recorded
    r".*(time|dropped|trace_?state|instrumentation|metrics).*|.*_ids?"
    r"|flags|links|resource|scope|dotted_order|bookmarked|public|environment|(created|updated|is_root).*"
)
TRACERS = re.compile(
    r"mlflow\.(traceRequestId|spanFunctionName|experimentId|spanLogLevel)|(in|out)put\.mime_type"
)
KIND_NAMES = re.compile(
    r"(.*[._])?(span|observation|run|event|call|weave)(_attributes)?[._]?(kind|type)"
)
JUDGING = re.compile(  # kinds of spans that say how good the run was
    r"(.*[_-])?(EVALUATORS?|SCORERS?|SCORES?|SCORING|GRADERS?|JUDGES?|ANNOTATIONS?|ANNOTATORS?|FEEDBACK|ASSESSMENTS?)"
    r"|REVIEW"
)
EVALUATIONS = (
    "EVAL",
    "EVALUATION",
)  # the whole of an experiment if uppermost, and a verdict below another span
NAMESPACES = re.compile(
    "ai|arize|braintrust|eval|gen_ai|langfuse|langsmith|lmnr|logfire|mlflow|opik|phoenix|traceloop|weave"
)
"""Attributes in which tracers nest their names, instead of writing them with dots. What else is nested is content."""
SECONDS = 10**9
"""From here to a hundred times as much, a number in `start` is seconds of a time since 2001, not some ns after 1970."""
LEVELS = 4
"""How deep such names are nested at most."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run, with what it was given and what it returned.

    Its `id` is S1, S2, … in the order of the tree, and `parent` that of the span that it belongs to. `kind` is what the
    tracer says (LLM, TOOL, CLIENT, …), `start` in nanoseconds since the epoch, and None like `seconds` where unknown.
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

    `notes` say which spans had to be shown as uppermost, because their parent is missing or below them.
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
        timed = [
            (s.start, s.seconds)
            for s in self.spans
            if s.start is not None and s.seconds is not None
        ]
        if not timed:
            return None
        return (max(start + round(took * 1e9) for start, took in timed) - min(timed)[0]) / 1e9


def span_tree(trace: object) -> SpanTree | None:
    """Read a trace in one of the forms above, or in their JSON text, as a tree of spans.

    None for anything else: other JSON and plain text are judged as they are.
    """
    trace = opened(trace)
    if isinstance(trace, Mapping):
        data = trace["data"] if isinstance(trace.get("data"), Mapping) else trace
        spans = (
            data["spans"] if isinstance(data.get("spans"), list | tuple) else exported_spans(trace)
        )
    elif isinstance(trace, list | tuple):
        spans = [span for part in trace for span in (exported_spans(part) or [part])]
    else:
        return None
    whole = all(isinstance(span, Mapping) and "name" in span and _id(span) for span in spans)
    return _tree([_span(span) for span in spans]) if spans and whole else None


def exported_spans(trace: object) -> list[Any]:
    """Return the spans in an object of OpenTelemetry's JSON export, none for anything else."""
    parts = [trace]
    for keys in (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans",)):
        lists = (_first(part, keys) for part in parts)
        parts = [part for listed in lists if isinstance(listed, list | tuple) for part in listed]
    return parts


def trace_of(span: object) -> str:
    """Return the id of the trace that a span belongs to, "" if it names none."""
    return str(_first(span, TRACES) or _first(_first(span, ("context",)), TRACES) or "")


def _id(span: object) -> str:
    """The id of a span; one that is called `id` alone is none."""
    own = _first(span, IDS) or _first(_first(span, ("context",)), IDS)
    return str(own or (_first(span, ("id",)) if trace_of(span) else None) or "")


def _first(value: object, keys: Sequence[str]) -> Any:
    """The value of the first of these keys that an object has."""
    if not isinstance(value, Mapping):
        return None
    return next((value[key] for key in keys if value.get(key) is not None), None)


# -- one span ----------------------------------------------------------------------------------------------------------


def _span(value: Mapping[str, Any]) -> Span:
    """The span with the ids that the tracer gave it and its parent, "" for none."""
    attributes = _attributes(value.get("attributes"))
    start, end = _moment(value, STARTS), _moment(value, ENDS)
    status, message = _status(value)
    error = isinstance(value.get("error"), str)
    return Span(
        id=_id(value),
        parent=_parent(value),
        name=" ".join(str(value.get("name") or "").split()) or "(unnamed)",
        kind=_kind(value, attributes),
        status=status,
        message=message,
        start=start,
        seconds=(end - start) / 1e9
        if start is not None and end is not None and end >= start
        else None,
        inputs=_taken(value, INPUTS, attributes, INPUT_ATTRIBUTES),
        outputs=_taken(value, OUTPUTS, attributes, OUTPUT_ATTRIBUTES),
        attributes=_tidy(attributes) | _others(value, READ | {"error"} if error else READ),
        events=_events(value.get("events")),
    )


def _parent(value: Mapping[str, Any]) -> str:
    """The id of the parent that the tracer gave; of several spans above, the nearest comes last."""
    parent = _first(value, PARENTS) or ""
    return str(parent[-1] if isinstance(parent, list | tuple) and parent else parent)


def _taken(
    span: Mapping[str, Any], keys: Sequence[str], attributes: dict[str, Any], named: Sequence[str]
) -> Any:
    """The value of the first of the `keys`, else of the first of the `named` attributes, which is taken out."""
    if (value := _first(span, keys)) is not None:
        return _opened(value)
    name = next((name for name in named if attributes.get(name) is not None), None)
    return None if name is None else _opened(attributes.pop(name))


def _kind(span: Mapping[str, Any], attributes: dict[str, Any]) -> str:
    """Return the first kind that a span has, and before it one by which the span is an evaluator's."""
    named = [
        value for name, value in _dotted(span, attributes) if KIND_NAMES.fullmatch(snake_case(name))
    ]
    own = [attributes.pop(name, None) for name in KIND_ATTRIBUTES]
    words = [word for word in map(_kind_word, (*own, *map(span.get, KINDS))) if word]
    every = (*words, *map(_kind_word, named))
    judging = [word for word in every if word in EVALUATIONS or JUDGING.fullmatch(word)]
    if "evaluator_name" in attributes:
        judging.append("EVALUATOR")
    first = next(iter((*judging, *words)), "")
    return "" if first in ("UNKNOWN", "INTERNAL") else first


def _kind_word(kind: object) -> str:
    """Return a kind in capitals, without what tracers write around it; OpenTelemetry's own are numbers, and none."""
    word = kind if isinstance(kind, str) else ""
    word = word.strip('"').rpartition(".")[2].upper().removeprefix("SPAN_KIND_")
    return re.sub(r"[^\w-]", "", word)[:40]


def _dotted(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of a span with their names in full, also of those that are nested in one another."""
    outer = {"span_attributes": span.get("span_attributes"), **attributes}
    waiting = [(name, value, 1) for name, value in outer.items()]
    while waiting:
        name, value, depth = waiting.pop()
        inner = _opened(value) if name.endswith("span_attributes") else value
        if isinstance(inner, Mapping) and depth < LEVELS:
            waiting.extend((f"{name}.{key}", part, depth + 1) for key, part in inner.items())
        else:
            yield name, value


def _status(span: Mapping[str, Any]) -> tuple[Literal["ok", "error", "unset"], str]:
    """How it ended, and the message; a word of its own is a message."""
    status = span.get("status", span)
    code = (
        _first(status, ("code", "status_code", "level")) if isinstance(status, Mapping) else status
    )
    error = span.get("error") if isinstance(span.get("error"), str) else ""
    message = str(_first(status, MESSAGES) or error)
    word = str("" if code is None else code).upper().rpartition("_")[2].rpartition(".")[2]
    if error or word in FAILED:
        return "error", message
    if word in OK or word in UNSET:
        return "ok" if word in OK else "unset", message
    return "unset", f"{code}{': ' * bool(message)}{message}"


def _events(value: object) -> tuple[dict[str, Any], ...]:
    """Those that do not say how good the run was, which would tell the judge the verdict."""
    return tuple(
        _others(event, ("attributes",)) | _tidy(_attributes(event.get("attributes")))
        for event in (value if isinstance(value, list | tuple) else ())
        if isinstance(event, Mapping) and not _is_said(str(event.get("name", "")))
    )


def _others(value: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """The fields of a span or an event that are shown although no convention names them."""
    names = (str(name) for name in value if name not in read)
    return _tidy({name: value[name] for name in names if not RECORDED.fullmatch(snake_case(name))})


def _tidy(attributes: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    """Return attributes in the order of their names, without a tracer's own and what was said of the run."""
    tidy: dict[str, Any] = {}
    for name in sorted(attributes):
        if TRACERS.fullmatch(name) or _is_said(name):
            continue
        value = _opened(attributes[name])
        if isinstance(value, Mapping) and (NAMESPACES.fullmatch(name) or 1 < depth < LEVELS):
            value = _tidy(_attributes(value), depth + 1)
        if value not in (None, "", [], {}):
            tidy[name] = value
    return tidy


def _is_said(name: str) -> bool:
    """Return whether a field, an attribute or an event holds what somebody said of the run, by its name."""
    return SAID.fullmatch(snake_case(name)) is not None


def _opened(value: object) -> Any:
    """The value itself where it is written as JSON inside a text, as most tracers write what a span was given."""
    return opened(value, '{["')


def _moment(span: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """Nanoseconds since the epoch; in `start` and `end` a whole number may be seconds without their fraction."""
    time = _time(_first(span, keys))
    bare = _first(span, keys[:-1]) is None
    return time * 10**9 if bare and time is not None and SECONDS <= time < 100 * SECONDS else time


def _time(value: object) -> int | None:
    """Nanoseconds since the epoch, which a whole number is; of a fraction it is seconds, and of a text ISO 8601."""
    try:
        if isinstance(value, str):
            value = (
                int(value)
                if value.isdecimal()
                else datetime.fromisoformat(value.strip()).timestamp()
            )
        nanoseconds = round(value * 1e9) if isinstance(value, float) else value
    except (
        ValueError,
        OverflowError,
        OSError,
    ):  # no time, or one of a year that the system's clock does not know
        return None
    if not isinstance(nanoseconds, int) or isinstance(nanoseconds, bool):
        return None
    return nanoseconds if 0 <= nanoseconds < 2**63 else None


def _attributes(value: object) -> dict[str, Any]:
    """The attributes of a span or an event by their names, whichever way they are written."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    pairs = value if isinstance(value, list | tuple) else ()
    return {
        str(p["key"]): _any_value(p.get("value"))
        for p in pairs
        if isinstance(p, Mapping) and "key" in p
    }


def _any_value(value: object) -> Any:
    """An OTLP AnyValue as plain JSON."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((kind, content),) = value.items()
    if kind == "intValue":  # a text, since JSON's numbers end at 2^53
        return int(content) if re.fullmatch(r"-?[0-9]{1,40}", str(content)) else content
    values = content.get("values", ()) if isinstance(content, Mapping) else None
    if kind in ("arrayValue", "kvlistValue") and isinstance(values, list | tuple):
        return (
            [_any_value(part) for part in values] if kind == "arrayValue" else _attributes(values)
        )
    return content if str(kind).endswith("Value") else value


# -- the tree ----------------------------------------------------------------------------------------------------------


def _tree(links: Sequence[Span]) -> SpanTree:
    """The spans, each below its parent and siblings by their start."""
    by_start = sorted(
        range(len(links)), key=lambda n: (links[n].start is None, links[n].start or 0)
    )
    children = _children(links, by_start)
    hidden = _judging(links, children)
    spans: dict[int, Span] = {}
    # What no uppermost span leads to is in a circle, or below one: the first of it becomes uppermost.
    for root in (*children.get(None, ()), *by_start):
        # A stack, not recursion: an agent's loop nests thousands deep.
        waiting: list[tuple[int, str | None, int]] = [(root, None, 0)]
        while waiting:
            n, parent, depth = waiting.pop()
            if n not in spans and n not in hidden:
                own = f"S{len(spans) + 1}"
                spans[n] = msgspec.structs.replace(links[n], id=own, parent=parent, depth=depth)
                waiting.extend((child, own, depth + 1) for child in reversed(children.get(n, ())))
    orphans = [
        span.name[:40] for n, span in spans.items() if links[n].parent and span.parent is None
    ]
    some = f"{', '.join(orphans[:5])}{', …' * (len(orphans) > 5)}"
    note = f"trace: {len(orphans)} of {len(spans)} spans ({some}) have no parent in it; shown as uppermost"
    return SpanTree(spans=tuple(spans.values()), notes=(note,) * bool(orphans))


def _children(links: Sequence[Span], order: Iterable[int]) -> dict[int | None, list[int]]:
    """Return the places of spans in this order by that of their parent, None where it is not there."""
    places: dict[str | None, int] = {}
    for n, link in enumerate(links):
        places.setdefault(link.id, n)
    children: dict[int | None, list[int]] = {}
    for n in order:
        children.setdefault(places.get(links[n].parent), []).append(n)
    return children


def _judging(links: Sequence[Span], children: Mapping[int | None, Sequence[int]]) -> set[int]:
    """Return the places of spans that say how good the run was, and of all below them."""
    uppermost = set(children.get(None, ()))
    waiting = [
        n
        for n, link in enumerate(links)
        if JUDGING.fullmatch(link.kind) or (link.kind in EVALUATIONS and n not in uppermost)
    ]
    hidden: set[int] = set()
    while waiting:
        n = waiting.pop()
        if n not in hidden:
            hidden.add(n)
            waiting.extend(children.get(n, ()))
    return hidden


def shown_spans(spans: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Leave out the spans of evaluators, scorers and annotations, and all below them, as a tree does.

    Args:
        spans: Spans in one of the forms above.

    Returns:
        The others as they were given, in the same order.
    """
    links = [
        Span(
            id=_id(span),
            parent=_parent(span),
            name="",
            kind=_kind(span, _attributes(span.get("attributes"))),
        )
        for span in spans
    ]
    hidden = _judging(links, _children(links, range(len(links))))
    return [span for n, span in enumerate(spans) if n not in hidden]
