"""Trust: how often the judge agrees with people on cases that it has never learned from."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from memalign_server.pages.content import case_text
from memalign_server.pages.rendering import MEASURING, link, render
from memalign_server.people.access import Asking, inert
from memalign_server.people.service import Role, list_people
from memalign_server.server import JUDGE, Here
from memalign_server.store.cases import ONE_IN, progress_of
from memalign_server.trust.service import ENOUGH, figures_of, trust_of

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])


@router.get("/trust")
def trust_page(request: Request, judge: str, server: Here, person: Asking) -> Response:
    """One sentence and one number, or how many answers are missing for them."""
    kind = server.judges.latest(judge).judge.value_type
    with server.store.read() as connection:
        trust = trust_of(connection, judge, kind, person.name)
        owners = [
            member.name for member in list_people(connection) if member.role == Role.OWNER.value
        ]
        waiting = progress_of(connection, judge, person.name).waiting
    short = max(0, trust.missing - trust.waiting)
    more: dict[str, Any] = {
        "enough": ENOUGH,
        "to_add": short * ONE_IN,
        "owners": owners,
        "waiting": waiting,
    }
    texts = {mistake.example.id: case_text(mistake.example) for mistake in trust.mistakes}
    return render(
        request, "trust.html", judge=judge, page="trust", trust=trust, texts=texts, **more
    )


@router.get("/trust/review")
def review_for_figure(judge: str, server: Here) -> Response:
    """Lead to the review, where the cases that count here come first until there is a figure."""
    answer = RedirectResponse(link(judge, "review"), 303)
    options: dict[str, Any] = {
        "httponly": True,
        "samesite": "lax",
        "secure": server.settings.secure,
    }
    answer.set_cookie(MEASURING, "1", max_age=3600, path=link(judge, "review"), **options)
    return answer


@router.get("/trust/figures.json")
def download_figures(judge: str, server: Here) -> Response:
    """The figures behind the sentence, and those that only a statistician asks for."""
    kind = server.judges.latest(judge).judge.value_type
    with server.store.read() as connection:
        figures = figures_of(connection, judge, kind)
    text = json.dumps(figures, ensure_ascii=False, indent=2) + "\n"
    headers = {"content-disposition": 'attachment; filename="figures.json"'}
    return Response(inert(text), media_type="application/json", headers=headers)
