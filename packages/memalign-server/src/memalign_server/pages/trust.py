"""Trust: agreement on unseen cases, people against each other, the cases behind every number, history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select

from memalign.registry import VersionInfo
from memalign.values import value_text
from memalign_server.pages.content import blocks_of
from memalign_server.pages.rendering import link, render
from memalign_server.people.access import OWNER, Asking
from memalign_server.problems import Refused
from memalign_server.review.answers import answers_on
from memalign_server.review.blind import hidden_from, open_diff
from memalign_server.review.cases import cases_of
from memalign_server.review.evidence import evidence_of, people_agreement
from memalign_server.review.using import cases_of_guideline
from memalign_server.server import JUDGE, Here
from memalign_server.store.columns import to_json
from memalign_server.store.review_tables import reviews

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_MOST_LABELS = 9
_LISTED = 20


@router.get("/trust")
def trust_page(request: Request, judge: str, server: Here) -> Response:
    """How far the judge can be trusted, and what that rests on."""
    loaded = server.judges.latest(judge)
    kind = loaded.judge.value_type
    with server.store.read() as connection:
        evidence = evidence_of(connection, judge, kind)
        alpha, several = people_agreement(connection, judge, kind)
    history = list(reversed(server.registry.history(judge)))
    counts = dict(evidence.pairs)
    met = {label for pair in counts for label in pair}
    labels = [each for each in kind.labels if each in met or len(kind.labels) <= _MOST_LABELS] or sorted(met, key=str)
    return render(
        request,
        "trust.html",
        judge=judge,
        page="trust",
        evidence=evidence,
        alpha=alpha,
        several=several,
        labels=labels if len(labels) <= 2 * _MOST_LABELS and kind.closed and kind.kind != "float" else [],
        counts=counts,
        texts={label: value_text(label) for label in labels},
        history=history[:_LISTED],
        back=_went_back(history),
    )


def _went_back(history: Sequence[VersionInfo]) -> dict[int, int]:
    """For each version that went back, the older one that it is like; `history` begins with the newest."""
    found: dict[int, int] = {}
    for place, made in enumerate(history):
        older = (each.number for each in history[place + 2 :] if each.memory_hash == made.memory_hash)
        if made.action == "rollback" and (number := next(older, None)) is not None:
            found[made.number] = number
    return found


@router.get("/cases")
def cases_page(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    people: str | None = None,
    judged: str | None = None,
    guideline: Annotated[str | None, Query(max_length=16)] = None,
    case: Annotated[str | None, Query(max_length=500)] = None,
) -> Response:
    """The cases behind a cell of the matrix, or on which a guideline spoke; what others said only where one has answered."""
    loaded = server.judges.latest(judge)
    kind = loaded.judge.value_type
    with server.store.read() as connection:
        if case is not None:
            ids = [case]
        elif guideline is not None:
            ids = cases_of_guideline(connection, judge, guideline, limit=_LISTED)
        elif people is not None and judged is not None:
            query = select(reviews.c.case_id).where(
                reviews.c.judge == judge,
                reviews.c.blind_value == to_json(kind.parse(people)),
                reviews.c.judge_value == to_json(kind.parse(judged)),
            )
            ids = list(
                dict.fromkeys(connection.execute(query.order_by(reviews.c.updated_at.desc()).limit(_LISTED)).scalars())
            )
        else:
            raise Refused("name a case, a guideline, or a verdict of people and one of the judge")
        hidden = hidden_from(connection, judge, person.name, ids)
        if people is not None and case is None and guideline is None:
            ids = [each for each in ids if each not in hidden]  # that it is in the list would tell both verdicts
        found = cases_of(connection, judge, ids)
        said = answers_on(connection, judge, *(each for each in ids if each not in hidden))
    shown = [
        {
            "case": each,
            "blocks": blocks_of(each.example, kind),
            "hidden": each.example.id in hidden,
            "answers": [one for one in said if one.case_id == each.example.id],
        }
        for each in found
    ]
    return render(
        request, "cases.html", judge=judge, page="trust", shown=shown, people=people, judged=judged, guideline=guideline
    )


@router.get("/history")
def history_page(request: Request, judge: str, server: Here, person: Asking, a: int, b: int) -> Response:
    """What changed from one version to another."""
    diff = server.registry.diff(judge, a, b)
    with server.store.read() as connection:
        diff = open_diff(connection, diff, None if person.owner else person.name)
    return render(request, "diff.html", judge=judge, page="trust", diff=diff, a=a, b=b)


@router.post("/rollback", dependencies=[OWNER])
def rollback(judge: str, server: Here, to: Annotated[int, Form()]) -> Response:
    """Make an older version the next one."""
    server.registry.rollback(judge, to)
    return RedirectResponse(f"{link(judge, 'trust')}#history", 303)
