"""What a judge reads of traces. Each trace is one case, or for a judge of conversations each session.

A session goes by the trace that was first when the judge came to know it: MLflow keeps there what people say of a
session. Each annotation names the session and its traces in `meta`, so that a turn is recognised when it comes alone,
or when its trace is gone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlflow.entities import SpanStatusCode

from memalign.memory import Memory
from memalign.types import Example

_ID, _TRACES = "mlflow.session", "mlflow.traces"


@dataclass(frozen=True, kw_only=True)
class Item:
    """What is judged as one: the id of its case, and its traces in order of time; of one in memory, their ids."""

    case_id: str
    traces: list[Any]

    @property
    def meta(self) -> dict[str, Any]:
        """What an annotation keeps of its session; nothing for a trace that belongs to none."""
        name = _session_of(self.traces[0])
        return {} if name is None else {_ID: name, _TRACES: [trace.info.trace_id for trace in self.traces]}


# -- which traces are one case -----------------------------------------------------------------------------------------


def items_of(traces: Iterable[Any], fields: Collection[str], memory: Memory | None = None) -> list[Item]:
    """What a judge of these fields judges of these traces. A trace given twice counts once.

    Of a session in `memory` the other traces are fetched, as far as they still exist.
    """
    import mlflow

    unique = {trace.info.trace_id: trace for trace in traces}
    if "conversation" not in fields:
        return [Item(case_id=trace_id, traces=[trace]) for trace_id, trace in unique.items()]
    memorized = {} if memory is None else _sessions_in(memory)
    sessions: dict[str, dict[str, Any]] = {}
    for trace_id, trace in unique.items():
        sessions.setdefault(_session_of(trace) or trace_id, {})[trace_id] = trace
    items = []
    for name, by_id in sessions.items():
        before = memorized.get(name)
        for trace_id in before.traces if before else ():
            if trace_id not in by_id and (trace := mlflow.get_trace(trace_id, silent=True)) is not None:
                by_id[trace_id] = trace
        ordered = sorted(by_id.values(), key=lambda trace: trace.info.timestamp_ms)
        items.append(Item(case_id=before.case_id if before else ordered[0].info.trace_id, traces=ordered))
    return sorted(items, key=lambda item: item.traces[0].info.timestamp_ms)


def cases_of(traces: Iterable[Any], memory: Memory) -> tuple[list[str], list[str]]:
    """Ids of the cases in `memory` for which these traces (or ids of traces) stand, and of those for none."""
    sessions = _sessions_in(memory)
    by_trace = {trace_id: session.case_id for session in sessions.values() for trace_id in session.traces}
    cases, strangers = dict[str, None](), dict[str, None]()
    for trace in traces:
        trace_id = trace if isinstance(trace, str) else trace.info.trace_id
        session = None if isinstance(trace, str) else sessions.get(_session_of(trace) or "")
        case_id = trace_id if memory.case(trace_id) else session.case_id if session else by_trace.get(trace_id)
        (strangers if case_id is None else cases)[case_id or trace_id] = None
    return list(cases), list(strangers)


def _sessions_in(memory: Memory) -> dict[str, Item]:
    sessions: dict[str, Item] = {}
    for annotation in memory.annotations():
        if _ID in annotation.meta:
            session = sessions.setdefault(annotation.meta[_ID], Item(case_id=annotation.id, traces=[]))
            session.traces.extend(name for name in annotation.meta[_TRACES] if name not in session.traces)
    return sessions


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

    Where the root span has inputs and no outputs, as one that crashed, a text says so in their place; or the other way.
    Of a session it is the turns in order, as MLflow's judge `base` reads them.
    """
    wanted, content = set(fields), dict[str, Any]()
    if "conversation" in wanted:
        from mlflow.genai.utils.trace_utils import resolve_conversation_from_session

        flags = ("include_tool_calls", "include_timing")
        options = {name: True for name in flags if getattr(base, f"_{name}_in_conversation", False)}
        content["conversation"] = resolve_conversation_from_session(list(traces), **options) or None
    elif (root := _root(traces[0])) is not None:
        content = {"inputs": root.inputs, "outputs": root.outputs}
        if len(absent := absent_fields(traces[0])) == 1:
            failed = root.status.status_code == SpanStatusCode.ERROR
            why = ": it failed" + f" with {root.status.description}" * bool(root.status.description) if failed else ""
            content |= {name: f"(the application gave no {name}{why})" for name in absent}
    # A program's expectation is its guess, not a reference.
    every = (assessment for trace in traces for assessment in trace.info.assessments or ())
    expected = holding(assessment for assessment in every if assessment.expectation is not None)
    content["expectations"] = {assessment.name: assessment.expectation.value for assessment in expected} or None
    if "trace" in wanted and traces[0].data.spans:
        # Without its assessments: they would give the verdict away, and change what is the same case.
        content["trace"] = {"data": {"spans": traces[0].to_dict()["data"]["spans"]}}
    return {name: plain(value) for name, value in content.items() if name in wanted and value is not None}


def absent_fields(trace: Any) -> frozenset[str]:
    """Of inputs and outputs what the trace's root span lacks."""
    root = _root(trace)
    return frozenset(name for name in ("inputs", "outputs") if root is None or getattr(root, name) is None)


def plain(value: Any) -> Any:
    """`value` as JSON values; what JSON does not know becomes text, as in MLflow's own prompts."""
    return json.loads(json.dumps(value, default=str))


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
    return sorted(people, key=lambda assessment: (assessment.last_update_time_ms or 0, assessment.create_time_ms or 0))


def _root(trace: Any) -> Any:
    return next((span for span in trace.data.spans if span.parent_id is None), None)
