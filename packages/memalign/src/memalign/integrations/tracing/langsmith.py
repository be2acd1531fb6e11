"""LangSmith over its REST interface (https://api.smith.langchain.com/redoc; fields as in the langsmith package 0.15).

A case is a run. Feedback whose `feedback_source.type` is `app` was given by people in LangSmith; `api` and `model` come from
programs (https://docs.langchain.com/langsmith/feedback-data-format).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Any

from memalign.client import ServerRefused
from memalign.errors import InputError, RowError
from memalign.integrations.tracing.json_api import JsonApi, address, key, side_by_side
from memalign.integrations.tracing.records import Record, Said, Verdict, Wanted, content_of_spans, present
from memalign.types import UNKNOWN_SOURCE

__all__ = ["LangSmith"]

_PAGE = 100
_PEOPLE = "app"
_SELECT = [
    "id",
    "name",
    "run_type",
    "start_time",
    "end_time",
    "trace_id",
    "parent_run_id",
    "error",
    "inputs",
    "outputs",
]


class LangSmith:
    """A tracing project of LangSmith, by name or id."""

    def __init__(self, place: str | None) -> None:
        """Read address and key out of the environment."""
        if place is None:
            raise InputError("which project of LangSmith? Name it, or give its id")
        url = address(("LANGSMITH_ENDPOINT",), "https://api.smith.langchain.com")
        headers = {"x-api-key": key("LANGSMITH_API_KEY")}
        self._api = JsonApi("LangSmith", url.removesuffix("/api/v1"), keys="LANGSMITH_API_KEY", headers=headers)
        self._place = place

    def records(self, wanted: Wanted) -> Iterator[Record | RowError]:
        """The runs with feedback, then with `every` the uppermost runs without any."""
        scored: dict[str, list[Said]] = {}
        for feedback in self._feedback(wanted):
            if feedback.get("run_id"):
                scored.setdefault(str(feedback["run_id"]), []).append(_said(feedback))
        chosen = [run for run, said in scored.items() if wanted.every or any(each.person for each in said)]
        for first in range(0, len(chosen), _PAGE):
            ids = chosen[first : first + _PAGE]
            found = {str(run["id"]): run for run in self._runs(id=ids)}
            for each in ids:
                if each not in found:
                    yield RowError(line=0, id=each, reason="LangSmith has no such run any more")
                else:
                    yield self._record(found[each], scored[each], wanted)
        if wanted.every:
            for run in self._runs(is_root=True, start_time=wanted.since):
                if str(run["id"]) not in scored:
                    yield self._record(run, (), wanted)

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Feedback of the source `model` under the judge's name; the same id is replaced."""
        assert self._project  # noqa: S101  # looked up once, not by each thread
        side_by_side(self._give, verdicts)
        return len(verdicts)

    def _give(self, verdict: Verdict) -> None:
        feedback = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{verdict.identifier}/{verdict.id}"))
        body = present(
            id=feedback,
            run_id=verdict.id,
            session_id=self._project,
            key=verdict.judge,
            feedback_source={"type": "model", "metadata": dict(verdict.meta)},
        )
        value = verdict.value
        told = present(comment=verdict.rationale) | (
            {"value": value} if isinstance(value, str) else {"score": float(value)}
        )
        try:
            self._api.send("/api/v1/feedback", body | told)
        except ServerRefused as refused:
            if refused.status != HTTPStatus.CONFLICT:  # it is there already
                raise
            self._api.send(f"/api/v1/feedback/{feedback}", told, method="PATCH")

    @cached_property
    def _project(self) -> str:
        """The id of the project."""
        return self._api.id_of(self._place, lambda name: self._api.get("/api/v1/sessions", name=name, limit=1))

    def _feedback(self, wanted: Wanted) -> Iterator[dict[str, Any]]:
        offset = 0
        while True:
            query = {"session": self._project, "limit": _PAGE, "offset": offset, "min_created_at": wanted.since}
            found = self._api.get("/api/v1/feedback", source=_PEOPLE, include_user_names="true", **query)
            if not isinstance(found, list):
                raise InputError("LangSmith answered without a list of feedback; is it another version?")
            yield from found
            offset += len(found)
            if len(found) < _PAGE:
                return

    def _runs(self, **query: Any) -> Iterator[dict[str, Any]]:
        body = present(session=[self._project], select=_SELECT, limit=_PAGE, **query)
        return self._api.pages(
            lambda cursor: self._api.send("/api/v1/runs/query", body | present(cursor=cursor)),
            "runs",
            lambda page: (page.get("cursors") or {}).get("next"),
        )

    def _record(self, run: dict[str, Any], said: Sequence[Said], wanted: Wanted) -> Record:
        content = content_of_spans([_span(run)])
        if wanted.trace:
            content["trace"] = [_span(each) for each in self._runs(trace=run["trace_id"])]
        meta = present(tool="langsmith", trace_id=run.get("trace_id"), run=run.get("name"), began=run.get("start_time"))
        return Record(id=str(run["id"]), columns=content, meta=meta, said=said)


def _span(run: dict[str, Any]) -> dict[str, Any]:
    return {name: run[name] for name in _SELECT if run.get(name) is not None}


def _said(feedback: dict[str, Any]) -> Said:
    source = feedback.get("feedback_source") or {}
    who = next((source[name] for name in ("user_name", "user_id", "ls_user_id") if source.get(name)), UNKNOWN_SOURCE)
    score = feedback.get("score")
    value = feedback.get("value")
    return Said(
        name=str(feedback["key"]) if score is not None or value is not None else "",
        person=source.get("type") == _PEOPLE,
        source=str(who),
        value=score if isinstance(score, bool) else value,
        score=None if isinstance(score, bool) else score,
        words=feedback.get("comment"),
        created_at=feedback.get("modified_at") or feedback.get("created_at"),
    )
