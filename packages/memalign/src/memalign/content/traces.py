"""A trace as a tree of spans, whatever of the usual forms it was written in.

- OpenTelemetry's JSON export: resourceSpans → scopeSpans → spans, attributes as lists of key and value
  (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding);
- a list of spans, each with its id and its parent's;
- MLflow's trace: info and data.spans;
- spans with their children inside them.

Every tracer writes what a span was given, what it returned and what kind of step it is into attributes of its own
convention: OpenTelemetry's for generative AI, OpenInference's, OpenLLMetry's, MLflow's (`trace_names`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

import msgspec

from memalign.content import trace_names as names
from memalign.content.encoding import json_inside
from memalign.types import MAX_DEPTH

__all__ = ["Span", "SpanTree", "exported_spans", "span_tree"]

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
        events: Each with its name, attributes and other keys.
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
        info: What is said of the whole trace.
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

    def span(self, span_id: str) -> Span | None:
        """The span of that id (`S3`), or None."""
        return next((span for span in self.spans if span.id == span_id), None)


class _Link(NamedTuple):
    """A span before it has its place: the ids that the tracer gave it, its parent and its trace ("" for none)."""

    id: str
    parent: str
    trace: str
    span: Span


def span_tree(trace: object) -> SpanTree | None:
    """The spans of a trace as a tree.

    A span whose parent is missing becomes one of the uppermost; a circle is opened; of ids that come twice, the second
    span is kept too. `notes` say so.

    Args:
        trace: One of the forms above, as JSON values or as their text.

    Returns:
        None for anything else: other JSON and plain text are judged as they stand.
    """
    if isinstance(trace, str):
        trace = _parsed(trace)
    spans, info = _spans_and_info(trace)
    links = [_link(span) for span in spans if isinstance(span, Mapping)]
    if not links:
        return None
    notes = []
    if strays := len(spans) - len(links):
        notes.append(f"trace: {strays} of {len(spans)} entries are no spans and are left out")
    tree, repairs = _tree(links)
    return SpanTree(spans=tree, info=info, notes=(*notes, *repairs))


# -- the forms ---------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> object:
    if text.lstrip()[:1] not in ("{", "[") or not ("pan" in text or "children" in text or "child_runs" in text):
        return None
    return json_inside(text, deepest=3 * MAX_DEPTH)  # of spans inside spans, what each holds is not nested as deep


def _spans_and_info(trace: object) -> tuple[Sequence[object], dict[str, Any]]:
    """The spans in any of the forms, and what is said of all of the trace; no spans where it is in none of them."""
    if isinstance(trace, list | tuple) and trace:
        if all(_resources(part) is not None for part in trace):
            return [span for part in trace for span in exported_spans(part)], {}
        if all(_is_span(part) for part in trace):
            return trace, {}
        return (_flattened(trace), {}) if all(_has_children(part) for part in trace) else ((), {})
    if not isinstance(trace, Mapping):
        return (), {}
    if _resources(trace) is not None:
        return exported_spans(trace), _beside(trace)
    data = trace["data"] if isinstance(trace.get("data"), Mapping) else {}
    spans = data.get("spans", trace.get("spans"))
    if isinstance(spans, list | tuple) and spans:
        nested = not any(_id(span) for span in spans)
        return _flattened(spans) if nested else spans, _beside(data) | _beside(trace)
    if _has_children(trace):
        return _flattened([trace]), {}
    return ([trace], {}) if _is_span(trace) else ((), {})


def _resources(trace: object) -> Sequence[Any] | None:
    value = _first(trace, ("resourceSpans", "resource_spans"))
    return value if isinstance(value, list | tuple) else None


def exported_spans(trace: Mapping[str, Any]) -> list[object]:
    """The spans in an object of OpenTelemetry's JSON export."""
    spans: list[object] = []
    for resource in _resources(trace) or ():
        scopes = _first(resource, ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"))
        for scope in scopes if isinstance(scopes, list | tuple) else ():
            exported = _first(scope, ("spans",))
            spans.extend(exported if isinstance(exported, list | tuple) else ())
    return spans


def _beside(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The other keys of a trace: what the run was given and returned, where a tracer says it of the whole."""
    return {
        name: _opened(value) for name, value in trace.items() if name not in names.TRACE_KEYS and value not in _EMPTY
    }


def _is_span(value: object) -> bool:
    """Whether it is a span by itself, with an id that is a span's."""
    if not isinstance(value, Mapping) or "name" not in value or any(name in value for name in names.CHILDREN):
        return False
    own = (*names.IDS, *names.PARENTS, *names.STARTS, *names.TRACES)
    return bool(_id(value)) and ("id" not in value or any(name in value for name in own))


def _has_children(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and "name" in value
        and any(isinstance(value.get(name), list | tuple) for name in names.CHILDREN)
    )


def _flattened(roots: Sequence[object]) -> list[object]:
    """Spans that hold their children, each as a span that names its parent; ids are ours, so that none comes twice."""
    spans: list[object] = []
    waiting: list[tuple[object, str]] = [(root, "") for root in reversed(roots)]
    while waiting:
        value, parent = waiting.pop()
        if isinstance(value, Mapping):
            own = f"#{len(spans)}"
            children = _first(value, names.CHILDREN)
            waiting.extend((child, own) for child in reversed(children if isinstance(children, list | tuple) else ()))
            value = {k: v for k, v in value.items() if k not in names.TRACES} | {"spanId": own, "parentSpanId": parent}
        spans.append(value)
    return spans


# -- one span ----------------------------------------------------------------------------------------------------------


def _link(value: Mapping[str, Any]) -> _Link:
    attributes = _with_messages(_attributes(value.get("attributes")))
    start, end = _time(value, names.STARTS), _time(value, names.ENDS)
    status, message = _status(value)
    inputs = _taken(value, names.INPUTS, attributes, names.INPUT_ATTRIBUTES)
    outputs = _taken(value, names.OUTPUTS, attributes, names.OUTPUT_ATTRIBUTES)
    kind = _kind(value, attributes)
    events = value.get("events")
    others = {name: part for name, part in attributes.items() if name not in names.TRACERS}
    others |= {str(name): part for name, part in value.items() if name not in names.SPAN_KEYS}
    span = Span(
        name=" ".join(str(value.get("name") or "").split()) or "(unnamed)",
        kind=kind,
        status=status,
        message=message,
        start=start,
        seconds=(end - start) / 1e9 if start is not None and end is not None and end >= start else None,
        inputs=inputs,
        outputs=outputs,
        attributes={name: part for name in sorted(others) if (part := _opened(others[name])) not in _EMPTY},
        events=tuple(map(_event, filter(_is_shown, events if isinstance(events, list | tuple) else ()))),
    )
    trace = _first(value, names.TRACES) or _first(value.get("context"), names.TRACES) or ""
    return _Link(_id(value), str(_first(value, names.PARENTS) or ""), str(trace), span)


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
    context = _first(value, ("context",))
    own = _first(value, names.IDS) or _first(context, names.IDS) or _first(value, ("id",))
    return str(own) if isinstance(own, str | int) and not isinstance(own, bool) else ""


def _first(value: object, keys: Sequence[str]) -> Any:
    """The value of the first of these keys that an object has."""
    if not isinstance(value, Mapping):
        return None
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _kind(span: Mapping[str, Any], attributes: dict[str, Any]) -> str:
    for kind in (*(attributes.pop(name, None) for name in names.KIND_ATTRIBUTES), *map(span.get, names.KINDS)):
        if isinstance(kind, bool) or not isinstance(kind, str | int):
            continue
        word = names.OTEL_KINDS.get(kind, "") if isinstance(kind, int) else kind.strip('"').rpartition(".")[2]
        word = names.OPERATIONS.get(word, word.upper().removeprefix("SPAN_KIND_"))
        tidy = "".join(letter for letter in word if letter.isalnum() or letter in "_-")[:40]
        if tidy and tidy not in names.NO_KIND:
            return tidy
    return ""


def _status(span: Mapping[str, Any]) -> tuple[Literal["ok", "error", "unset"], str]:
    status = span.get("status", span)
    code = _first(status, ("code", "status_code")) if isinstance(status, Mapping) else status
    message = str(_first(status, ("message", "description", "status_message")) or "")
    error = span.get("error")
    if isinstance(error, str) and error:
        code, message = "ERROR", message or error
    word = str("" if code is None else code).upper().rpartition("_")[2].rpartition(".")[2]
    if word in ("1", "OK", "SUCCESS"):
        return "ok", message
    if word in ("2", "ERROR", "FAILED"):
        return "error", message
    if word not in ("", "0", "UNSET", "NONE"):  # a word of its own is shown as it is
        message = f"{code}: {message}" if message else str(code)
    return "unset", message


def _is_shown(event: object) -> bool:
    """Whether it is an event, and does not say how good the run was, which would tell the judge the verdict."""
    return isinstance(event, Mapping) and not str(event.get("name", "")).startswith(names.VERDICTS)


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {name: _opened(value) for name, value in sorted(_attributes(event.get("attributes")).items())}
    others = {str(key): _opened(v) for key, v in event.items() if key not in names.EVENT_KEYS and v not in _EMPTY}
    return {"name": str(event.get("name") or "event")} | ({"attributes": attributes} if attributes else {}) | others


def _opened(value: object, *, surely: bool = False) -> Any:
    """The value itself where it is written as JSON inside a text, as most tracers write what a span was given."""
    return json_inside(value) if isinstance(value, str) and (surely or value[:1] in ("{", "[", '"')) else value


def _time(span: Mapping[str, Any], keys: Sequence[str]) -> int | None:
    times = (_nanoseconds(key, span.get(key)) for key in keys)
    return next((time for time in times if time is not None), None)


def _nanoseconds(key: str, value: object) -> int | None:
    """Since the epoch; a number without its unit is taken for the one in which it is a time of our days."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return _from_iso(str(value))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    if key.endswith(("Nano", "_nano", "_ns")):
        return int(value)
    factor = next((f for limit, f in ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000)) if value >= limit), 1_000_000_000)
    return int(value * factor) if isinstance(value, int) else round(value * factor)


def _from_iso(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text.strip())
        return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1_000
    except (ValueError, OverflowError, OSError):  # no time, or one of a year that the system's clock does not know
        return None


def _attributes(value: object) -> dict[str, Any]:
    """The attributes of a span, an event or a resource by their names, whichever way they are written."""
    if isinstance(value, Mapping):
        return {str(name): part for name, part in value.items()}
    pairs = value if isinstance(value, list | tuple) else ()
    return {str(p["key"]): _any_value(p.get("value")) for p in pairs if isinstance(p, Mapping) and "key" in p}


def _any_value(value: object) -> Any:
    """An OTLP AnyValue as plain JSON; writers of columns name the other kinds too, with null."""
    kinds = [pair for pair in value.items() if pair[1] is not None] if isinstance(value, Mapping) else []
    if len(kinds) != 1:
        return value
    kind, content = str(kinds[0][0]).replace("_v", "V"), kinds[0][1]
    if kind in ("stringValue", "boolValue", "doubleValue", "bytesValue"):
        return content
    if kind == "intValue":  # a text, since JSON's numbers end at 2^53
        return int(content) if re.fullmatch(r"-?[0-9]{1,40}", str(content)) else content
    values = content.get("values", ()) if isinstance(content, Mapping) else None
    if kind not in ("arrayValue", "kvlistValue") or not isinstance(values, list | tuple):
        return content if kind in ("arrayValue", "kvlistValue") else value
    return [_any_value(part) for part in values] if kind == "arrayValue" else _attributes(values)


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
    orphans = [n for n, link in enumerate(links) if link.parent and parents[n] is None]
    starts = [link.span.start for link in links]
    by_start = sorted(range(len(links)), key=lambda n: (starts[n] is None, starts[n] or 0))
    children: dict[int | None, list[int]] = {}
    for n in by_start:
        children.setdefault(parents[n], []).append(n)
    spans: list[Span] = []
    placed, circles = set[int](), list[int]()
    # What no uppermost span leads to is in a circle, or below one: the circle is opened above one of its spans.
    for root in (*children.get(None, ()), *by_start):
        if root not in placed and parents[root] is not None:
            way, above = set[int](), parents[root]
            while above is not None and above not in way:
                way.add(above)
                above = parents[above]
            root = root if above is None else above  # noqa: PLW2901  # one of the circle that it is below
            circles.append(root)
        # A stack, not recursion: an agent's loop nests thousands deep.
        waiting: list[tuple[int, str | None, int]] = [(root, None, 0)]
        while waiting:
            n, parent, depth = waiting.pop()
            if n not in placed:
                placed.add(n)
                span = msgspec.structs.replace(links[n].span, id=f"S{len(spans) + 1}", parent=parent, depth=depth)
                spans.append(span)
                waiting.extend((child, span.id, depth + 1) for child in reversed(children.get(n, ())))
    notes = []
    for faulty, fault in (
        (twice, "have an id that another span has too; each is shown"),
        (orphans, "name a parent that the trace does not hold; shown as uppermost"),
        (circles, "are below themselves; shown as uppermost"),
    ):
        if faulty:
            some = ", ".join(links[n].span.name[:40] for n in faulty[:_NAMED_IN_NOTES])
            more = f" and {len(faulty) - _NAMED_IN_NOTES} more" if len(faulty) > _NAMED_IN_NOTES else ""
            notes.append(f"trace: {len(faulty)} of {len(links)} spans ({some}{more}) {fault}")
    return tuple(spans), notes
