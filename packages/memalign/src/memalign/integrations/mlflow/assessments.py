"""People's assessments in traces as feedback, and feedback as assessments."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import mlflow
from mlflow.entities import AssessmentSource, Trace
from mlflow.exceptions import MlflowException

import memalign
from memalign.content import check_fields
from memalign.content.normal import folded
from memalign.errors import InputError
from memalign.integrations.mlflow.base_judges import core_label
from memalign.integrations.mlflow.errors import invalid
from memalign.integrations.mlflow.traces import (
    Item,
    assessments_of,
    content_of,
    holding,
    items_of,
    lacking,
    logged,
)
from memalign.judge import named_parts
from memalign.keys import name_key
from memalign.memory import Annotation
from memalign.types import UNKNOWN_SOURCE, Example, Feedback

_logger = logging.getLogger(__name__)

_SAID_AT = "memalign.created_at"
"""In an assessment's metadata: when an expert said what was logged, perhaps long before."""

_PLACEHOLDERS = ("", "default", "User")
"""Sources that name nobody: MLflow's open-source page says "User", code says "default"."""


@dataclass(frozen=True, kw_only=True)
class TraceFeedback:
    """The feedback on a judge in some traces.

    Attributes:
        rows: One for each person and case, with the fields that the judge reads.
        content: These fields, by the case's id.
        skipped: Why a case has no usable feedback, by its id.
        notes: What else was set aside.
    """

    rows: list[Feedback] = field(default_factory=list)
    content: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_feedback(
    traces: Iterable[Any], name: str, core: memalign.Judge, base: Any = None
) -> TraceFeedback:
    """Read people's valid assessments with the judge's name as feedback.

    Of what a person said several times the latest counts; what was overridden does not. People whom
    MLflow does not name are told apart.

    Args:
        traces: MLflow's.
        name: The name of MLflow's judge.
        core: Our judge.
        base: MLflow's judge, which says how it reads conversations.
    """
    feedback = TraceFeedback()
    for item in items_of(traces, core.fields, core.memory):
        case_id = item.case_id
        every = list(assessments_of(item.traces, "feedback"))
        usable, why = _usable(every, name)
        content = content_of(item.traces, core.fields, base)
        unread = _unread(core, item, content) if usable else ""
        if unread:
            # Nothing is taken back here: the trace may have come without its spans.
            feedback.skipped[case_id] = unread
            continue
        feedback.content[case_id] = content
        if not usable:
            feedback.skipped[case_id] = why
        latest = _by_source(usable, case_id, feedback.notes)
        for source, assessment in sorted(latest.items()):
            row = Feedback(
                id=case_id,
                value=core_label(core.value_type, logged(assessment.feedback.value)),
                rationale=logged(assessment.rationale) or None,
                source=logged(source),
                created_at=_moment(assessment),
                meta=item.meta,
                **content,
            )
            feedback.rows.append(row)
    return feedback


def _unread(core: memalign.Judge, item: Item, content: dict[str, Any]) -> str:
    """Return why the judge cannot read a case, or "".

    A field may be missing, or hold a picture or a file.
    """
    for name in core.fields:
        if name not in content:
            return lacking(item.traces, name)
    try:
        check_fields(
            Example(id=item.case_id, **content), named_parts(core.instructions)
        )
    except InputError as error:
        return str(error)
    return ""


def feedback_of(traces: Iterable[Any], judge: Any) -> list[Feedback]:
    """Return what people say of MLflow's traces as rows for `memalign.evaluate` and the commands.

    Args:
        traces: A list, or the frame of `search_traces()`; people's assessments have the judge's
            name.
        judge: An aligned judge, or one of memalign with the assessments' name.

    Returns:
        A row for each person and trace, with the fields that the judge reads. A trace that lacks
        one is left out, with a warning.

    Raises:
        MlflowException: It is no list of traces, or none of them has feedback
            (INVALID_PARAMETER_VALUE).
    """
    core = getattr(judge, "memalign_judge", judge)
    if not isinstance(core, memalign.Judge):
        given = type(judge).__name__
        raise invalid(
            f"feedback_of takes an aligned judge, or one of memalign; got {given}"
        )
    found = read_feedback(
        listed(traces), judge.name, core, getattr(judge, "base_judge", None)
    )
    if not found.rows:
        raise invalid(nothing_learned(found, judge.name))
    if found.skipped:
        text = "judge %s: %d traces have no feedback that counts"
        _logger.warning(text, judge.name, len(found.skipped))
    return found.rows


def nothing_learned(feedback: TraceFeedback, name: str) -> str:
    """Return why no trace has feedback for a judge, first in the words of MLflow's optimizer."""
    reasons = []
    for reason, count in Counter(feedback.skipped.values()).most_common(3):
        reasons.append(f"{count} of {len(feedback.skipped)}: {reason}")
    why = "; ".join(reasons) or "no traces"
    return (
        f"No valid feedback records found in the traces for judge {name!r} ({why}). What counts is "
        "the feedback of people (source_type HUMAN) under the judge's name, which "
        "mlflow.log_feedback logs"
    )


def listed(traces: Any, *, or_ids: bool = False) -> list[Any]:
    """Return the traces, which may be a frame of `mlflow.search_traces()`.

    Raises MlflowException for anything else.
    """
    frame = hasattr(traces, "columns")
    if frame and "trace" in traces.columns:
        return [_trace(each) for each in traces["trace"]]
    # Traces of MLflow's older versions can be iterated.
    if frame or isinstance(traces, str | Trace) or not isinstance(traces, Iterable):
        every = strange = [traces]
    else:
        every = list(traces)
        kinds = str | Trace if or_ids else Trace
        strange = [each for each in every if not isinstance(each, kinds)]
    if strange:
        ids = ", or of the ids of traces" if or_ids else ""
        raise invalid(
            f"traces must be a list of Trace objects{ids}, or what mlflow.search_traces() gives; "
            f"got {type(strange[0]).__name__}"
        )
    return every


def _trace(value: Any) -> Any:
    """Return a trace of a frame, which MLflow gives as JSON or as an object."""
    return Trace.from_json(value) if isinstance(value, str) else value


def _usable(every: Sequence[Any], name: str) -> tuple[list[Any], str]:
    """Return people's assessments of that name that say something, and why if there is none."""
    named = [assessment for assessment in every if _is_named(assessment, name)]
    if not named:
        names = ", ".join(sorted({assessment.name for assessment in every})) or "none"
        return [], f"no feedback named {name!r}; feedback there: {names}"
    people = holding(named)
    usable = []
    for person in people:
        said = person.feedback.value is not None or (person.rationale or "").strip()
        if said and person.feedback.error is None:
            usable.append(person)
    why = (
        "has no value and no rationale"
        if people
        else "is not by a person, or not valid"
    )
    return usable, f"the feedback named {name!r} {why}"


def _is_named(assessment: Any, name: str) -> bool:
    return folded(assessment.name) == folded(name)


def _by_source(usable: Sequence[Any], where: str, notes: list[str]) -> dict[str, Any]:
    """Return what each person says, of assessments in order of time: the latest counts.

    A person is one person however their name is spelled; the first spelling is kept. Behind a
    placeholder may be anybody, so each such assessment is somebody's, `unknown:ID`.
    """
    latest: dict[str, Any] = {}
    spelt: dict[str, str] = {}
    for assessment in usable:
        number = assessment.assessment_id
        nameless = f"{UNKNOWN_SOURCE}:{number}" if number else UNKNOWN_SOURCE
        source = _person(assessment) or nameless
        source = spelt.setdefault(name_key(source), source)
        if source in latest:
            old = latest[source].assessment_id or _moment(latest[source])
            notes.append(
                f"{where}: of what {source} said the latest counts, and {old} does not"
            )
        latest[source] = assessment
    return latest


def _person(assessment: Any) -> str:
    """Return the name of the person; empty if MLflow does not know it."""
    name = " ".join(str(getattr(assessment.source, "source_id", None) or "").split())
    return "" if name in _PLACEHOLDERS else name


def _moment(assessment: Any) -> str | None:
    moment = assessment.last_update_time_ms or assessment.create_time_ms
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat() if moment else None


def log_feedback(feedback: Any, *, name: str = "") -> dict[str, str]:
    """Log experts' feedback as people's assessments to the MLflow traces that it is about.

    The id of each piece of feedback is that of its trace, as of cases that were pulled from MLflow.
    Logging the same again changes nothing. What a person changed since overrides their assessment,
    unless they gave that one later.

    Args:
        feedback: A list of `memalign.Feedback`, or a judge of memalign or MLflow whose memory has
            it.
        name: The assessments' name, which is that of the MLflow judge that shall learn from them.
            If a judge is given, its own by default.

    Returns:
        What became of each piece, by its key (`tr-17@ana`): `logged`, `overridden`, `unchanged`;
        `newer` if the person's assessment in MLflow is later, and stays; `missing` if MLflow has no
        such trace; `unlabelled` if it is a comment alone, which MLflow's older versions do not
        keep.

    Raises:
        MlflowException: It is no feedback or no name is given (INVALID_PARAMETER_VALUE), or MLflow
            refuses an assessment.
    """
    core = getattr(feedback, "memalign_judge", feedback)
    entries = core.memory.annotations() if isinstance(core, memalign.Judge) else core
    rows: list[Any] = list(entries) if isinstance(entries, Iterable) else [None]
    if not all(isinstance(row, Feedback | Annotation) for row in rows):
        given = type(feedback).__name__
        raise invalid(f"log_feedback takes a judge, or a list of Feedback; got {given}")
    name = name or getattr(feedback, "name", "")
    if not name:
        raise invalid(
            "log_feedback needs the assessments' name: log_feedback(rows, name='send')"
        )
    return {str(row.key): _log(row, name) for row in rows}


def _log(row: Feedback | Annotation, name: str) -> str:
    """Log one piece of feedback, and return what became of it."""
    trace = mlflow.get_trace(row.id, silent=True)
    if trace is None:
        return "missing"
    person = "" if row.source.partition(":")[0] == UNKNOWN_SOURCE else row.source
    own = _assessments_of(trace, name, person)
    # Of somebody without a name, any assessment without one may be theirs, and none is overridden.
    theirs = own[-1:] if person else own
    said = [_said(each.feedback.value, each.rationale) for each in theirs]
    if _said(row.value, row.rationale) in said:
        return "unchanged"
    if row.value is None and not _keeps_words_alone():
        return "unlabelled"
    words = _words(row, person)
    if not (person and own):
        mlflow.log_feedback(name=name, **words)
        return "logged"
    if _is_before(row.created_at, own[-1]):
        return "newer"
    mlflow.override_feedback(assessment_id=own[-1].assessment_id, **words)
    return "overridden"


def _words(row: Feedback | Annotation, person: str) -> dict[str, Any]:
    """Return what MLflow stores of one piece of feedback, as arguments of its calls."""
    return {
        "trace_id": row.id,
        "value": row.value,
        "rationale": row.rationale,
        "source": AssessmentSource(source_type="HUMAN", source_id=person or "default"),
        "metadata": {_SAID_AT: row.created_at} if row.created_at else None,
    }


@cache
def _keeps_words_alone() -> bool:
    """Return whether this MLflow keeps a comment without a value."""
    try:
        mlflow.entities.Feedback(rationale="Too cold.")
    except MlflowException:
        return False
    return True


def _said(value: Any, rationale: str | None) -> tuple[Any, str | None]:
    """Return what makes two assessments say the same."""
    return value, rationale or None


def _assessments_of(trace: Any, name: str, person: str) -> list[Any]:
    """Return a person's feedback of that name that holds, in order of time."""
    own = []
    for entry in holding(assessments_of([trace], "feedback")):
        if _is_named(entry, name) and name_key(_person(entry)) == name_key(person):
            own.append(entry)
    return own


def _is_before(moment: str | None, assessment: Any) -> bool:
    """Return whether something was said before an assessment.

    What we logged was said when its metadata says, unless it was edited.
    """
    other = _moment(assessment)
    if assessment.last_update_time_ms == assessment.create_time_ms:
        other = (assessment.metadata or {}).get(_SAID_AT) or other
    if not moment or not other:
        return False
    return datetime.fromisoformat(moment) < datetime.fromisoformat(other)
