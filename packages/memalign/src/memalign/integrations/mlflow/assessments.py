"""People's assessments in traces as feedback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import memalign
from memalign.integrations.mlflow.base_judges import core_label
from memalign.integrations.mlflow.traces import content_of, holding, items_of
from memalign.types import UNKNOWN_SOURCE, Feedback

_PLACEHOLDERS = ("", "default", "User")
"""Who gave an assessment where nobody is named: MLflow's open-source page says "User", code says "default"."""


@dataclass(frozen=True, kw_only=True)
class TraceFeedback:
    """The feedback on a judge in some traces: a row for each person and case, with the fields that the judge reads.

    `content` has these fields by the case's id. `skipped` says why a case has no usable feedback, `notes` what else
    was set aside.
    """

    rows: list[Feedback] = field(default_factory=list)
    content: dict[str, dict[str, Any]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_feedback(traces: Iterable[Any], name: str, core: memalign.Judge, base: Any = None) -> TraceFeedback:
    """People's valid assessments with the MLflow judge's name, as feedback for our judge `core`.

    Of what a person said several times the latest counts; what was overridden does not. People whom MLflow does not
    name are told apart. `base` says how MLflow's judge reads conversations.
    """
    feedback = TraceFeedback()
    for item in items_of(traces, core.fields, core.memory):
        case_id = item.case_id
        if any(character in case_id for character in "\n\r\x00"):
            feedback.skipped[case_id] = f"its id {case_id!r} is not one line of text, so no memory can name it"
            continue
        assessments = [assessment for trace in item.traces for assessment in trace.info.assessments or ()]
        every = [assessment for assessment in assessments if assessment.feedback is not None]
        usable, why = _usable(every, name)
        content = content_of(item.traces, core.fields, base)
        if usable and (missing := [field for field in core.fields if field not in content]):
            # Nothing is taken back here: the trace may have come without its spans.
            feedback.skipped[case_id] = f"the judge's instructions name {{{{ {missing[0]} }}}}, and the trace has none"
            continue
        feedback.content[case_id] = content
        if not usable:
            feedback.skipped[case_id] = why
        latest = _by_source(usable, every, case_id, feedback.notes)
        for source, assessment in sorted(latest.items()):
            row = Feedback(
                id=case_id,
                value=core_label(core.value_type, assessment.feedback.value),
                rationale=assessment.rationale or None,
                source=source,
                created_at=_moment(assessment),
                meta=item.meta if "conversation" in core.fields else {},
                **content,
            )
            feedback.rows.append(row)
    return feedback


def _usable(every: Sequence[Any], name: str) -> tuple[list[Any], str]:
    """People's assessments of that name that say something; or why there is none."""
    named = [entry for entry in every if entry.name.strip().casefold() == name.strip().casefold()]
    if not named:
        names = ", ".join(sorted({assessment.name for assessment in every})) or "none"
        return [], f"no feedback named {name!r}; feedback there: {names}"
    people = holding(named)
    answered = [person for person in people if person.feedback.error is None]
    usable = [person for person in answered if person.feedback.value is not None or (person.rationale or "").strip()]
    why = "has no value and no rationale" if people else "is not by a person, or not valid"
    return usable, f"the feedback named {name!r} {why}"


def _by_source(usable: Sequence[Any], every: Sequence[Any], where: str, notes: list[str]) -> dict[str, Any]:
    """What each person says in `usable` assessments, which are in order of time: the latest counts.

    Whoever stands behind a placeholder cannot be told: each such assessment is somebody's, the first `unknown`, others
    `unknown:ID`, and an edit keeps the name of what it overrides, which is among `every`.
    """
    nameless = {entry.assessment_id: entry for entry in every if entry.assessment_id and not _person(entry)}

    def first(assessment: Any) -> Any:
        while assessment.overrides in nameless:
            assessment = nameless[assessment.overrides]
        return assessment

    origins = sorted(
        (first(entry) for entry in usable if not _person(entry)), key=lambda entry: entry.create_time_ms or 0
    )
    others = [f"{UNKNOWN_SOURCE}:{entry.assessment_id or number}" for number, entry in enumerate(origins[1:], 2)]
    names = {id(entry): name for entry, name in reversed(list(zip(origins, [UNKNOWN_SOURCE, *others], strict=False)))}
    latest: dict[str, Any] = {}
    for assessment in usable:
        source = _person(assessment) or names[id(first(assessment))]
        if source in latest:
            old = latest[source].assessment_id or _moment(latest[source])
            notes.append(f"{where}: of what {source} said the latest counts, and {old} does not")
        latest[source] = assessment
    return latest


def _person(assessment: Any) -> str:
    """The name of the person; empty where MLflow does not know it."""
    name = " ".join(str(getattr(assessment.source, "source_id", None) or "").split())
    return "" if name in _PLACEHOLDERS else name


def _moment(assessment: Any) -> str | None:
    moment = assessment.last_update_time_ms or assessment.create_time_ms
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat() if moment else None
