"""The first page: the judges, and a new one."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse, Response

from memalign import Judge
from memalign_server.pages.languages import LANGUAGES
from memalign_server.pages.rendering import LANGUAGE_COOKIE, link, render
from memalign_server.people.access import OWNER, Asking
from memalign_server.problems import Refused
from memalign_server.review.cases import progress_of
from memalign_server.server import Here

__all__ = ["router"]

router = APIRouter()

_YEAR = 365 * 24 * 3600


@router.get("/")
def home_page(request: Request, server: Here, person: Asking) -> Response:
    """The judges, each with how far the person is."""
    judges = server.registry.list()
    with server.store.read() as connection:
        rows = [(judge, progress_of(connection, judge.name, person.name)) for judge in judges]
    return render(request, "home.html", page="home", judges=rows)


@router.post("/judges", dependencies=[OWNER])
def create_judge(
    server: Here,
    person: Asking,
    name: Annotated[str, Form(max_length=200)],
    instructions: Annotated[str, Form()],
    value_type: Annotated[str, Form()],
    model: Annotated[str, Form()] = "",
) -> Response:
    """A new judge with an empty memory."""
    name = name.strip()
    if not name or "/" in name:
        raise Refused("a judge's name is one line of text without a slash")
    if person.by != "open" and "://" in model:
        raise Refused(
            "nothing made here can name a model's address: the server's keys would go there. "
            "Whoever runs the server can, with `memalign create`"
        )
    judge = Judge(
        name=name, instructions=instructions, feedback_value_type=value_type.strip(), model=model.strip() or None
    )
    server.registry.create(judge)
    return RedirectResponse(link(name, "data"), 303)


@router.post("/language")
def choose_language(language: Annotated[str, Form()], back: Annotated[str, Form()] = "/") -> Response:
    """Keep the language that a person chose, and go back to where they were."""
    if language not in LANGUAGES:
        raise Refused("'{given}' is none of {allowed}", given=language, allowed=", ".join(LANGUAGES))
    here = back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
    answer = RedirectResponse(here, 303)
    answer.set_cookie(LANGUAGE_COOKIE, language, max_age=_YEAR, httponly=True, samesite="lax")
    return answer
