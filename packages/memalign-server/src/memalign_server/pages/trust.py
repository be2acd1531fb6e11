"""Trust: how often the judge agrees with people on cases that it had not learned from, and people with each other."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from memalign_server.pages.rendering import render
from memalign_server.review.evidence import evidence_of, people_agreement
from memalign_server.server import JUDGE, Here

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])


@router.get("/trust")
def trust_page(request: Request, judge: str, server: Here) -> Response:
    """How far the judge can be trusted."""
    kind = server.judges.latest(judge).judge.value_type
    with server.store.read() as connection:
        evidence = evidence_of(connection, judge, kind)
        alpha, several = people_agreement(connection, judge, kind)
    return render(request, "trust.html", judge=judge, page="trust", evidence=evidence, alpha=alpha, several=several)
