"""Errors that are answers: a page for people, a problem in JSON (RFC 9457) for programs."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlencode

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse, Response

from memalign.errors import JudgeNotFound, MemalignError
from memalign_server.pages.languages import Language
from memalign_server.pages.rendering import (
    address_of,
    error_text,
    in_english,
    link,
    render,
    speaking,
)
from memalign_server.people.access import Json, is_part
from memalign_server.problems import Problem, Refused, problem_of

__all__ = ["answer_error"]

_BLOCKS: Final[Mapping[str, str]] = {
    "find": "erase",
    "erase": "erase",
    "receipts": "erase",
    "pull": "cases",
    "experts": "experts",
}
"""The block of Set up on which the forms of an address stand."""
_SCREENS: Final = ("review", "learned", "teach", "setup")
_MOST_ROWS: Final = 20


def answer_error(request: Request, error: Exception) -> Response:
    """Return an error that was raised on purpose, for people or for a program."""
    problem = problem_of(error)
    accepted = request.headers.get("accept", "text/html")
    for_people = is_part(request) or "text/html" in accepted
    if request.url.path.startswith(("/api/", "/health")) or not for_people:
        return _for_programs(problem)
    is_page = request.method == "GET"
    if problem.status_code == 401 and is_page and not is_part(request):
        query = urlencode({"back": address_of(request)})
        return RedirectResponse(f"/sign-in?{query}", 303)
    if problem.status_code == 405 and is_page:
        return RedirectResponse(_page_of(request.url.path), 303)
    answer = _for_people(request, problem, error)
    answer.headers.update(problem.headers or {})
    return answer


def _for_programs(problem: Problem) -> Response:
    status = problem.status_code
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": problem.detail,
        **problem.more,
    }
    headers = dict(problem.headers or {})
    return Json(body, status, headers, media_type="application/problem+json")


def _page_of(path: str) -> str:
    """Return the page with the form that sends something to an address without a page."""
    parts = path.split("/")
    if len(parts) < 4 or parts[1] != "judges":
        return "/"
    judge = unquote(parts[2])
    place = parts[3]
    if place not in _SCREENS:
        return link(judge, "setup", open=_BLOCKS.get(place))
    block = parts[-1] if parts[-1] in ("question", "cases") else None
    return link(judge, place, open=block)


def _for_people(request: Request, problem: Problem, error: Exception) -> Response:
    language = speaking(request)
    if request.url.path.startswith("/join/"):
        heading = language.say("This link does not work any more")
    else:
        heading = _heading(language, problem.status_code)
    return render(
        request,
        "error.html",
        status=problem.status_code,
        heading=heading,
        detail=_detail(request, problem, error),
        rows=problem.more.get("rows", [])[:_MOST_ROWS],
        field=getattr(error, "field", ""),
        back=_judge_of(request.url.path, error),
    )


def _judge_of(path: str, error: Exception) -> str:
    """Return the judge whose page was asked for, if there is one of that name."""
    parts = path.split("/")
    if len(parts) < 4 or parts[1] != "judges" or isinstance(error, JudgeNotFound):
        return ""
    return unquote(parts[2])


def _detail(request: Request, problem: Problem, error: Exception) -> str:
    """Return what an error says beyond its heading; Starlette's own say nothing."""
    language = speaking(request)
    if isinstance(error, JudgeNotFound):
        return language.say(
            "There is no judge of this name. It was deleted, or the address is wrong."
        )
    if isinstance(error, Problem | Refused | MemalignError):
        return error_text(request, error)
    if isinstance(error, RequestValidationError):
        return in_english(language, problem.detail)
    return ""


def _heading(language: Language, status: int) -> str:
    say = language.say
    headings = {
        401: say("Sign in first"),
        403: say("You may not do this"),
        404: say("Not here"),
        405: say("Not here"),
        409: say("Somebody was quicker"),
        410: say("This is not there any more"),
        422: say("Something is missing"),
        502: say("The model does not answer"),
        503: say("Not available now"),
    }
    return headings.get(status, say("Something went wrong"))
