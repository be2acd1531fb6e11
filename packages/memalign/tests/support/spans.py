"""The same run written in every form in which tracers write it, and runs of any shape."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import strategies as st


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a run as a test thinks of it; `parent` is the place of its parent,
    None for the uppermost."""

    parent: int | None
    name: str = "step"
    kind: str = ""
    failed: bool = False
    start: int = 0
    seconds: float = 0.0
    inputs: Any = None
    outputs: Any = None
    attributes: dict[str, Any] = {}

    @property
    def end(self) -> int:
        return self.start + round(self.seconds * 1e9)


def otlp(steps: list[Step]) -> dict[str, Any]:
    """OpenTelemetry's JSON export, spread over two resources."""

    spans = []
    for number, step in enumerate(steps):
        held: dict[str, Any] = dict(step.attributes)
        if step.kind:
            held["openinference.span.kind"] = step.kind
        for name, value in (("input", step.inputs), ("output", step.outputs)):
            held[f"{name}.mime_type"] = "application/json"
            if value is not None:
                held[f"{name}.value"] = json.dumps(value)
        span = {
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": f"{number + 1:016x}",
            "parentSpanId": "" if step.parent is None else f"{step.parent + 1:016x}",
            "name": step.name,
            "kind": 1,
            "startTimeUnixNano": str(step.start),
            "endTimeUnixNano": str(step.end),
            "attributes": _key_values(held),
            "status": {"code": 2} if step.failed else {},
        }
        spans.append(span)
    middle = len(spans) // 2
    first = {"scopeSpans": [{"spans": spans[:middle]}]}
    second = {"scopeSpans": [{"spans": spans[middle:]}]}
    return {"resourceSpans": [first, second]}


_VALUES = {bool: "boolValue", float: "doubleValue", str: "stringValue"}


def _key_values(held: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any_value(value)} for key, value in held.items()]


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case list():
            return {"arrayValue": {"values": [_any_value(each) for each in value]}}
        case dict():
            return {"kvlistValue": {"values": _key_values(value)}}
        case bool() | float() | str():
            return {_VALUES[type(value)]: value}
    return {"intValue": str(value)}


def flat(steps: list[Step]) -> list[dict[str, Any]]:
    """A list of spans, as home-made tracers write them."""
    spans = []
    for number, step in enumerate(steps):
        span = {
            "span_id": f"s-{number}",
            "parent_id": None if step.parent is None else f"s-{step.parent}",
            "name": step.name,
            "type": step.kind,
            "status": "ERROR" if step.failed else "UNSET",
            "start_time": step.start,
            "end_time": step.end,
            "inputs": step.inputs,
            "outputs": step.outputs,
            "attributes": step.attributes,
        }
        spans.append(span)
    return spans


def mlflow(steps: list[Step]) -> dict[str, Any]:
    """MLflow's trace, with what people said of it."""
    spans = []
    for number, step in enumerate(steps):
        attributes = {
            "mlflow.traceRequestId": '"tr-1"',
            "mlflow.spanType": json.dumps(step.kind or "UNKNOWN"),
        }
        if step.inputs is not None:
            attributes["mlflow.spanInputs"] = json.dumps(step.inputs)
        if step.outputs is not None:
            attributes["mlflow.spanOutputs"] = json.dumps(step.outputs)
        status = "STATUS_CODE_ERROR" if step.failed else "STATUS_CODE_UNSET"
        span: dict[str, Any] = {
            "trace_id": "W473",
            "span_id": f"{number:x}A==",
            "parent_span_id": None if step.parent is None else f"{step.parent:x}A==",
            "name": step.name,
            "start_time_unix_nano": step.start,
            "end_time_unix_nano": step.end,
            "status": {"code": status, "message": ""},
            "events": [],
            "attributes": attributes | step.attributes,
        }
        spans.append(span)
    said = {"name": "good", "feedback": {"value": False}}
    return {
        "info": {"trace_id": "tr-1", "assessments": [said]},
        "data": {"spans": spans},
    }


FORMS = {"otlp": otlp, "flat": flat, "mlflow": mlflow}

_texts = st.text(max_size=12)
_plain = _texts.filter(lambda text: text[:1] not in ("{", "[", '"'))
_anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _plain,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(_texts, inner, max_size=2)
    ),
    max_leaves=4,
)
_attributes = st.dictionaries(
    st.sampled_from(["model", "temperature.set"]), st.integers(1, 9), max_size=2
)
# A number alone is a text where tracers write JSON inside a text.
_json = (
    st.none()
    | st.lists(_anything, max_size=2)
    | st.dictionaries(_texts, _anything, max_size=2)
    | _plain
)


@st.composite
def runs(draw: st.DrawFn, *, most: int = 8) -> list[Step]:
    """Runs of any shape; every step starts later than the one before."""
    steps = []
    for number in range(draw(st.integers(1, most))):
        step = st.builds(
            Step,
            parent=st.none() | st.integers(0, number - 1) if number else st.none(),
            name=st.sampled_from(["agent", "look up", "chat", "größe"]),
            kind=st.sampled_from(["", "LLM", "TOOL", "AGENT"]),
            failed=st.booleans(),
            start=st.just(1_700_000_000_000_000_000 + number * 1_000_000),
            seconds=st.integers(0, 50).map(lambda tenths: tenths / 10),
            inputs=_json,
            outputs=_json,
            attributes=_attributes,
        )
        steps.append(draw(step))
    return steps
