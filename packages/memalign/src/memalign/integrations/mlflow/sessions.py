"""Sessions: the traces of one conversation are one case, and any of them stands for it.

The case goes by the trace that was first when the judge came to know the session: MLflow keeps there what is said of a
session. Each annotation names the session and its traces in `meta`, so that a turn is recognised when it comes alone,
or when its trace is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from memalign.memory import Memory

__all__ = ["Session", "cases_of", "session_meta", "sessions_of"]

SESSION = "mlflow.trace.session"
_ID, _TRACES = "mlflow.session", "mlflow.traces"


@dataclass(frozen=True, kw_only=True)
class Session:
    """One item to judge: the id of its case, and its traces in order of time; of one in memory, their ids."""

    case_id: str
    traces: list[Any]


def sessions_of(traces: Iterable[Any], memory: Memory | None) -> list[Session]:
    """The sessions of these traces; a trace that belongs to none is one of its own.

    Of a session in `memory` the other traces are fetched, as far as they are still there.
    """
    import mlflow

    memorized = {} if memory is None else _sessions_in(memory)
    by_session: dict[str, dict[str, Any]] = {}
    for trace in traces:
        by_session.setdefault(_session_id(trace) or trace.info.trace_id, {})[trace.info.trace_id] = trace
    sessions = []
    for name, by_id in by_session.items():
        before = memorized.get(name)
        for trace_id in before.traces if before else ():
            if trace_id not in by_id and (trace := mlflow.get_trace(trace_id, silent=True)) is not None:
                by_id[trace_id] = trace
        ordered = sorted(by_id.values(), key=lambda trace: trace.info.timestamp_ms)
        sessions.append(Session(case_id=before.case_id if before else ordered[0].info.trace_id, traces=ordered))
    return sorted(sessions, key=lambda session: session.traces[0].info.timestamp_ms)


def session_meta(session: Session) -> dict[str, Any]:
    """What an annotation keeps of its session; nothing for a trace that belongs to none."""
    name = _session_id(session.traces[0])
    return {} if name is None else {_ID: name, _TRACES: [trace.info.trace_id for trace in session.traces]}


def cases_of(traces: Iterable[Any], memory: Memory) -> tuple[list[str], list[str]]:
    """Ids of the cases in `memory` for which these traces (or ids of traces) stand, and of those for none."""
    memorized = _sessions_in(memory)
    by_trace = {trace_id: record.case_id for record in memorized.values() for trace_id in record.traces}
    cases, strangers = [], []
    for trace in traces:
        trace_id = trace if isinstance(trace, str) else trace.info.trace_id
        session = None if isinstance(trace, str) else memorized.get(_session_id(trace) or "")
        if memory.case(trace_id) is not None:
            cases.append(trace_id)
        elif session is not None:
            cases.append(session.case_id)
        elif trace_id in by_trace:
            cases.append(by_trace[trace_id])
        else:
            strangers.append(trace_id)
    return list(dict.fromkeys(cases)), list(dict.fromkeys(strangers))


def _sessions_in(memory: Memory) -> dict[str, Session]:
    """The sessions in memory, by their id."""
    sessions: dict[str, Session] = {}
    for annotation in memory.annotations():
        if _ID in annotation.meta:
            record = sessions.setdefault(annotation.meta[_ID], Session(case_id=annotation.id, traces=[]))
            record.traces.extend(trace_id for trace_id in annotation.meta[_TRACES] if trace_id not in record.traces)
    return sessions


def _session_id(trace: Any) -> str | None:
    return trace.info.trace_metadata.get(SESSION) or None
