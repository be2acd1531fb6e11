"""Langfuse over its public HTTP interface.

Scores API v3 (https://langfuse.com/docs/api-and-data-platform/features/scores-api, Langfuse 3.179 or newer) and Observations
API v2 (…/observations-api, Langfuse 4 or newer). A case is a trace, or an observation of one: `TRACE#OBSERVATION`. Scores
whose source is ANNOTATION were given by people in Langfuse, those of API and EVAL by programs.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from memalign.content.inside import read_inside
from memalign.errors import InputError, RowError
from memalign.integrations.tracing.json_api import JsonApi, address, key, side_by_side
from memalign.integrations.tracing.records import Record, Said, Verdict, Wanted, content_of_spans, present
from memalign.types import UNKNOWN_SOURCE

__all__ = ["Langfuse"]

_SCORES, _OBSERVATIONS = "/api/public/v3/scores", "/api/public/v2/observations"
_WRITTEN = "/api/public/scores"
_SCORES_A_PAGE = 100
_FIELDS = "core,basic,io"
_PEOPLE = "ANNOTATION"
_LONGEST = 500  # characters of a score that is text


class Langfuse:
    """The Langfuse project of the keys in the environment."""

    def __init__(self, place: str | None) -> None:
        """Read address and keys out of the environment."""
        if place is not None:
            raise InputError("Langfuse's keys name the project: leave FROM out")
        pair = f"{key('LANGFUSE_PUBLIC_KEY')}:{key('LANGFUSE_SECRET_KEY')}"
        self._api = JsonApi(
            "Langfuse",
            address(("LANGFUSE_BASE_URL", "LANGFUSE_HOST"), "https://cloud.langfuse.com"),
            keys="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY",
            headers={"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"},
        )

    def records(self, wanted: Wanted) -> Iterator[Record | RowError]:
        """The traces and observations with scores, then with `every` the traces without one."""
        scored: dict[str, list[Said]] = {}
        asked = {"source": _PEOPLE, "fields": "details,subject,annotation"}  # evaluators give millions
        for score in self._pages(_SCORES, limit=_SCORES_A_PAGE, fromTimestamp=wanted.since, **asked):
            if (case := _case(score.get("subject") or {})) is not None and score.get("dataType") != "CORRECTION":
                scored.setdefault(case, []).append(_said(score))
        for case, said in scored.items():
            if any(each.person for each in said) or wanted.every:
                yield self._record(case, said, wanted)
        if wanted.every:
            tops = self._pages(
                _OBSERVATIONS, limit=500, isRootObservation="true", fields=_FIELDS, fromStartTime=wanted.since
            )
            for top in tops:
                trace = str(top.get("traceId"))
                if trace not in scored:
                    spans = self._observations(trace) if wanted.trace else [top]
                    yield _of(trace, spans, trace=wanted.trace)

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Scores under the judge's name; Langfuse replaces a score of the same id and moment."""
        for first in range(0, len(verdicts), _SCORES_A_PAGE):
            part = {
                str(uuid.uuid5(uuid.NAMESPACE_URL, f"{each.identifier}/{each.id}")): each
                for each in verdicts[first : first + _SCORES_A_PAGE]
            }
            known = self._pages(_SCORES, limit=_SCORES_A_PAGE, id=",".join(part))
            moments = {str(score["id"]): score.get("timestamp") for score in known}
            side_by_side(partial(self._score, moments), part.items())
        return len(verdicts)

    def _score(self, moments: dict[str, Any], named: tuple[str, Verdict]) -> None:
        score_id, verdict = named
        trace, _, observation = verdict.id.partition("#")
        value = verdict.value[:_LONGEST] if isinstance(verdict.value, str) else float(verdict.value)
        body = present(
            id=score_id,
            timestamp=moments.get(score_id),
            traceId=trace,
            observationId=observation,
            name=verdict.judge,
            dataType={bool: "BOOLEAN", str: "CATEGORICAL"}.get(type(verdict.value), "NUMERIC"),
            comment=verdict.rationale,
            metadata=dict(verdict.meta),
        )
        self._api.send(_WRITTEN, body | {"value": value})

    def _record(self, case: str, said: list[Said], wanted: Wanted) -> Record | RowError:
        trace, _, observation = case.partition("#")
        spans = self._observations(trace, top=not observation and not wanted.trace)
        own = [span for span in spans if span["id"] == observation] if observation else spans
        if not own:
            return RowError(line=0, id=case, reason="Langfuse has no such trace or observation any more")
        record = _of(case, spans if wanted.trace else own, trace=wanted.trace, said=said)
        if wanted.trace and observation:
            return Record(
                id=case, columns={**record.columns, **content_of_spans(own)}, meta=record.meta, said=record.said
            )
        return record

    def _observations(self, trace: str, *, top: bool = False) -> list[dict[str, Any]]:
        only = "true" if top else None
        return list(self._pages(_OBSERVATIONS, limit=500, fields=_FIELDS, traceId=trace, isRootObservation=only))

    def _pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        return self._api.pages(
            lambda cursor: self._api.get(path, cursor=cursor, **query),
            "data",
            lambda page: (page.get("meta") or {}).get("cursor"),
        )


def _case(subject: dict[str, Any]) -> str | None:
    """The id of what was scored; None for a session or an experiment, which is no case."""
    match subject.get("kind"):
        case "trace":
            return str(subject["id"])
        case "observation" if subject.get("traceId"):
            return f"{subject['traceId']}#{subject['id']}"
    return None


def _said(score: dict[str, Any]) -> Said:
    value = score.get("value")
    numeric = score.get("dataType") == "NUMERIC"
    text = score.get("dataType") == "TEXT"
    return Said(
        name="" if text else str(score["name"]),
        person=score.get("source") == _PEOPLE,
        source=str(score.get("authorUserId") or UNKNOWN_SOURCE),
        value=None if numeric or text else value,
        score=value if numeric else None,
        words=str(value) if text else score.get("comment"),
        created_at=score.get("updatedAt"),
    )


def _of(case: str, spans: list[dict[str, Any]], *, trace: bool, said: Sequence[Said] = ()) -> Record:
    plain = [
        present(
            id=span["id"],
            trace_id=span.get("traceId"),
            parent_id=span.get("parentObservationId"),
            name=span.get("name") or span.get("type"),
            type=span.get("type"),
            start_time=span.get("startTime"),
            end_time=span.get("endTime"),
            status="ERROR" if span.get("level") == "ERROR" else None,
            message=span.get("statusMessage"),
            input=_read(span.get("input")),
            output=_read(span.get("output")),
        )
        for span in spans
    ]
    top = spans[0]
    meta = present(
        tool="langfuse", user_id=top.get("userId"), session_id=top.get("sessionId"), began=top.get("startTime")
    )
    return Record(id=case, columns=content_of_spans(plain, trace=trace), meta=meta, said=said)


def _read(value: Any) -> Any:
    """What stands as JSON in the text that Langfuse keeps."""
    return read_inside(value) if isinstance(value, str) else value
