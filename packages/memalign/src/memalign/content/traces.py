"""A trace as a tree of spans, whatever of the usual forms it was written in.

- OpenTelemetry's JSON export: resourceSpans → scopeSpans → spans, attributes as lists of key and value
  (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding);
- a list of spans, each with its id and its parent's;
- an object that has such a list: MLflow's trace (data.spans), Langfuse's (observations);
- spans with their children inside them.

What a span was given, what it returned and what kind of step it is lies in fields or attributes whose names differ
(`trace_names`). Fields of other names are shown too, but for those in which tools keep what was said of the run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from memalign.content import trace_names as names
from memalign.content.encoding import json_inside
from memalign.types import MAX_DEPTH

__all__ = ["Span", "SpanTree", "exported_spans", "span_tree", "trace_of"]

_EMPTY: tuple[object, ...] = (None, "", [], {}, ())
_NAMED_IN_NOTES = 5
_NUMBERED = re.compile(r"(?P<list>[a-z_.]+)\.(?P<place>[0-9]{1,4})\.(?:message\.)?(?P<part>role|content)")


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run.

    Attributes:
        id: S1, S2, … in the order of the tree.
        parent: The id of the span that it belongs to; `depth` is 0 without one.
        kind: What the tracer says (LLM, TOOL, CLIENT, …), "" for nothing.
        message: What its status says.
        start: Nanoseconds since the epoch; it and `seconds` are None where they are unknown.
        attributes: Those that are not shown otherwise.
        events: Each with its name and attributes.
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
    """The spans of a trace: every span after its parent, siblings by when they started.

    Attributes:
        spans: All of them, each once.
        info: What the tracer says the whole run was given and returned, beside the spans.
        notes: What had to be repaired: spans without their parent, ids that came twice, circles.
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
        timed = [(s.start, s.seconds) for s in self.spans if s.start is not None and s.seconds is not None]
        if not timed:
            return None
        return (max(start + round(took * 1e9) for start, took in timed) - min(timed)[0]) / 1e9


class _Link(NamedTuple):
    """A span before it has its place: the ids that the tracer gave it, its parent and its trace ("" for none)."""

    id: str
    parent: str
    trace: str
    span: Span


def span_tree(trace: object) -> SpanTree | None:
    """Read a trace as a tree of spans.

    A span whose parent is missing, or that is below itself, becomes one of the uppermost; of ids that come twice, the
    second span is kept too. `notes` say so.

    Args:
        trace: One of the forms above, as JSON values or as their text.

    Returns:
        None for anything else: other JSON and plain text are judged as they are.
    """
    if isinstance(trace, str):
        if trace.lstrip()[:1] not in ("{", "["):
            return None
        trace = json_inside(trace, deepest=3 * MAX_DEPTH)  # spans inside spans, each of which is not nested as deep
    listed = _listed(trace)
    spans = [span for span in listed if _is_span(span)]
    if not spans or (isinstance(trace, list | tuple) and len(spans) < len(listed)):
        return None
    strays = len(listed) - len(spans)
    notes = [f"trace: {strays} of {len(listed)} entries are no spans and are left out"] if strays else []
    tree, repairs = _tree(list(map(_link, _flat(spans))))
    beside = trace if isinstance(trace, Mapping) and trace is not spans[0] else {}
    info = {name: _opened(beside[name]) for name in (*names.INPUTS, *names.OUTPUTS) if beside.get(name) not in _EMPTY}
    return SpanTree(spans=tree, info=info, notes=(*notes, *repairs))


# -- the forms ---------------------------------------------------------------------------------------------------------


def _listed(trace: object) -> Sequence[Any]:
    """The entries of a trace that may be spans."""
    if isinstance(trace, list | tuple):
        return [span for part in trace for span in (exported_spans(part) or [part])]
    if not isinstance(trace, Mapping):
        return ()
    data = trace["data"] if isinstance(trace.get("data"), Mapping) else trace
    spans = _first(data, names.SPANS)
    return spans if isinstance(spans, list | tuple) else exported_spans(trace) or [trace]


def exported_spans(trace: object) -> list[Any]:
    """Return the spans in an object of OpenTelemetry's JSON export, none for anything else."""

    def below(parents: Iterable[object], *keys: str) -> list[Any]:
        lists = (_first(parent, keys) for parent in parents)
        return [part for parts in lists if isinstance(parts, list | tuple) for part in parts]

    return below(below(below([trace], "resourceSpans", "resource_spans"), "scopeSpans", "scope_spans"), "spans")


def _is_span(value: object) -> bool:
    """Whether it has a name, and children or an id that is a span's."""
    if not isinstance(value, Mapping) or "name" not in value:
        return False
    children = isinstance(_first(value, names.CHILDREN), list | tuple)
    return children or (bool(_id(value)) and any(name in value for name in names.OF_SPANS))


def _flat(roots: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The spans and those inside them, each of which then names its parent."""
    spans: list[Mapping[str, Any]] = []
    waiting = list(reversed(roots))
    while waiting:
        span = waiting.pop()
        spans.append(span)
        children = _first(span, names.CHILDREN)
        if isinstance(children, list | tuple) and children:
            own = _id(span) or f"#{len(spans)}"
            spans[-1] = {**span, "spanId": own}
            below = [{**child, "parentSpanId": own} for child in children if isinstance(child, Mapping)]
            waiting.extend(reversed(below))
    return spans


# -- one span ----------------------------------------------------------------------------------------------------------


def _link(value: Mapping[str, Any]) -> _Link:
    attributes = _with_messages(_attributes(value.get("attributes")))
    start, end = _time(value, names.STARTS), _time(value, names.ENDS)
    status, message = _status(value)
    read = names.READ | {"error"} if isinstance(value.get("error"), str) else names.READ
    inputs = _taken(value, names.INPUTS, attributes, names.INPUT_ATTRIBUTES)
    outputs = _taken(value, names.OUTPUTS, attributes, names.OUTPUT_ATTRIBUTES)
    kind = _kind(value, attributes)
    span = Span(
        name=" ".join(str(value.get("name") or "").split()) or "(unnamed)",
        kind=kind,
        status=status,
        message=message,
        start=start,
        seconds=(end - start) / 1e9 if start is not None and end is not None and end >= start else None,
        inputs=inputs,
        outputs=outputs,
        attributes=_tidy(attributes) | _others(value, read),
        events=_events(value.get("events")),
    )
    parent = _first(value, names.PARENTS) or ""
    parent = parent[-1] if isinstance(parent, list | tuple) else parent  # of all above it the nearest comes last
    return _Link(_id(value), str(parent), trace_of(value), span)


def trace_of(span: object) -> str:
    """Return the id of the trace that a span belongs to, "" if it names none."""
    return str(_first(span, names.TRACES) or _first(_first(span, ("context",)), names.TRACES) or "")


def _taken(span: Mapping[str, Any], keys: Sequence[str], attributes: dict[str, Any], named: Sequence[str]) -> Any:
    """The value of one of the `keys`, or of the first attribute of `named`; those that say the same are taken out."""
    values = [span[key] for key in keys if span.get(key) is not None]
    taken = _opened(next((value for value in values if value not in _EMPTY), values[0] if values else None))
    for name in [name for name in named if attributes.get(name) is not None]:
        # Two conventions say that it is JSON; elsewhere the text 17 is a text.
        is_json = attributes.get(name.replace(".value", ".mime_type")) == "application/json"
        value = _opened(attributes[name], surely=is_json or name.startswith("mlflow."))
        if taken is None or value == taken:
            taken = value
            del attributes[name]
    return taken


def _id(value: object) -> str:
    own = _first(value, names.IDS) or _first(_first(value, ("context",)), names.IDS) or _first(value, ("id",))
    return str(own) if isinstance(own, str | int) and not isinstance(own, bool) else ""


def _first(value: object, keys: Sequence[str]) -> Any:
    """The value of the first of these keys that an object has."""
    if not isinstance(value, Mapping):
        return None
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _kind(span: Mapping[str, Any], attributes: dict[str, Any]) -> str:
    for kind in (*(attributes.pop(name, None) for name in names.KIND_ATTRIBUTES), *map(span.get, names.KINDS)):
        word = names.OTEL_KINDS.get(kind, "") if isinstance(kind, int) else str(kind or "").strip('"')
        word = names.OPERATIONS.get(word, word.rpartition(".")[2].upper().removeprefix("SPAN_KIND_"))
        tidy = "".join(letter for letter in word if letter.isalnum() or letter in "_-")[:40]
        if tidy and tidy not in names.NO_KIND:
            return tidy
    return ""


def _status(span: Mapping[str, Any]) -> tuple[Literal["ok", "error", "unset"], str]:
    status = span.get("status", span)
    code = _first(status, ("code", "status_code", "level")) if isinstance(status, Mapping) else status
    message = str(_first(status, names.MESSAGES_OF_STATUS) or "")
    if isinstance(error := span.get("error"), str) and error:
        return "error", message or error
    word = str("" if code is None else code).upper().rpartition("_")[2].rpartition(".")[2]
    if word in names.STATUSES:
        return names.STATUSES[word], message
    return "unset", f"{code}: {message}" if message else str(code)  # a word of its own is shown as it is


def _events(value: object) -> tuple[dict[str, Any], ...]:
    """Those that do not say how good the run was, which would tell the judge the verdict."""
    events = [event for event in value if isinstance(event, Mapping)] if isinstance(value, list | tuple) else []
    return tuple(_event(event) for event in events if not str(event.get("name", "")).startswith(names.VERDICTS))


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    attributes = _tidy(_attributes(event.get("attributes")))
    named = {"name": str(event.get("name") or "event")} | ({"attributes": attributes} if attributes else {})
    return named | _others(event, read=("name", "attributes"))


def _others(value: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """The fields of a span or an event that are shown although no convention names them."""
    return _tidy({str(k): part for k, part in value.items() if k not in read and not names.HIDDEN.fullmatch(str(k))})


def _tidy(attributes: Mapping[str, Any]) -> dict[str, Any]:
    opened = {name: _opened(attributes[name]) for name in sorted(attributes) if not names.TRACERS.fullmatch(name)}
    return {name: value for name, value in opened.items() if value not in _EMPTY}


def _opened(value: object, *, surely: bool = False) -> Any:
    """The value itself where it is written as JSON inside a text, as most tracers write what a span was given."""
    return json_inside(value) if isinstance(value, str) and (surely or value[:1] in ("{", "[", '"')) else value


def _time(span: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    """Nanoseconds since the epoch; a number without its unit is taken for the one in which it is a time of our days."""
    key = next((key for key in keys if span.get(key) is not None), "")
    value = span.get(key)
    try:
        if isinstance(value, str):
            value = int(value) if value.isdecimal() else datetime.fromisoformat(value.strip()).timestamp()
    except (ValueError, OverflowError, OSError):  # no time, or one of a year that the system's clock does not know
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    if key.endswith(("Nano", "_nano", "_ns")):
        return int(value)
    factor = next((f for limit, f in ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000)) if value >= limit), 1_000_000_000)
    return int(value * factor) if isinstance(value, int) else round(value * factor)


def _attributes(value: object) -> dict[str, Any]:
    """The attributes of a span or an event by their names, whichever way they are written."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    pairs = value if isinstance(value, list | tuple) else ()
    return {str(p["key"]): _any_value(p.get("value")) for p in pairs if isinstance(p, Mapping) and "key" in p}


def _any_value(value: object) -> Any:
    """An OTLP AnyValue as plain JSON."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return value
    ((key, content),) = value.items()
    kind = str(key).replace("_v", "V")
    if kind == "intValue":  # a text, since JSON's numbers end at 2^53
        return int(content) if re.fullmatch(r"-?[0-9]{1,40}", str(content)) else content
    values = content.get("values", ()) if isinstance(content, Mapping) else None
    if kind in ("arrayValue", "kvlistValue") and isinstance(values, list | tuple):
        return [_any_value(part) for part in values] if kind == "arrayValue" else _attributes(values)
    return content if kind.endswith("Value") else value


def _with_messages(attributes: dict[str, Any]) -> dict[str, Any]:
    """The same, with one list in place of the roles and texts of messages that are spread over numbered names.

    OpenLLMetry writes `gen_ai.prompt.0.content`, OpenInference `llm.input_messages.0.message.content`.
    """
    lists: dict[str, dict[int, dict[str, Any]]] = {}
    others: dict[str, Any] = {}
    for name, value in attributes.items():
        numbered = _NUMBERED.fullmatch(name)
        messages = names.MESSAGES.get(numbered["list"]) if numbered else None
        if numbered is None or messages is None or messages in attributes:
            others[name] = value
        else:
            lists.setdefault(messages, {}).setdefault(int(numbered["place"]), {})[numbered["part"]] = value
    return others | {name: [messages[place] for place in sorted(messages)] for name, messages in lists.items()}


# -- the tree ----------------------------------------------------------------------------------------------------------


def _tree(links: Sequence[_Link]) -> tuple[tuple[Span, ...], list[str]]:
    """The spans, each below its parent and siblings by their start, and what had to be repaired for that."""
    places: dict[tuple[str, str], int] = {}
    twice = [n for n, link in enumerate(links) if link.id and places.setdefault((link.trace, link.id), n) != n]
    parents = [places.get((link.trace, link.parent)) if link.parent else None for link in links]
    starts = [link.span.start for link in links]
    by_start = sorted(range(len(links)), key=lambda n: (starts[n] is None, starts[n] or 0))
    children: dict[int | None, list[int]] = {}
    for n in by_start:
        children.setdefault(parents[n], []).append(n)
    spans: dict[int, Span] = {}
    # What no uppermost span leads to is in a circle, or below one: the first of it becomes uppermost.
    for root in (*children.get(None, ()), *by_start):
        # A stack, not recursion: an agent's loop nests thousands deep.
        waiting: list[tuple[int, str | None, int]] = [(root, None, 0)]
        while waiting:
            n, parent, depth = waiting.pop()
            if n not in spans:
                own = f"S{len(spans) + 1}"
                spans[n] = msgspec.structs.replace(links[n].span, id=own, parent=parent, depth=depth)
                waiting.extend((child, own, depth + 1) for child in reversed(children.get(n, ())))
    tops = [n for n in spans if links[n].parent and spans[n].parent is None]
    faults = {
        "have an id that another span has too; each is shown": twice,
        "name a parent that the trace does not hold; shown as uppermost": [n for n in tops if parents[n] is None],
        "are below themselves; shown as uppermost": [n for n in tops if parents[n] is not None],
    }
    notes = []
    for fault, faulty in faults.items():
        some = ", ".join(links[n].span.name[:40] for n in faulty[:_NAMED_IN_NOTES])
        some += ", …" if len(faulty) > _NAMED_IN_NOTES else ""
        notes += [f"trace: {len(faulty)} of {len(links)} spans ({some}) {fault}"] if faulty else []
    return tuple(spans.values()), notes
