"""Braintrust's project logs over its REST interface (https://www.braintrust.dev/docs/api-reference; braintrust-openapi).

A case is a row of the logs. What a reviewer gives stands in a span of the type `review` below the reviewed one
(https://www.braintrust.dev/docs/annotate/human-review/multiple-reviewers). Where there is none, scores that the project's
settings name as human review are people's, of whom Braintrust then does not say who they are. All others are programs'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from memalign.errors import InputError
from memalign.integrations.tracing.json_api import JsonApi, address, key
from memalign.integrations.tracing.records import Record, Said, Verdict, Wanted, content_of_spans, present
from memalign.types import UNKNOWN_SOURCE

__all__ = ["Braintrust"]

_TRACES = 100  # a page
_HUMAN = ("slider", "categorical", "free-form")


class Braintrust:
    """The logs of a project of Braintrust, by name or id."""

    def __init__(self, place: str | None) -> None:
        """Read address and key out of the environment."""
        if place is None:
            raise InputError("which project of Braintrust? Name it, or give its id")
        headers = {"authorization": f"Bearer {key('BRAINTRUST_API_KEY')}"}
        url = address(("BRAINTRUST_API_URL",), "https://api.braintrust.dev")
        self._api = JsonApi("Braintrust", url, keys="BRAINTRUST_API_KEY", headers=headers)
        self._place = place

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """Rows with what was said of them, with `every` also the uppermost rows of other traces; a newer state hides older."""
        seen: set[str] = set()
        traces: dict[str, list[dict[str, Any]]] = {}
        for row in self._rows():
            if row["id"] not in seen:
                seen.add(row["id"])
                traces.setdefault(str(row.get("root_span_id")), []).append(row)
        for rows in traces.values():
            reviews: dict[str, list[dict[str, Any]]] = {}
            for row in rows:
                if _kind(row) == "review":
                    reviews.setdefault(str((row.get("span_parents") or [None])[0]), []).append(row)
            for row in rows:
                said = (
                    [] if _kind(row) in ("review", "score") else self._said(row, reviews.get(str(row["span_id"]), []))
                )
                top = bool(row.get("is_root", not row.get("span_parents")))
                late = wanted.since is not None and str(row.get("created", "")) < wanted.since
                if not late and (any(each.person for each in said) or (wanted.every and (top or said))):
                    yield _record(row, rows, said, trace=wanted.trace)

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """A score under the judge's name, merged into the row, with the rest in the row's metadata under `memalign`."""
        events = [
            {
                "id": each.id,
                "_is_merge": True,
                "scores": {} if each.share is None else {each.judge: each.share},
                "metadata": {"memalign": {each.judge: {**each.meta, "value": each.value, "rationale": each.rationale}}},
            }
            for each in verdicts
        ]
        for first in range(0, len(events), _TRACES):
            part = [present(**event) for event in events[first : first + _TRACES]]
            self._api.send(f"/v1/project_logs/{self._project}/insert", {"events": part})
        return len(events)

    @cached_property
    def _project(self) -> str:
        """The id of the project."""
        return self._api.id_of(self._place, lambda name: self._objects("/v1/project", project_name=name))

    @cached_property
    def _human(self) -> dict[str, dict[float, str]]:
        """The scores that people give, each with the names of its categories by their numbers."""
        found = self._objects("/v1/project_score", project_id=self._project)
        return {str(each["name"]): _categories(each) for each in found if each.get("score_type") in _HUMAN}

    def _objects(self, path: str, **query: Any) -> list[Any]:
        answer = self._api.get(path, **query)
        return list(answer.get("objects") or []) if isinstance(answer, dict) else []

    def _rows(self) -> Iterator[dict[str, Any]]:
        return self._api.pages(
            lambda cursor: self._api.send(
                f"/v1/project_logs/{self._project}/fetch", {"limit": _TRACES} | present(cursor=cursor)
            ),
            "events",
            lambda page: page.get("cursor") if page.get("events") else None,
        )

    def _said(self, row: dict[str, Any], reviews: Sequence[dict[str, Any]]) -> list[Said]:
        found = [
            self._score(
                name,
                score,
                review,
                person=True,
                source=_who(review, str((review.get("span_attributes") or {}).get("name"))),
            )
            for review in reviews
            for name, score in (review.get("scores") or {}).items()
        ]
        reviewed = {each.name for each in found}
        for name, score in (row.get("scores") or {}).items():
            if name not in reviewed:  # which the row has as the mean of its reviews
                found.append(self._score(name, score, row, person=name in self._human, source=UNKNOWN_SOURCE))
        found += [_comment(each) for each in row.get("comments") or [] if isinstance(each, Mapping)]
        return [each for each in found if each.value is not None or each.score is not None or each.words]

    def _score(self, name: str, score: Any, of: dict[str, Any], *, person: bool, source: str) -> Said:
        label = self._human.get(name, {}).get(score) if person and isinstance(score, int | float) else None
        return Said(name=name, person=person, source=source, value=label, score=score, created_at=of.get("created"))


def _kind(row: Mapping[str, Any]) -> str | None:
    attributes = row.get("span_attributes")
    return attributes.get("type") if isinstance(attributes, Mapping) else None


def _categories(score: Mapping[str, Any]) -> dict[float, str]:
    held = score.get("categories")
    pairs = [each for each in held if isinstance(each, Mapping)] if isinstance(held, list) else []
    return {each["value"]: str(each["name"]) for each in pairs}


def _who(told: Mapping[str, Any], title: str = "") -> str:
    """The person, as the metadata of a review or comment say it, or the name of a review span (`Review by …`)."""
    held = told.get("metadata")
    metadata = held if isinstance(held, Mapping) else {}
    named = next((metadata[name] for name in ("email", "user_email", "user_id") if metadata.get(name)), None)
    return str(named or title.partition(" by ")[2].strip() or UNKNOWN_SOURCE)


def _comment(comment: Mapping[str, Any]) -> Said:
    held = comment.get("comment")
    text = held.get("text") if isinstance(held, Mapping) else held
    return Said(
        name="",
        person=comment.get("source", "app") == "app",
        source=_who(comment),
        words=None if text is None else str(text),
        created_at=comment.get("created"),
    )


def _record(row: dict[str, Any], rows: Sequence[dict[str, Any]], said: list[Said], *, trace: bool) -> Record:
    columns = content_of_spans([_span(row)]) | present(expectations=row.get("expected"))
    if trace:
        columns["trace"] = [_span(each) for each in rows if _kind(each) not in ("review", "score")]
    metadata = row.get("metadata")
    known = {k: v for k, v in metadata.items() if k != "memalign"} if isinstance(metadata, Mapping) else {}
    meta = present(tool="braintrust", trace_id=row.get("root_span_id"), began=row.get("created"), metadata=known)
    return Record(id=str(row["id"]), columns=columns, meta=meta, said=said)


def _span(row: Mapping[str, Any]) -> dict[str, Any]:
    times = row.get("metrics") or {}
    return {
        "name": (row.get("span_attributes") or {}).get("name") or "row",
        "span_id": row["span_id"],
        "trace_id": row.get("root_span_id"),
    } | present(
        parent_id=(row.get("span_parents") or [None])[0],
        type=_kind(row),
        start_time=times.get("start"),
        end_time=times.get("end"),
        error=row.get("error"),
        input=row.get("input"),
        output=row.get("output"),
    )
