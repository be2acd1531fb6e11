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


def otlp(steps: list[Step]) -> dict[str, Any]:
    """OpenTelemetry's JSON export, spread over two resources."""

    def span(number: int, step: Step) -> dict[str, Any]:
        held: dict[str, Any] = dict(step.attributes)
        if step.kind:
            held["openinference.span.kind"] = step.kind
        for name, value in (("input", step.inputs), ("output", step.outputs)):
            held |= {f"{name}.mime_type": "application/json"}
            held |= {f"{name}.value": json.dumps(value)} if value is not None else {}
        return {
            "traceId": "5b8efff798038103d269b633813fc60c",
            "spanId": f"{number + 1:016x}",
            "parentSpanId": "" if step.parent is None else f"{step.parent + 1:016x}",
            "name": step.name,
            "kind": 1,
            "startTimeUnixNano": str(step.start),
            "endTimeUnixNano": str(step.start + round(step.seconds * 1e9)),
            "attributes": [
                {"key": key, "value": _any_value(value)} for key, value in held.items()
            ],
            "status": {"code": 2} if step.failed else {},
        }

    spans = [span(number, step) for number, step in enumerate(steps)]
    middle = len(spans) // 2
    return {
        "resourceSpans": [
            {"scopeSpans": [{"spans": part}]}
            for part in (spans[:middle], spans[middle:])
        ]
    }


_VALUES = {bool: "boolValue", float: "doubleValue", str: "stringValue"}


def _any_value(value: Any) -> dict[str, Any]:
    match value:
        case list():
            return {"arrayValue": {"values": [_any_value(each) for each in value]}}
        case dict():
            return {
                "kvlistValue": {
                    "values": [
                        {"key": k, "value": _any_value(v)} for k, v in value.items()
                    ]
                }
            }
    return (
        {_VALUES[type(value)]: value}
        if type(value) in _VALUES
        else {"intValue": str(value)}
    )


def flat(steps: list[Step]) -> list[dict[str, Any]]:
    """A list of spans, as home-made tracers write them."""
    return [
        {
            "span_id": f"s-{number}",
            "parent_id": None if step.parent is None else f"s-{step.parent}",
            "name": step.name,
            "type": step.kind,
            "status": "ERROR" if step.failed else "UNSET",
            "start_time": step.start,
            "end_time": step.start + round(step.seconds * 1e9),
            "inputs": step.inputs,
            "outputs": step.outputs,
            "attributes": step.attributes,
        }
        for number, step in enumerate(steps)
    ]


def mlflow(steps: list[Step]) -> dict[str, Any]:
    """MLflow's trace, with what people said of it."""
    return {
        "info": {
            "trace_id": "tr-1",
            "assessments": [{"name": "good", "feedback": {"value": False}}],
        },
        "data": {
            "spans": [
                {
                    "trace_id": "W473",
                    "span_id": f"{number:x}A==",
                    "parent_span_id": None
                    if step.parent is None
                    else f"{step.parent:x}A==",
                    "name": step.name,
                    "start_time_unix_nano": step.start,
                    "end_time_unix_nano": step.start + round(step.seconds * 1e9),
                    "status": {
                        "code": "STATUS_CODE_ERROR"
                        if step.failed
                        else "STATUS_CODE_UNSET",
                        "message": "",
                    },
                    "events": [],
                    "attributes": {
                        "mlflow.traceRequestId": '"tr-1"',
                        "mlflow.spanType": json.dumps(step.kind or "UNKNOWN"),
                        **(
                            {}
                            if step.inputs is None
                            else {"mlflow.spanInputs": json.dumps(step.inputs)}
                        ),
                        **(
                            {}
                            if step.outputs is None
                            else {"mlflow.spanOutputs": json.dumps(step.outputs)}
                        ),
                        **step.attributes,
                    },
                }
                for number, step in enumerate(steps)
            ]
        },
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
    count = draw(st.integers(1, most))
    return [
        Step(
            parent=draw(st.none() | st.integers(0, number - 1)) if number else None,
            name=draw(st.sampled_from(["agent", "look up", "chat", "größe"])),
            kind=draw(st.sampled_from(["", "LLM", "TOOL", "AGENT"])),
            failed=draw(st.booleans()),
            start=1_700_000_000_000_000_000 + number * 1_000_000,
            seconds=draw(st.integers(0, 50)) / 10,
            inputs=draw(_json),
            outputs=draw(_json),
            attributes=draw(
                st.dictionaries(
                    st.sampled_from(["model", "temperature.set"]),
                    st.integers(1, 9),
                    max_size=2,
                )
            ),
        )
        for number in range(count)
    ]
