"""Argilla: the file of `dataset.records.to_json(path)` (https://docs.argilla.io, 2.8).

A case is a record, whose fields are the columns. Responses are people's, suggestions are programs'. The file does not tell
drafts from what was submitted: export a query of submitted responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memalign.errors import InputError, RowError
from memalign.integrations.tracing.records import Record, Said, Verdict, Wanted, present
from memalign.io.rows import read_rows
from memalign.types import UNKNOWN_SOURCE

__all__ = ["Argilla"]


class Argilla:
    """An exported file."""

    def __init__(self, place: str | None) -> None:
        """Keep the file's path."""
        if place is None:
            raise InputError("which export of Argilla? Name the .json file that dataset.records.to_json() wrote")
        self._path = Path(place)

    def records(self, wanted: Wanted) -> Iterator[Record | RowError]:
        """The records, answered ones or all."""
        if wanted.since is not None:
            raise InputError("Argilla's export has no times: leave --since out")
        for row in read_rows(self._path):
            if isinstance(row, RowError):
                yield row
                continue
            record = row.fields
            fields, responses = record.get("fields"), record.get("responses") or {}
            if not isinstance(fields, Mapping) or not isinstance(responses, Mapping):
                yield RowError(line=row.line, reason="no record: write it by dataset.records.to_json()")
                continue
            said = [*_responses(responses), *_suggestions(record.get("suggestions"))]
            if wanted.every or any(each.person for each in said):
                meta = present(tool="argilla", server_id=record.get("_server_id"), metadata=record.get("metadata"))
                case = record.get("id") or record.get("_server_id") or ""
                yield Record(id=str(case), columns=fields, meta=meta, said=said)

    def write(self, verdicts: Sequence[Verdict]) -> int:
        """Raises InputError: what is read is a file."""
        del verdicts
        raise InputError(
            "Argilla is read from a file, and takes verdicts as suggestions: dataset.records.log in Python"
        )


def _responses(responses: Mapping[str, Any]) -> Iterator[Said]:
    for question, answers in responses.items():
        for answer in answers or []:
            if answer.get("status", "submitted") == "submitted":
                source = str(answer.get("user_id") or UNKNOWN_SOURCE)
                yield Said(name=str(question), person=True, source=source, value=_one(answer.get("value")))


def _suggestions(suggestions: Any) -> Iterator[Said]:
    for question, suggestion in (suggestions or {}).items() if isinstance(suggestions, Mapping) else ():
        agent = str((suggestion or {}).get("agent") or UNKNOWN_SOURCE)
        yield Said(name=str(question), person=False, source=agent, value=_one((suggestion or {}).get("value")))


def _one(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
