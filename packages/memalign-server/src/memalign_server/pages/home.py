"""The first page: the judges of one's teams, and a new one."""

from __future__ import annotations

from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from memalign import Judge
from memalign_server.pages.languages import LANGUAGES
from memalign_server.pages.rendering import LANGUAGE_COOKIE, link, render
from memalign_server.people.identity import team_of
from memalign_server.people.judge_teams import check_model, keep_team, team_for
from memalign_server.problems import Refused
from memalign_server.review.cases import progress_of
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here

__all__ = ["router"]

router = guarded_router()

_YEAR = 365 * 24 * 3600


@router.get("/")
def home_page(request: Request, server: Here, person: Asking) -> Response:
    """The judges, each with how far the person is."""
    found = server.registry.list()
    with server.store.read() as connection:
        mine = [
            (each, progress_of(connection, each.name, person.name))
            for each in found
            if team_of(connection, each.name) in person.roles
        ]
    return render(request, "home.html", page="home", judges=mine)


@router.post("/judges")
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
    check_model(person, model)
    judge = Judge(
        name=name, instructions=instructions, feedback_value_type=value_type.strip(), model=model.strip() or None
    )
    team = team_for(person)
    server.registry.create(judge)
    keep_team(server.store, name, team)
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
