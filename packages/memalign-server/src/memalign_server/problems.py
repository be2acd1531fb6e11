"""Errors that are raised on purpose, each with an HTTP status and a sentence on what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from memalign.errors import (
    InputError,
    InvalidRows,
    JudgeExists,
    JudgeNotFound,
    MemalignError,
    ModelError,
    RateLimited,
    RegistryError,
    UnknownKey,
    VersionConflict,
)

__all__ = [
    "PROBLEMS",
    "RAISED",
    "Problem",
    "Refused",
    "about",
    "problem_of",
    "unreachable",
]

RAISED: Final = (HTTPException, MemalignError, RequestValidationError)
"""The errors that are answers; any other one is a fault of ours."""

_STATUS: Final[Mapping[type[Exception], int]] = {
    JudgeNotFound: 404,
    UnknownKey: 404,
    JudgeExists: 409,
    VersionConflict: 409,
    RateLimited: 503,
    ModelError: 502,
    RegistryError: 503,  # locked or full: it may answer later
    MemalignError: 422,
}

_SHAPE = {
    "type": "object",
    "title": "Problem",
    "description": "An error (RFC 9457): `detail` says what is wrong and what to do.",
    "properties": {name: {"type": "string"} for name in ("type", "title", "detail")}
    | {"status": {"type": "integer"}},
    "required": ["type", "title", "status", "detail"],
}
PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": words,
        "content": {"application/problem+json": {"schema": _SHAPE}},
    }
    for status, words in {
        "4XX": "What was asked cannot be done.",
        "5XX": "A model or the database failed.",
    }.items()
}
"""How the description of the API tells of errors."""


class Problem(HTTPException):
    """An answer that is an error.

    It has a status, an English sentence that pages translate, and `more` for programs. `parts` take
    the places of `{names}` in the sentence.
    """

    def __init__(
        self,
        status: int,
        english: str,
        *,
        parts: Mapping[str, object] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, english.format_map(parts) if parts else english)
        self.english = english
        self.parts = dict(parts or {})
        self.more = more


class Refused(InputError):
    """The input is wrong: a sentence that pages say in the reader's language.

    `parts` take the places of `{names}` in the sentence. `field` names the field of a form that it
    is about.
    """

    def __init__(self, english: str, *, field: str = "", **parts: object) -> None:
        super().__init__(english.format_map(parts) if parts else english)
        self.english = english
        self.parts = parts
        self.field = field


@contextmanager
def about(field: str) -> Iterator[None]:
    """Say of an error of the library which field of a form it is about."""
    try:
        yield
    except MemalignError as error:
        if not getattr(error, "field", ""):
            error.__dict__["field"] = field
        raise


def unreachable() -> Problem:
    """Say that the database is down, in words for strangers: the error itself names its host."""
    return Problem(503, "the database does not answer just now; try again in a moment")


def problem_of(error: Exception) -> Problem:
    """Describe one of the errors in RAISED for whoever sent the request."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return Problem(error.status_code, str(error.detail))
    if isinstance(error, RequestValidationError):
        faults = []
        for fault in error.errors():
            place = ".".join(map(str, fault["loc"]))
            faults.append(f"{place}: {fault['msg']}")
        first = "; ".join(faults[:5])
        return Problem(422, first, faults=faults)
    status = next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)
    more: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, InvalidRows):
        more["rows"] = [
            {"line": row.line, "id": row.id, "reason": row.reason} for row in error.rows
        ]
    return Problem(status, str(error), **more)
