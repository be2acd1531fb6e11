"""What a judge reads of traces: each is one case, or each session for judges of conversations.

A session goes by its first trace: MLflow keeps there what people say of a session. Each annotation
names the session in `meta`, so that it stays one case when a trace before its first comes to light.
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
_FLAGS = ("include_tool_calls", "include_timing")
"""How MLflow's judges read conversations."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is judged as one.

    Attributes:
        case_id: The id of its case.
        traces: Its traces, in order of time.
        meta: What an annotation keeps of it.
    """

    case_id: str
    traces: list[Any]
    meta: dict[str, str]


def items_of(
    traces: Iterable[Any], fields: Collection[str], memory: Memory | None = None
) -> list[Item]:
    """Return what a judge of these fields judges. A trace that is given twice counts once."""
    unique = {trace.info.trace_id: trace for trace in traces}
    items = []
    if "conversation" not in fields:
        for trace_id, trace in unique.items():
            items.append(Item(case_id=trace_id, traces=[trace], meta={}))
        return items
    known = {} if memory is None else _sessions_in(memory)
    sessions: dict[str, list[Any]] = {}
    for trace in sorted(unique.values(), key=lambda trace: trace.info.timestamp_ms):
        sessions.setdefault(_session_of(trace) or trace.info.trace_id, []).append(trace)
    for name, turns in sessions.items():
        case_id = known.get(name, turns[0].info.trace_id)
        items.append(Item(case_id=case_id, traces=turns, meta={_SESSION: name}))
    return items


def cases_of(traces: Iterable[Any], memory: Memory) -> tuple[list[str], list[str]]:
    """Return the ids of the cases that traces, or ids of traces, are; then those that are none."""
    sessions = _sessions_in(memory)
    cases: dict[str, None] = {}
    strangers: dict[str, None] = {}
    for trace in traces:
        trace_id = trace
        session = ""
        if not isinstance(trace, str):
            trace_id = trace.info.trace_id
            session = _session_of(trace)
        case_id = trace_id if memory.case(trace_id) else sessions.get(session)
        if case_id is None:
            strangers[trace_id] = None
        else:
            cases[case_id] = None
    return list(cases), list(strangers)


def _sessions_in(memory: Memory) -> dict[str, str]:
    """Return the ids of cases by their sessions."""
    cases = {}
    for entry in memory.annotations():
        if _SESSION in entry.meta:
            cases[entry.meta[_SESSION]] = entry.id
    return cases


def _session_of(trace: Any) -> str:
    return trace.info.trace_metadata.get("mlflow.trace.session") or ""


# -- what a judge reads ----------------------------------------------------------------------------


def examples_of(traces: Iterable[Any], fields: Collection[str]) -> Iterator[Example]:
    """Yield the cases of traces that have all fields."""
    for item in items_of(traces, fields):
        content = content_of(item.traces, fields)
        if all(name in content for name in fields):
            yield Example(id=item.case_id, **content)


def content_of(
    traces: list[Any], fields: Iterable[str], base: Any = None
) -> dict[str, Any]:
    """Return the fields that an item's traces have.

    Args:
        traces: One trace, or those of a session in order.
        fields: The fields that the judge reads.
        base: MLflow's judge, which says how it reads conversations.
    """
    wanted = set(fields)
    content: dict[str, Any] = {}
    if "conversation" in wanted:
        content["conversation"] = _conversation(traces, base)
    else:
        content.update(_root_fields(traces[0]))
    if "expectations" in wanted:
        content["expectations"] = _expectations(traces)
    if "trace" in wanted and traces[0].data.spans:
        # Without its assessments: they would give the verdict away, and change what is the same.
        content["trace"] = {
            "data": {"spans": shown_spans(traces[0].to_dict()["data"]["spans"])}
        }
    read = {}
    for name, value in content.items():
        shown = opened(logged(value)) if name in wanted else None
        if shown is not None:
            read[name] = shown
    return read


def _conversation(traces: list[Any], base: Any) -> Any:
    """Return the turns of a session, as MLflow's judge reads them."""
    from mlflow.genai.utils.trace_utils import resolve_conversation_from_session

    options = {}
    for name in _FLAGS:
        if getattr(base, f"_{name}_in_conversation", False):
            options[name] = True
    return resolve_conversation_from_session(list(traces), **options) or None


def _root_fields(trace: Any) -> dict[str, Any]:
    """Return inputs and outputs of the root span; one that is missing beside the other is named."""
    for span in trace.data.spans:
        if span.parent_id is None and (
            span.inputs is not None or span.outputs is not None
        ):
            fields = dict[str, Any](_NOTHING)
            for name in _NOTHING:
                value = logged(getattr(span, name))
                if value is not None:
                    fields[name] = value
            return fields
    return {}


def _expectations(traces: list[Any]) -> dict[str, Any] | None:
    """Return what people expect; a program's expectation is its guess, and no reference."""
    every = holding(assessments_of(traces, "expectation"))
    return {each.name: each.expectation.value for each in every} or None


def without_verdicts(trace: Any) -> Any:
    """Return a copy of a trace without feedback and evaluators' spans, for MLflow's tools."""
    info = copy.copy(trace.info)
    info.assessments = list(assessments_of([trace], "expectation"))
    spans = {span.to_dict()["span_id"]: span for span in trace.data.spans}
    shown = shown_spans([span.to_dict() for span in spans.values()])
    kept = [spans[span["span_id"]] for span in shown]
    return type(trace)(info=info, data=type(trace.data)(spans=kept))


def lacking(traces: list[Any], name: str) -> str:
    """Return why traces lack a field that a judge reads."""
    named = f"the judge's instructions name {{{{ {name} }}}}, and"
    if name == "expectations":
        return f"{named} nobody logged an expectation on the trace; mlflow.log_expectation does"
    if not traces[0].data.spans:
        how = "search_traces(include_spans=True) loads them"
        return f"{named} the trace came without its spans; {how}"
    return f"{named} the trace has none"


def logged(value: Any) -> Any:
    """Return a value as JSON values; what JSON does not know becomes text, as MLflow's prompts do.

    NaN and infinity are absent, and half a surrogate pair, which UTF-8 cannot hold, becomes a
    replacement character.
    """
    text = json.dumps(value, default=str, ensure_ascii=False)
    return json.loads(whole_text(text), parse_constant=lambda _: None)


def assessments_of(traces: Iterable[Any], kind: str) -> Iterator[Any]:
    """Yield the assessments in traces that are "feedback", or "expectation"."""
    for trace in traces:
        for assessment in trace.info.assessments or ():
            if getattr(assessment, kind) is not None:
                yield assessment


def holding(assessments: Iterable[Any]) -> list[Any]:
    """Return people's valid assessments that no other one overrides, in order of time."""
    every = list(assessments)
    overridden = {assessment.overrides for assessment in every if assessment.overrides}
    people = []
    for assessment in every:
        human = getattr(assessment.source, "source_type", None) == "HUMAN"
        if (
            human
            and assessment.valid is not False
            and assessment.assessment_id not in overridden
        ):
            people.append(assessment)
    return sorted(
        people,
        key=lambda each: (each.last_update_time_ms or 0, each.create_time_ms or 0),
    )
