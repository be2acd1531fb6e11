"""Who gave an assessment.

MLflow's open-source page calls everybody "User", and code that names nobody says "default".
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from memalign.types import UNKNOWN_SOURCE

__all__ = ["by_source", "when"]

_PLACEHOLDERS = ("", "default", "User")


def by_source(own: Sequence[Any], everything: Sequence[Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """What each person says in the assessments `said`, and notes on what of theirs does not count.

    Of a person's assessments the latest counts. Whoever stands behind a placeholder cannot be told: each such
    assessment is somebody's, the first `unknown`, others `unknown:ID`. `there` are all assessments; an edit keeps the
    name of what it overrides. `where` begins the notes.
    """
    latest: dict[str, Any] = {}
    named: dict[str, list[Any]] = {}
    nameless: list[Any] = []
    for assessment in sorted(own, key=when):
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


def when(assessment: Any) -> tuple[int, int]:
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
