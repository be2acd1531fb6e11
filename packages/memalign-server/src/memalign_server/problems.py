"""Errors as answers: `application/problem+json` (RFC 9457) under /api, and a page elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from memalign.errors import (
    ConfigurationError,
    InputError,
    InvalidRows,
    JudgeExists,
    JudgeNotFound,
    MemalignError,
    ModelError,
    RateLimited,
    RegistryError,
    SpendLimitReached,
    UnknownKey,
    VersionConflict,
)

__all__ = ["PROBLEMS", "Problem", "Refused", "install_problems", "problem", "status_of"]

_STATUS: tuple[tuple[type[MemalignError], int], ...] = (
    (JudgeNotFound, 404),
    (UnknownKey, 404),
    (JudgeExists, 409),
    (VersionConflict, 409),
    (InputError, 422),
    (RateLimited, 503),
    (SpendLimitReached, 422),
    (ModelError, 502),
    (ConfigurationError, 422),
    (RegistryError, 503),
    (MemalignError, 400),
)
"""The first class that fits gives the status; a registry that is locked or full may answer later."""

_SHAPE = {
    "type": "object",
    "title": "Problem",
    "description": "An error (RFC 9457): `detail` says what is wrong and what to do.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail"],
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {"application/problem+json": {"schema": _SHAPE}}}
    for status, words in {"4XX": "What was asked cannot be done.", "5XX": "A model or the database failed."}.items()
}
"""How the API's description tells of errors."""


class Problem(HTTPException):
    """An answer that is an error: its status, a sentence that says what to do, and more fields for programs.

    `parts` take the places of `{names}` in the sentence, which pages say in the reader's language.
    """

    def __init__(
        self,
        status: int,
        english: str,
        *,
        parts: Mapping[str, object] | None = None,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(status, english.format_map(parts) if parts else english, headers)
        self.english, self.parts, self.more = english, dict(parts or {}), more


class Refused(InputError):
    """What was given is wrong, in a sentence that pages say in the reader's language; `parts` take the places of `{names}`."""

    def __init__(self, english: str, **parts: object) -> None:
        super().__init__(english.format_map(parts) if parts else english)
        self.english, self.parts = english, parts


def status_of(error: MemalignError) -> int:
    """The HTTP status of one of memalign's errors."""
    return next(status for kind, status in _STATUS if isinstance(error, kind))


def problem(status: int, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> JSONResponse:
    """A problem's answer."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **more}
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def _of_http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # registered for it alone
    more = error.more if isinstance(error, Problem) else {}
    headers = dict(error.headers or {}) or None
    return problem(error.status_code, str(error.detail), headers=headers, **more)


def _of_memalign(_request: Request, error: Exception) -> Response:
    assert isinstance(error, MemalignError)  # registered for it alone
    more: dict[str, Any] = {"error": type(error).__name__}
    if isinstance(error, InvalidRows):
        more["rows"] = [{"line": row.line, "id": row.id, "reason": row.reason} for row in error.rows]
    return problem(status_of(error), str(error), **more)


def _of_validation(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # registered for it alone
    faults = [{"at": ".".join(map(str, fault["loc"])), "reason": fault["msg"]} for fault in error.errors()]
    said = "; ".join(f"{fault['at']}: {fault['reason']}" for fault in faults[:5])
    return problem(422, said or "the request does not fit the description", faults=faults)


def install_problems(app: FastAPI) -> None:
    """Answer every error that is raised on purpose with a problem."""
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(MemalignError, _of_memalign)
    app.add_exception_handler(RequestValidationError, _of_validation)
