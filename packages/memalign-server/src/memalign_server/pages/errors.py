"""Errors as pages, for people; programs get problems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from memalign.errors import InvalidRows, MemalignError
from memalign_server.pages.rendering import in_english, render, speaking, told
from memalign_server.problems import Problem, status_of

__all__ = ["install_error_pages"]

Handler = Callable[[Request, Exception], Response | Awaitable[Response]]


def install_error_pages(app: FastAPI) -> None:
    """Show a page for an error wherever a browser asked for a page; the API's answers stay as they are."""
    for kind, answer in ((HTTPException, _of_http), (MemalignError, _of_memalign), (RequestValidationError, _of_form)):
        app.add_exception_handler(kind, _either(cast("Handler", app.exception_handlers[kind]), answer))


def _either(problem: Handler, page: Callable[[Request, Exception], Response]) -> Handler:
    def handle(request: Request, error: Exception) -> Response | Awaitable[Response]:
        return page(request, error) if _wants_page(request) else problem(request, error)

    async def handled(request: Request, error: Exception) -> Response:
        found = handle(request, error)
        return found if isinstance(found, Response) else await found

    return handled


def _wants_page(request: Request) -> bool:
    if request.url.path.startswith(("/api/", "/health")):
        return False
    return "text/html" in request.headers.get("accept", "text/html") or request.headers.get("hx-request") == "true"


def _of_http(request: Request, error: Exception) -> Response:
    found = cast("HTTPException", error)
    parts = request.headers.get("hx-request") == "true"  # the page stays: what somebody typed is on it
    if found.status_code == 401 and request.method == "GET" and not parts:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        to = f"/sign-in?{urlencode({'back': back})}"
        return RedirectResponse(to, 303)
    # What Starlette says of a path that is not there, the heading says.
    detail = told(speaking(request), found) if isinstance(found, Problem) else ""
    answer = _page(request, found.status_code, detail)
    answer.headers.update(found.headers or {})
    return answer


def _of_memalign(request: Request, error: Exception) -> Response:
    rows = error.rows[:20] if isinstance(error, InvalidRows) else ()
    return _page(request, status_of(cast("MemalignError", error)), told(speaking(request), error), rows)


def _of_form(request: Request, error: Exception) -> Response:
    faults = cast("RequestValidationError", error).errors()
    said = "; ".join(f"{'.'.join(map(str, fault['loc'][1:]))}: {fault['msg']}" for fault in faults[:5])
    return _page(request, 422, in_english(speaking(request), said))


def _page(request: Request, status: int, detail: str, rows: object = ()) -> Response:
    say = speaking(request).say
    headings = {
        401: say("Sign in first"),
        403: say("You may not do this"),
        404: say("Not here"),
        405: say("Not here"),
        409: say("Somebody was quicker"),
        410: say("Not here"),
        422: say("Something is missing"),
        429: say("Too often: wait a little"),
        502: say("The model does not answer"),
        503: say("Not available now"),
    }
    return render(
        request,
        "error.html",
        status=status,
        heading=headings.get(status, say("Something went wrong")),
        detail=detail,
        rows=rows,
    )
