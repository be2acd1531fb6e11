"""Errors as answers: a page for people, `application/problem+json` (RFC 9457) for programs."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response

from memalign.errors import MemalignError
from memalign_server.pages.rendering import error_text, in_english, render, speaking
from memalign_server.problems import RAISED, Problem, Refused, problem_of

__all__ = ["install_errors"]


def install_errors(app: FastAPI) -> None:
    """Answer every error that is raised on purpose.

    Args:
        app: The application.
    """
    for kind in RAISED:
        app.add_exception_handler(kind, _answer)


def _answer(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    status, headers = problem.status_code, dict(problem.headers or {})
    of_htmx = request.headers.get("hx-request") == "true"
    for_people = of_htmx or "text/html" in request.headers.get("accept", "text/html")
    if request.url.path.startswith(("/api/", "/health")) or not for_people:
        body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": problem.detail}
        return JSONResponse({**body, **problem.more}, status, headers, media_type="application/problem+json")
    if status == 401 and request.method == "GET" and not of_htmx:
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/sign-in?{urlencode({'back': back})}", 303)
    answer = _page(request, problem, error)
    answer.headers.update(headers)
    return answer


def _page(request: Request, problem: Problem, error: Exception) -> Response:
    language = speaking(request)
    say = language.say
    headings = {
        401: say("Sign in first"),
        403: say("You may not do this"),
        404: say("Not here"),
        405: say("Not here"),
        409: say("Somebody was quicker"),
        422: say("Something is missing"),
        502: say("The model does not answer"),
        503: say("Not available now"),
    }
    if isinstance(error, Problem | Refused | MemalignError):
        detail = error_text(request, error)
    elif isinstance(error, RequestValidationError):
        detail = in_english(language, problem.detail)
    else:
        detail = ""  # Starlette says nothing beyond the heading
    heading = headings.get(problem.status_code, say("Something went wrong"))
    rows = problem.more.get("rows", [])[:20]
    return render(request, "error.html", status=problem.status_code, heading=heading, detail=detail, rows=rows)
