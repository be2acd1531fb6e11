"""The cases of a judge, for owners: how far the team is, a list to search, and taking out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Query
from fastapi.responses import Response

from memalign_server.people.access import OWNER
from memalign_server.problems import Refused
from memalign_server.server import JUDGE
from memalign_server.setup.routes import Screen
from memalign_server.store.answers import activity_of
from memalign_server.store.cases import counts_of, list_batches, list_cases, take_out
from memalign_server.trust.service import trust_of

router = APIRouter(prefix="/judges/{judge}/cases", dependencies=[JUDGE, OWNER])

_PAGE = 50  # cases

State = Literal["", "open", "answered", "disputed", "measuring", "failed"]


@router.get("")
def cases_page(
    setup: Screen,
    find: Annotated[str, Query(max_length=500)] = "",
    state: State = "",
    batch: Annotated[str, Query(max_length=40)] = "",
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    taken: int = 0,
) -> Response:
    """Show how far the team is, and the cases that hold a text and are in a state."""
    judge = setup.latest
    with setup.read() as connection:
        listed = list_cases(
            connection,
            judge,
            text=find,
            state=state,
            batch=batch,
            after=after,
            most=_PAGE + 1,
        )
        context: dict[str, Any] = {
            "counts": counts_of(connection, setup.judge),
            "answers": activity_of(connection, setup.judge),
            "batches": list_batches(connection, setup.judge),
            "trust": trust_of(
                connection, setup.judge, judge.value_type, setup.person.name
            ),
        }
    return setup.render(
        "cases.html",
        page="setup",
        listed=listed[:_PAGE],
        next=listed[_PAGE - 1].number if len(listed) > _PAGE else None,
        find=find,
        state=state,
        batch=batch,
        taken=taken,
        **context,
    )


@router.post("/take-out")
def take_cases_out(
    setup: Screen,
    case: Annotated[list[str] | None, Form()] = None,
    batch: Annotated[str, Form(max_length=40)] = "",
) -> Response:
    """Take cases out of the queue, by their ids or all that were added at once.

    Nothing that was said is lost.
    """
    if not (case or batch):
        raise Refused("nothing is ticked, so nothing was taken out")
    with setup.write() as connection:
        taken = take_out(connection, setup.judge, ids=case or (), batch=batch)
    return setup.go("cases", taken=taken)
