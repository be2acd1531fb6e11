"""The forms in which traces are written, read into plain spans.

- OpenTelemetry's JSON export: resourceSpans → scopeSpans → spans, attributes as lists of key and value
  (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding);
- a list of spans, each with its id and its parent's;
- MLflow's trace: info and data.spans;
- spans with their children inside them.

What a span was given, what it returned and what kind of step it is stands in other attributes in each tracer's
convention: OpenTelemetry's for generative AI, OpenInference's, OpenLLMetry's, MLflow's (`span_names`, `span_attributes`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memalign.content import span_names
from memalign.content.inside import read_inside
from memalign.content.span_attributes import attributes_of, with_messages
from memalign.types import MAX_DEPTH

__all__ = ["RawSpan", "RawTrace", "exported_spans", "read_spans"]

_NOTHING: tuple[object, ...] = (None, "", [], {}, ())
_UNSET = ("", "0", "UNSET", "NONE")
# Python takes more for a digit than JSON does, and refuses to read thousands of them.
_NUMBER = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,40})?")


class RawSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span as it was read: its own id and its parent's ("" for none), and the fields of a `Span`."""

    id: str
    parent: str
    trace: str
    name: str
    start: int | None
    fields: dict[str, Any]

    def span(self, **place: Any) -> dict[str, Any]:
        """The fields of the `Span` at that place of the tree."""
        return {"name": self.name, "start": self.start} | self.fields | place


class RawTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The spans of a trace in the order in which they were written, and what is said of all of it."""

    spans: tuple[RawSpan, ...]
    info: dict[str, Any] = {}
    notes: tuple[str, ...] = ()


def read_spans(trace: object) -> RawTrace | None:
    """The spans of `trace`, or None where it is in no form that is known."""
    if isinstance(trace, str):
        trace = _parsed_text(trace)
    if isinstance(trace, Mapping):
        return _of_object(trace)
    if isinstance(trace, list | tuple) and trace:
        if all(isinstance(each, Mapping) and _resources(each) is not None for each in trace):
            return _trace([span for each in trace for span in exported_spans(each)])
        if all(_is_span(each) for each in trace):
            return _trace(trace)
        if all(_is_nested(each) for each in trace):
            return _trace(_flattened(trace), nested=True)
    return None


def _parsed_text(text: str) -> object:
    if text.lstrip()[:1] not in ("{", "[") or not ("pan" in text or "children" in text or "child_runs" in text):
        return None
    found = read_inside(text, deepest=3 * MAX_DEPTH)  # spans inside spans: what each holds is not nested as deep
    return None if isinstance(found, str) else found


def _of_object(trace: Mapping[str, Any]) -> RawTrace | None:
    if _resources(trace) is not None:
        return _trace(exported_spans(trace), info=_resource_info(trace) | _beside(trace))
    data = trace.get("data")
    held = data.get("spans") if isinstance(data, Mapping) else trace.get("spans")
    if isinstance(held, list | tuple) and held:
        nested = not any(_id(each) for each in held if isinstance(each, Mapping))
        info = _info(trace.get("info")) | _beside(data if isinstance(data, Mapping) else {}) | _beside(trace)
        return _trace(_flattened(held) if nested else held, info=info, nested=nested)
    if _is_nested(trace):
        return _trace(_flattened([trace]), nested=True)
    return _trace([trace]) if _is_span(trace) else None


def _trace(items: Sequence[object], *, info: dict[str, Any] | None = None, nested: bool = False) -> RawTrace | None:
    spans = [each for each in items if isinstance(each, Mapping)]
    if not spans:
        return None
    notes: tuple[str, ...] = ()
    if left := len(items) - len(spans):
        notes = (f"trace: {left} of {len(items)} entries are no spans and are left out",)
    return RawTrace(spans=tuple(_raw(each, nested=nested) for each in spans), info=info or {}, notes=notes)


# -- the forms -------------------------------------------------------------------------------------------------------------


def _resources(trace: Mapping[str, Any]) -> Sequence[Any] | None:
    held = trace.get("resourceSpans", trace.get("resource_spans"))
    return held if isinstance(held, list | tuple) else None


def exported_spans(trace: Mapping[str, Any]) -> list[object]:
    """The spans in an object of OpenTelemetry's JSON export."""
    found: list[object] = []
    for resource in _resources(trace) or ():
        scopes = _first(resource, ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"))
        for scope in scopes if isinstance(scopes, list | tuple) else ():
            spans = scope.get("spans") if isinstance(scope, Mapping) else None
            found.extend(spans if isinstance(spans, list | tuple) else ())
    return found


def _resource_info(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The service, of all that exporters say of the machine, the process and the library."""
    services: dict[str, None] = {}
    for each in _resources(trace) or ():
        resource = each.get("resource") if isinstance(each, Mapping) else None
        attributes = attributes_of(resource.get("attributes")) if isinstance(resource, Mapping) else {}
        if service := attributes.get("service.name"):
            services[str(service)] = None
    return {"service": ", ".join(services)} if services else {}


def _info(info: object) -> dict[str, Any]:
    """What MLflow says of a trace, without people's assessments of it: they would tell the judge the verdict."""
    if not isinstance(info, Mapping):
        return {}
    found = {name: info[name] for name in span_names.INFO if info.get(name) is not None}
    tags = info.get("tags")
    if isinstance(tags, Mapping) and (own := {k: v for k, v in tags.items() if not str(k).startswith("mlflow.")}):
        found["tags"] = own
    return found


def _beside(held: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside the spans: what the run was given and returned, where a tracer tells it of the whole."""
    return {
        str(name): _opened(each)
        for name, each in held.items()
        if name not in span_names.BESIDE and each not in _NOTHING
    }


def _is_span(value: object) -> bool:
    """Whether a span stands by itself, with an id."""
    if not isinstance(value, Mapping) or "name" not in value or any(name in value for name in span_names.CHILDREN):
        return False
    return bool(_id(value)) and (
        "id" not in value
        or any(name in value for name in (*span_names.IDS, *span_names.PARENTS, *span_names.STARTS, *span_names.TRACES))
    )


def _is_nested(value: object) -> bool:
    return (
        isinstance(value, Mapping)
        and "name" in value
        and any(isinstance(value.get(n), list | tuple) for n in span_names.CHILDREN)
    )


def _flattened(roots: Sequence[object]) -> list[object]:
    """Spans that hold their children, each as a span that names its parent; ids are ours, so that none comes twice."""
    found: list[object] = []
    waiting: list[tuple[object, str]] = [(root, "") for root in reversed(roots)]
    while waiting:
        value, parent = waiting.pop()
        if not isinstance(value, Mapping):
            found.append(value)
            continue
        own = f"#{len(found)}"
        found.append({**value, "span_id": own, "parent_span_id": parent})
        below = _first(value, span_names.CHILDREN)
        waiting.extend((child, own) for child in reversed(below if isinstance(below, list | tuple) else ()))
    return found


# -- one span --------------------------------------------------------------------------------------------------------------


def _raw(value: Mapping[str, Any], *, nested: bool) -> RawSpan:
    attributes = with_messages(attributes_of(value.get("attributes")))
    context = value.get("context")
    outer = context if isinstance(context, Mapping) else {}
    own = _Left(value)
    start, end = own.moment(span_names.STARTS), own.moment(span_names.ENDS)
    status, message = _status(own)
    inputs = _taken(own, span_names.INPUTS, attributes, span_names.INPUT_ATTRIBUTES)
    outputs = _taken(own, span_names.OUTPUTS, attributes, span_names.OUTPUT_ATTRIBUTES)
    kind = _kind(own, attributes)
    events = own.take("events", list | tuple) or ()
    trace = "" if nested else _first(value, span_names.TRACES) or _first(outer, span_names.TRACES)
    return RawSpan(
        id=_id(value),
        parent=str(_first(value, span_names.PARENTS) or ""),
        trace=str(trace or ""),
        name=" ".join(str(value.get("name") or "").split()) or "(unnamed)",
        start=start,
        fields={
            "kind": kind,
            "status": status,
            "message": message,
            "seconds": (end - start) / 1e9 if start is not None and end is not None and end >= start else None,
            "inputs": inputs,
            "outputs": outputs,
            "attributes": _rest(own, attributes),
            "events": tuple(_event(each) for each in events if each not in _NOTHING and not _is_verdict(each)),
        },
    )


class _Left:
    """The keys of a span that were not read yet."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.keys = {
            str(name): each
            for name, each in value.items()
            if name not in span_names.PLACE and name not in span_names.BOOKKEEPING
        }

    def take(self, name: str, kind: Any) -> Any:
        """What stands under `name` where it is of that kind; anything else is left."""
        return self.keys.pop(name) if isinstance(self.keys.get(name), kind) else None

    def first(self, names: Sequence[str]) -> Any:
        """What stands under the first of `names` that holds something, or that holds at least an empty one."""
        full = [name for name in names if self.keys.get(name) not in _NOTHING]
        empty = [name for name in names if self.keys.get(name) is not None]
        return self.keys.pop((full or empty)[0]) if empty else None

    def moment(self, names: Sequence[str]) -> int | None:
        """The time under the first of `names` that has one; what cannot be read is left."""
        found = {name: moment for name in names if (moment := _moment(name, self.keys.get(name))) is not None}
        for name in found:
            del self.keys[name]
        return next(iter(found.values()), None)


def _rest(own: _Left, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What is left of a span to show: its attributes, and keys of its own that are known to no convention."""
    keys = own.keys
    held, context = keys.pop("attributes", None), keys.get("context")
    for name in span_names.CHILDREN:
        own.take(name, list | tuple)
    if isinstance(context, Mapping):
        keys["context"] = {name: each for name, each in context.items() if name not in span_names.OF_CONTEXT}
    if isinstance(held, list | tuple):
        held = [each for each in held if not (isinstance(each, Mapping) and "key" in each)]
    if not isinstance(held, Mapping):
        keys["attributes"] = held
    found = {name: each for name, each in attributes.items() if name not in span_names.TRACERS}
    for name, each in keys.items():
        found[name if found.get(name, each) == each else f"{name} of the span"] = each
    return {name: opened for name, each in sorted(found.items()) if (opened := _opened(each)) not in _NOTHING}


def _taken(own: _Left, names: Sequence[str], attributes: dict[str, Any], named: Sequence[str]) -> Any:
    """What stands under one of `names`, or in the first attribute of `named`; these say the same, and are taken out."""
    found = _opened(own.first(names))
    for name in named:
        if attributes.get(name) is None:
            continue
        # Two conventions say that it is JSON; elsewhere the text 17 is a text.
        mime = attributes.get(name.replace(".value", ".mime_type"))
        held = _opened(attributes[name], surely=name.startswith("mlflow.") or mime == "application/json")
        if found is None or held == found:
            found = held
            del attributes[name]
    return found


def _id(value: Mapping[str, Any]) -> str:
    context = value.get("context")
    found = (
        _first(value, span_names.IDS)
        or (_first(context, span_names.IDS) if isinstance(context, Mapping) else None)
        or value.get("id")
    )
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else ""


def _first(value: object, names: Sequence[str]) -> Any:
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in names if value.get(name) is not None), None)


def _kind(own: _Left, attributes: dict[str, Any]) -> str:
    said = [attributes.pop(name, None) for name in span_names.KIND_ATTRIBUTES]
    for each in (*said, *(own.take(name, str | int) for name in span_names.KINDS)):
        if isinstance(each, bool) or not isinstance(each, str | int):
            continue
        word = span_names.OTEL_KINDS.get(each, "") if isinstance(each, int) else each.strip('"').rpartition(".")[2]
        word = span_names.OPERATIONS.get(word, word.upper().removeprefix("SPAN_KIND_"))
        tidy = "".join(letter for letter in word if letter.isalnum() or letter in "_-")[:40]
        if tidy and tidy not in span_names.NO_KIND:
            return tidy
    return ""


def _status(own: _Left) -> tuple[str, str]:
    status = own.take("status", str | int | Mapping)
    if status is None:
        status = {name: own.take(name, str | int) for name in ("status_code", "status_message")}
    code, message = status, ""
    if isinstance(status, Mapping):
        code = _first(status, ("code", "status_code"))
        message = str(_first(status, ("message", "description", "status_message")) or "")
        read = ("code", "status_code", "message", "description", "status_message")
        own.keys["status"] = {name: each for name, each in status.items() if name not in read}
    error = own.keys.get("error")
    if isinstance(error, str) and error:
        code, message = "ERROR", message or error
    word = str(code if code is not None else "").upper().rpartition("_")[2].rpartition(".")[2]
    named = {"1": "ok", "OK": "ok", "SUCCESS": "ok", "2": "error", "ERROR": "error", "FAILED": "error"}
    if word not in named and word not in _UNSET:  # a word of its own is shown as it stands
        message = f"{code}: {message}" if message else str(code)
    return named.get(word, "unset"), message


def _opened(value: object, *, surely: bool = False) -> Any:
    """The value itself where it stands as JSON inside a text, as most tracers write what a span was given."""
    if isinstance(value, str) and (surely or value[:1] in ("{", "[", '"')):
        return read_inside(value)
    return value


def _is_verdict(event: object) -> bool:
    """Whether it says how good the run was, which would tell the judge the verdict."""
    return isinstance(event, Mapping) and str(event.get("name", "")).startswith(span_names.VERDICTS)


def _event(event: object) -> dict[str, Any]:
    if not isinstance(event, Mapping):
        return {"name": "event", "value": event}
    attributes = {name: _opened(value) for name, value in sorted(attributes_of(event.get("attributes")).items())}
    rest = {
        str(name): _opened(each)
        for name, each in event.items()
        if name not in span_names.OF_EVENTS and each not in _NOTHING
    }
    return {"name": str(event.get("name") or "event")} | ({"attributes": attributes} if attributes else {}) | rest


def _moment(name: str, value: object) -> int | None:
    """Nanoseconds since the epoch; a number without its unit is taken for the one in which it is a time of our days."""
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            return _written(text)
        value = float(text) if "." in text else int(text)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        return None
    if name.endswith(("Nano", "_nano", "_ns")):
        return int(value)
    factor = next((f for limit, f in ((1e17, 1), (1e14, 1_000), (1e11, 1_000_000)) if value >= limit), 1_000_000_000)
    return int(value * factor) if isinstance(value, int) else round(value * factor)


def _written(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1_000
    except (ValueError, OverflowError, OSError):  # no time, or one of a year that the system's clock does not know
        return None
