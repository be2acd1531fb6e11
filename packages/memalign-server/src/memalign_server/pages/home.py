"""The first page: straight to the one judge, a list of several, or the question of the first."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from memalign_server.pages.rendering import link, render
from memalign_server.people.access import Asking
from memalign_server.review.cases import progress_of
from memalign_server.review.judges import question_of
from memalign_server.server import Here

__all__ = ["router"]

router = APIRouter()


@router.get("/")
def home_page(request: Request, server: Here, person: Asking) -> Response:
    """The one judge's Review; the list, where there are several or none."""
    names = [judge.name for judge in server.registry.list()]
    if len(names) == 1:
        return RedirectResponse(link(names[0], "review"), 303)
    return judges_page(request, server, person)


@router.get("/judges")
def judges_page(request: Request, server: Here, person: Asking) -> Response:
    """All judges by their questions, and for owners a new one."""
    judges = [server.judges.latest(judge.name).judge for judge in server.registry.list()]
    with server.store.read() as connection:
        rows = [(judge.name, question_of(judge), progress_of(connection, judge.name, person.name)) for judge in judges]
    return render(request, "home.html", page="home", judges=rows)
