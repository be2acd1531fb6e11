"""What a judge reads of traces. Each trace is one case, or for a judge of conversations each session.

A session goes by its first trace: MLflow keeps there what people say of a session. Each annotation names the session in
`meta`, so that it stays one case when a trace before its first comes to light.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from memalign.content import shown_spans
from memalign.content.json_values import opened
from memalign.content.normal import whole_text
from memalign.memory import Memory
from memalign.types import Example

_SESSION = "mlflow.session"
_NOTHING = {
    "inputs": "(the application logged no inputs)",
    "outputs": "(the application gave no outputs)",  # it crashed, and people say so
}


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is judged as one: the id of its case, its traces in order of time, and what an annotation keeps of it."""

    case_id: str
    traces: list[Any]
    meta: dict[str, str]


def items_of(
    traces: Iterable[Any], fields: Collection[str], memory: Memory | None = None
) -> list[Item]:
    """What a judge of these fields judges of these traces. A trace given twice counts once."""
    unique = {trace.info.trace_id: trace for trace in traces}
    if "conversation" not in fields:
        return [
            Item(case_id=trace_id, traces=[trace], meta={}) for trace_id, trace in unique.items()
        ]
    memorized = {} if memory is None else _sessions_in(memory)
    sessions: dict[str, list[Any]] = {}
    for trace in sorted(unique.values(), key=lambda trace: trace.info.timestamp_ms):
        sessions.setdefault(_session_of(trace) or trace.info.trace_id, []).append(trace)
    return [
        Item(
            case_id=memorized.get(name, turns[0].info.trace_id), traces=turns, meta={_SESSION: name}
        )
        for name, turns in sessions.items()
    ]


def cases_of(traces: Iterable[Any], memory: Memory) -> tuple[list[str], list[str]]:
    """Ids of the cases in `memory` for which these traces (or ids of traces) stand, and of those for none."""
    sessions = _sessions_in(memory)
    cases, strangers = dict[str, None](), dict[str, None]()
    for trace in traces:
        trace_id = trace if isinstance(trace, str) else trace.info.trace_id
        session = None if isinstance(trace, str) else sessions.get(_session_of(trace) or "")
        case_id = trace_id if memory.case(trace_id) else session
        (strangers if case_id is None else cases)[case_id or trace_id] = None
    return list(cases), list(strangers)


def _sessions_in(memory: Memory) -> dict[str, str]:
    """The ids of cases by their sessions."""
    return {
        entry.meta[_SESSION]: entry.id for entry in memory.annotations() if _SESSION in entry.meta
    }


def _session_of(trace: Any) -> str | None:
    return trace.info.trace_metadata.get("mlflow.trace.session") or None


# -- what a judge reads ------------------------------------------------------------------------------------------------


def examples_of(traces: Iterable[Any], fields: Collection[str]) -> Iterator[Example]:
    """The cases of traces that have all `fields`."""
    for item in items_of(traces, fields):
        content = content_of(item.traces, fields)
        if all(name in content for name in fields):
            yield Example(id=item.case_id, **content)


def content_of(traces: list[Any], fields: Iterable[str], base: Any = None) -> dict[str, Any]:
    """The fields that an item's traces have: inputs and outputs of the root span, what people expect, the spans, turns.

    Of a session it is the turns in order, as MLflow's judge `base` reads them.
    """
    wanted, content = set(fields), dict[str, Any]()
    if "conversation" in wanted:
        from mlflow.genai.utils.trace_utils import resolve_conversation_from_session

        flags = ("include_tool_calls", "include_timing")
        options = {name: True for name in flags if getattr(base, f"_{name}_in_conversation", False)}
        content["conversation"] = resolve_conversation_from_session(list(traces), **options) or None
    elif (
        root := next((span for span in traces[0].data.spans if span.parent_id is None), None)
    ) is not None:
        content = {
            name: logged(getattr(root, name)) for name in ("inputs", "outputs") if name in wanted
        }
        given = root.inputs is not None or root.outputs is not None
        content = {
            name: _NOTHING[name] if value is None and given else value
            for name, value in content.items()
        }
    # A program's expectation is its guess, not a reference.
    every = (assessment for trace in traces for assessment in trace.info.assessments or ())
    expected = holding(assessment for assessment in every if assessment.expectation is not None)
    content["expectations"] = {
        assessment.name: assessment.expectation.value for assessment in expected
    } or None
    if "trace" in wanted and traces[0].data.spans:
        # Without its assessments: they would give the verdict away, and change what is the same case.
        content["trace"] = {"data": {"spans": shown_spans(traces[0].to_dict()["data"]["spans"])}}
    read = {name: opened(logged(value)) for name, value in content.items() if name in wanted}
    return {name: value for name, value in read.items() if value is not None}


def without_verdicts(trace: Any) -> Any:
    """Return a copy of a trace without feedback and the spans of evaluators, which MLflow's tools would show."""
    info = copy.copy(trace.info)
    info.assessments = [
        assessment for assessment in info.assessments or () if assessment.expectation is not None
    ]
    shown = {span["span_id"] for span in shown_spans([span.to_dict() for span in trace.data.spans])}
    spans = [span for span in trace.data.spans if span.to_dict()["span_id"] in shown]
    return type(trace)(info=info, data=type(trace.data)(spans=spans))


def lacking(traces: list[Any], name: str) -> str:
    """Say why traces lack a field that a judge reads."""
    named = f"the judge's instructions name {{{{ {name} }}}}, and"
    if name == "expectations":
        return f"{named} nobody logged an expectation on the trace; mlflow.log_expectation does"
    if not traces[0].data.spans:
        return f"{named} the trace came without its spans; search_traces(include_spans=True) loads them"
    return f"{named} the trace has none"


def logged(value: Any) -> Any:
    """Return `value` as JSON values; what JSON does not know becomes text, as in MLflow's own prompts.

    NaN and infinity are absent, and half a surrogate pair, which UTF-8 cannot hold, becomes a replacement character.
    """
    text = json.dumps(value, default=str, ensure_ascii=False)
    return json.loads(whole_text(text), parse_constant=lambda _: None)


def holding(assessments: Iterable[Any]) -> list[Any]:
    """Those of people that hold, in order of time: valid, and overridden by no other one."""
    every = list(assessments)
    overridden = {assessment.overrides for assessment in every if assessment.overrides}
    people = [
        assessment
        for assessment in every
        if assessment.valid is not False
        and assessment.assessment_id not in overridden
        and getattr(assessment.source, "source_type", None) == "HUMAN"
    ]
    return sorted(
        people,
        key=lambda assessment: (
            assessment.last_update_time_ms or 0,
            assessment.create_time_ms or 0,
        ),
    )
