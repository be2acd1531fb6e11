"""What people said in traces, as rows of feedback; and the fields of a trace that a judge reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mlflow.entities import SpanStatusCode

from memalign.integrations.mlflow.mlflow_errors import invalid
from memalign.integrations.mlflow.sessions import Session, session_meta, sessions_of
from memalign.memory import Memory
from memalign.types import UNKNOWN_SOURCE, Example, Feedback

__all__ = [
    "TraceFeedback",
    "absent_fields",
    "checked_traces",
    "content_of",
    "content_of_session",
    "examples_of",
    "plain",
    "read_feedback",
]


_PLACEHOLDERS = ("", "default", "User")
"""Who gave an assessment where nobody is named: MLflow's open-source page says "User", code says "default"."""


@dataclass(frozen=True, kw_only=True)
class TraceFeedback:
    """The feedback on a judge in some traces.

    `content` has, by trace id, the fields that the judge reads. `skipped` says for each trace without usable feedback
    why it has none, `notes` what else was set aside.
    """

    rows: tuple[Feedback, ...] = ()
    content: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_feedback(
    traces: Iterable[Any], judge_name: str, fields: Sequence[str], *, base: Any = None, memory: Memory | None = None
) -> TraceFeedback:
    """People's valid assessments with the judge's name, one row a person and trace; a trace given twice counts once.

    Of what a person said several times of one trace the latest counts; what was overridden does not, wherever in the
    chain. People whom MLflow does not name are told apart (`_by_source`). For a judge of conversations the traces of
    one session are one item, and feedback on any of them counts; `memory` knows sessions of before. `base` says how
    MLflow's judge reads conversations.
    """
    rows: list[Feedback] = []
    content: dict[str, dict[str, Any]] = {}
    skipped: dict[str, str] = {}
    notes: list[str] = []
    whole = "conversation" in fields
    for session in _items(traces, fields, memory):
        name, item = session.case_id, session.traces
        if any(character in name for character in "\n\r\x00"):
            skipped[name] = f"its id {name!r} is not one line of text, so no memory can name it"
            continue
        assessments, why = _assessments(item, judge_name)
        shown_fields = _content(item, fields, base)
        missing = [field for field in fields if field not in shown_fields]
        if assessments and missing:
            # Nothing is taken back here: the trace may have come without its spans, and people still say what they
            # said.
            skipped[name] = f"the judge's instructions name {{{{ {missing[0]} }}}}, and the trace has none"
            continue
        content[name] = shown_fields
        if not assessments:
            skipped[name] = why
            continue
        everything = [assessment for trace in item for assessment in trace.info.assessments or ()]
        by_person, remarks = _by_source(assessments, everything, name)
        notes += remarks
        meta = session_meta(session) if whole else {}
        rows.extend(_row(name, source, assessment, meta) for source, assessment in sorted(by_person.items()))
    return TraceFeedback(rows=tuple(rows), content=content, skipped=skipped, notes=tuple(notes))


def examples_of(
    traces: Iterable[Any], fields: Sequence[str], *, base: Any = None, memory: Memory | None = None
) -> Iterator[Example]:
    """The cases of traces that have all `fields`; for a judge of conversations one a session, as in `read_feedback`."""
    for session in _items(traces, fields, memory):
        content = _content(session.traces, fields, base)
        if all(name in content for name in fields):
            yield Example(id=session.case_id, **{name: content[name] for name in fields})


def _items(traces: Iterable[Any], fields: Sequence[str], memory: Memory | None) -> Iterable[Session]:
    """What a judge of these fields judges: sessions, or each trace alone. A trace given twice counts once."""
    unique = {trace.info.trace_id: trace for trace in traces}.values()
    if "conversation" in fields:
        return sessions_of(unique, memory)
    return [Session(case_id=trace.info.trace_id, traces=[trace]) for trace in unique]


def _content(item: Sequence[Any], fields: Sequence[str], base: Any) -> dict[str, Any]:
    return content_of_session(item, fields, base=base) if "conversation" in fields else content_of(item[0], fields)


def content_of(trace: Any, fields: Iterable[str]) -> dict[str, Any]:
    """The fields that the trace has: root span's inputs and outputs, what people expect, and the spans themselves.

    Where the root span has inputs and no outputs, as one that crashed, a text says so in their place; or the other way.
    """
    wanted = set(fields)
    root = _root(trace)
    content: dict[str, Any] = {}
    if root is not None:
        content = {"inputs": root.inputs, "outputs": root.outputs}
        if len(absent := absent_fields(trace)) == 1:
            failed = root.status.status_code == SpanStatusCode.ERROR
            why = ": it failed" + f" with {root.status.description}" * bool(root.status.description) if failed else ""
            content |= {name: f"(the application gave no {name}{why})" for name in absent}
    if "expectations" in wanted:
        content["expectations"] = _expectations([trace]) or None
    if "trace" in wanted and trace.data.spans:
        content["trace"] = _spans(trace)
    return {name: plain(value) for name, value in content.items() if name in wanted and value is not None}


def absent_fields(trace: Any) -> frozenset[str]:
    """Of inputs and outputs what the trace's root span lacks."""
    root = _root(trace)
    return frozenset(name for name in ("inputs", "outputs") if root is None or getattr(root, name) is None)


def content_of_session(session: Sequence[Any], fields: Iterable[str], *, base: Any = None) -> dict[str, Any]:
    """The fields of a session's traces: their turns in order, as MLflow's judge `base` reads them; what is expected."""
    from mlflow.genai.utils.trace_utils import resolve_conversation_from_session

    flags = {
        name: True
        for name in ("include_tool_calls", "include_timing")
        if getattr(base, f"_{name}_in_conversation", False)
    }
    content = {
        "conversation": resolve_conversation_from_session(list(session), **flags) or None,
        "expectations": _expectations(session) or None,
    }
    return {name: plain(value) for name, value in content.items() if name in set(fields) and value is not None}


def checked_traces(traces: Iterable[Any]) -> list[Any]:
    """Traces, or ids that may stand for traces that are gone. Raises MlflowException for anything else."""
    items = list(traces)
    if strange := next((item for item in items if not isinstance(item, str) and not hasattr(item, "info")), None):
        raise invalid(f"traces must be Trace objects, or the ids of traces, got {type(strange).__name__}")
    return items


def plain(value: Any) -> Any:
    """`value` as JSON values; what JSON does not know becomes text, as in MLflow's own prompts."""
    return json.loads(json.dumps(value, default=str))


def _root(trace: Any) -> Any:
    return next((span for span in trace.data.spans if span.parent_id is None), None)


def _assessments(item: Sequence[Any], judge_name: str) -> tuple[list[Any], str]:
    """People's valid feedback with the judge's name on an item's traces, or why there is none."""
    every = [
        assessment for trace in item for assessment in trace.info.assessments or () if assessment.feedback is not None
    ]
    named = [assessment for assessment in every if assessment.name.strip().casefold() == judge_name.strip().casefold()]
    if not named:
        names = ", ".join(sorted({assessment.name for assessment in every})) or "none"
        return [], f"no feedback named {judge_name!r}; feedback there: {names}"
    overridden = {assessment.overrides for assessment in named if assessment.overrides}
    valid = [
        assessment
        for assessment in named
        if assessment.valid is not False and assessment.assessment_id not in overridden
    ]
    human = [assessment for assessment in valid if _is_human(assessment)]
    if not human:
        return [], f"no valid feedback named {judge_name!r} by a person"
    usable = [assessment for assessment in human if assessment.feedback.error is None and _says_something(assessment)]
    return usable, "" if usable else f"the feedback named {judge_name!r} has no value and no rationale"


def _says_something(assessment: Any) -> bool:
    return assessment.feedback.value is not None or bool((assessment.rationale or "").strip())


def _is_human(assessment: Any) -> bool:
    return assessment.source is not None and assessment.source.source_type == "HUMAN"


def _row(trace_id: str, source: str, assessment: Any, meta: dict[str, Any]) -> Feedback:
    moment = assessment.last_update_time_ms or assessment.create_time_ms
    return Feedback(
        id=trace_id,
        value=assessment.feedback.value,
        rationale=assessment.rationale or None,
        source=source,
        created_at=datetime.fromtimestamp(moment / 1000, UTC).isoformat() if moment else None,
        meta=meta,
    )


def _expectations(item: Sequence[Any]) -> dict[str, Any]:
    """What people expect of an item's traces, by name; a program's expectation is its guess, not a reference."""
    assessments = [assessment for trace in item for assessment in trace.info.assessments or ()]
    every = [
        assessment for assessment in assessments if assessment.expectation is not None and assessment.valid is not False
    ]
    overridden = {assessment.overrides for assessment in every if assessment.overrides}
    people = (
        assessment for assessment in every if _is_human(assessment) and assessment.assessment_id not in overridden
    )
    return {assessment.name: assessment.expectation.value for assessment in sorted(people, key=_when)}


def _spans(trace: Any) -> dict[str, Any]:
    """The trace without its assessments: they would give the verdict away, and change what is the same case."""
    return {"data": {"spans": trace.to_dict()["data"]["spans"]}}


def _by_source(own: Sequence[Any], everything: Sequence[Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """What each person says in their `own` assessments of an item, and notes on what of theirs does not count.

    Of a person's assessments the latest counts. Whoever stands behind a placeholder cannot be told: each such
    assessment is somebody's, the first `unknown`, others `unknown:ID`. `everything` are all assessments; an edit keeps
    the name of what it overrides. `where` begins the notes.
    """
    latest: dict[str, Any] = {}
    named: dict[str, list[Any]] = {}
    nameless: list[Any] = []
    for assessment in sorted(own, key=_when):
        (nameless if _is_nameless(assessment) else named.setdefault(_name(assessment), [])).append(assessment)
    notes = []
    for name, several in named.items():
        *earlier, latest[name] = several
        if earlier:
            which = ", ".join(assessment.assessment_id or _moment(assessment) for assessment in earlier)
            verb = "does" if len(earlier) == 1 else "do"
            notes.append(f"{where}: of {name}'s {len(several)} assessments the latest counts, and {which} {verb} not")
    by_id = {
        assessment.assessment_id: assessment
        for assessment in everything
        if assessment.assessment_id and _is_nameless(assessment)
    }
    for number, assessment in enumerate(sorted(nameless, key=lambda one: _began(one, by_id)), 1):
        # Two may be edits of one, and an assessment that was never stored has no id.
        ids = (_began(assessment, by_id)[1], assessment.assessment_id, str(number))
        names = [UNKNOWN_SOURCE, *(f"{UNKNOWN_SOURCE}:{one}" for one in ids if one)]
        latest[next(name for name in names if name not in latest)] = assessment
    return latest, notes


def _when(assessment: Any) -> tuple[int, int]:
    """What orders assessments by time: its last change, then its beginning, in milliseconds."""
    return (assessment.last_update_time_ms or 0, assessment.create_time_ms or 0)


def _name(assessment: Any) -> str:
    return " ".join(str(assessment.source.source_id or "").split())


def _is_nameless(assessment: Any) -> bool:
    source = assessment.source
    return source is not None and source.source_type == "HUMAN" and _name(assessment) in _PLACEHOLDERS


def _began(assessment: Any, by_id: dict[str, Any]) -> tuple[int, str]:
    """When somebody without a name first said what an assessment is an edit of, and the id of that."""
    while assessment.overrides in by_id:
        assessment = by_id[assessment.overrides]
    return assessment.create_time_ms or 0, assessment.assessment_id or ""


def _moment(assessment: Any) -> str:
    return f"the one of {datetime.fromtimestamp((assessment.create_time_ms or 0) / 1000, UTC):%Y-%m-%d %H:%M:%S}"
