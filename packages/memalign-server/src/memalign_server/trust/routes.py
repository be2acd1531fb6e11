"""Trust: how often the judge agrees with people on cases that it has never learned from."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from memalign_server.pages.rendering import MEASURING, link
from memalign_server.pages.screens import JudgeScreen
from memalign_server.people.access import download
from memalign_server.people.service import Role, list_people
from memalign_server.server import JUDGE
from memalign_server.store.cases import ONE_IN, progress_of
from memalign_server.trust.service import ENOUGH, figures_of, trust_of

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

Screen = Annotated[JudgeScreen, Depends()]


@router.get("/trust")
def trust_page(screen: Screen) -> Response:
    """Show one sentence and one number, or what is missing for them."""
    with screen.read() as connection:
        trust = trust_of(connection, screen.judge, screen.kind, screen.name)
        team = list_people(connection)
        waiting = progress_of(connection, screen.judge, screen.name).waiting
    return screen.render(
        "trust.html",
        page="trust",
        trust=trust,
        enough=ENOUGH,
        to_add=max(0, trust.missing - trust.waiting) * ONE_IN,
        owners=[member.name for member in team if member.role == Role.OWNER.value],
        waiting=waiting,
    )


@router.get("/trust/review")
def review_for_figure(screen: Screen) -> Response:
    """Lead to the review, where the cases that count here come first until there is a figure."""
    answer = screen.go("review")
    answer.set_cookie(
        MEASURING,
        "1",
        max_age=3600,
        path=link(screen.judge, "review"),
        httponly=True,
        samesite="lax",
        secure=screen.server.settings.secure,
    )
    return answer


@router.get("/trust/figures.json")
def download_figures(screen: Screen) -> Response:
    """Send the figures behind the sentence, and those that only a statistician asks for."""
    with screen.read() as connection:
        figures = figures_of(connection, screen.judge, screen.kind)
    return download("figures.json", figures)
