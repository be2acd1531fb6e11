"""Arize Phoenix over its REST interface (the server describes it at /openapi.json; written against arize-phoenix 20.26).

A case is a span: the one that people annotated, or the uppermost of a trace. `annotator_kind` tells people from programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

from memalign.errors import ConfigurationError, InputError
from memalign.integrations.tracing.json_api import JsonApi, address, key
from memalign.integrations.tracing.records import Record, Said, Verdict, Wanted, content_of_spans, present
from memalign.types import UNKNOWN_SOURCE

__all__ = ["Phoenix"]

_SPANS = 200  # a page
_NOTE = "note"  # what Phoenix calls the annotation that holds a free note


class Phoenix:
    """A project of Phoenix, by name or id; `default` is the one that Phoenix itself uses."""

    def __init__(self, place: str | None) -> None:
        """Read the address and the key, which a server without accounts does not need, out of the environment."""
        headers = {"authorization": f"Bearer {key('PHOENIX_API_KEY')}"} if os.environ.get("PHOENIX_API_KEY") else {}
        url = address(("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT"), "http://localhost:6006")
        self._api = JsonApi("Phoenix", url.removesuffix("/v1/traces"), keys="PHOENIX_API_KEY", headers=headers)
        if place is not None and any(character in place for character in "/?#"):
            raise InputError(f"project {place!r}: give its id; Phoenix finds none by a name with / ? or #")
        self._project = f"/v1/projects/{quote(place or 'default', safe='')}"

    def records(self, wanted: Wanted) -> Iterator[Record]:
        """Annotated spans with what was said of them, or of their trace; with `every` also the uppermost of the others."""
        part: list[dict[str, Any]] = []
        for span in self._pages("/spans", start_time=wanted.since, limit=_SPANS):
            part.append(span)
            if len(part) == _SPANS:
                yield from self._part(part, wanted)
                part = []
        if part:
            yield from self._part(part, wanted)

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Annotations of the kind LLM under the judge's name; the same identifier is replaced."""
        data = [
            {
                "span_id": each.id,
                "name": each.judge,
                "annotator_kind": "LLM",
                "identifier": each.identifier,
                "metadata": each.meta,
                "result": present(label=each.label, explanation=each.rationale)
                | ({} if isinstance(each.value, str) else {"score": float(each.value)}),
            }
            for each in verdicts
        ]
        for first in range(0, len(data), _SPANS):
            self._api.send("/v1/span_annotations", {"data": data[first : first + _SPANS]}, sync="true")
        return len(data)

    def _part(self, spans: list[dict[str, Any]], wanted: Wanted) -> Iterator[Record]:
        said: dict[str, list[Said]] = {}
        tops = {str(span["context"]["trace_id"]): _id(span) for span in spans if not span.get("parent_id")}
        for each in self._pages("/span_annotations", span_ids=[_id(span) for span in spans], limit=1000):
            said.setdefault(str(each["span_id"]), []).append(self._said(each))
        if tops:
            for each in self._pages("/trace_annotations", trace_ids=list(tops), limit=1000):
                said.setdefault(tops[str(each["trace_id"])], []).append(self._said(each))
        for span in spans:
            own = said.get(_id(span), [])
            if own or (wanted.every and not span.get("parent_id")):
                content = content_of_spans([span])
                trace = str(span["context"]["trace_id"])
                if wanted.trace:
                    content["trace"] = list(self._pages("/spans", trace_id=trace, limit=_SPANS))
                meta = present(tool="phoenix", trace_id=trace, span=span.get("name"), began=span.get("start_time"))
                yield Record(id=_id(span), columns=content, meta=meta, said=own)

    def _said(self, annotation: dict[str, Any]) -> Said:
        result = annotation.get("result") or {}
        name = str(annotation["name"])
        return Said(
            name="" if name == _NOTE else name,
            person=annotation.get("annotator_kind") == "HUMAN",
            source=self._source(annotation),
            value=result.get("label"),
            score=result.get("score"),
            words=result.get("explanation"),
            created_at=annotation.get("updated_at"),
        )

    def _source(self, annotation: dict[str, Any]) -> str:
        """Who was logged in; for what a program sent in a person's name, the identifier that it gave."""
        identifier, user = str(annotation.get("identifier") or ""), annotation.get("user_id")
        if identifier and not identifier.startswith("px-") and annotation.get("source") != "APP":
            return identifier
        return UNKNOWN_SOURCE if user is None else self._people.get(str(user), str(user))

    @cached_property
    def _people(self) -> dict[str, str]:
        """Addresses by user id; none where the key may not list the users."""
        try:
            found = list(self._listed("/v1/users", limit=100))
        except ConfigurationError:
            return {}
        return {str(each["id"]): str(each.get("email") or each.get("username") or each["id"]) for each in found}

    def _pages(self, path: str, **query: Any) -> Iterator[Any]:
        return self._listed(self._project + path, **query)

    def _listed(self, path: str, **query: Any) -> Iterator[Any]:
        return self._api.pages(
            lambda cursor: self._api.get(path, cursor=cursor, **query), "data", lambda page: page.get("next_cursor")
        )


def _id(span: dict[str, Any]) -> str:
    return str(span["context"]["span_id"])
