"""Erase a person: find a text everywhere, tick what goes, erase it, and the receipt.

A text to look for is sent as a form and kept nowhere: logs keep addresses. The page that answers a
form holds it until it is left, so that what an erasure leaves behind can be erased with one button.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import StringConstraints

from memalign_server.erase.choice import MOST, Choice
from memalign_server.erase.mentions import Search
from memalign_server.pages.rendering import error_text, link, render
from memalign_server.people.access import HAND, OWNER, download, is_part
from memalign_server.problems import Refused
from memalign_server.server import JUDGE, Here
from memalign_server.setup.routes import Screen
from memalign_server.store.jobs import change_receipt
from memalign_server.store.team import check_team_keeps_owner
from memalign_server.work.jobs import Job

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE, OWNER])

_COUNT = re.compile(r" \((\d+) rows?\)$")
_PLACES = {
    "memalign_server_queue.": "cases",
    "memalign_server_reviews.": "comments",
    "memalign_server_people.": "people",
    "memalign_server_": "notes",
}
_OURS = {"cases", "comments", "notes"}
"""What one more erasure takes; names of the team, the question and tables of others stay."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000), Form()]
Ticks = Annotated[list[str], Form(default_factory=list)]


def _search(setup: Screen, matching: Text = "") -> Search:
    server = setup.server
    return Search(
        server.registry, server.store, setup.latest, matching, setup.person.name
    )


Searched = Annotated[Search, Depends(_search)]


# -- find and erase --------------------------------------------------------------------------------


@router.post("/find")
def find_mentions(setup: Screen, search: Searched) -> Response:
    """Show everything that holds a text, taught or not, with a tick for each.

    What does not hold it has none yet.
    """
    mentions = []
    others = []
    ticks = []
    found = Counter[str]()
    for mention in search.mentions:
        if mention.apart:
            others.append(mention)
            continue
        mentions.append(mention)
        found[mention.noun or mention.kind] += 1
        if not mention.inside:
            ticks.append(mention.tick)
    return setup.show(
        "erase",
        matching=search.text,
        counts=Choice(search, ticks).counts,
        found=found,
        mentions=mentions[:MOST],
        more_mentions=len(mentions[MOST:]),
        others=others[:MOST],
        more_others=len(others[MOST:]),
    )


@router.post("/erase/ticks")
def count_ticks(setup: Screen, search: Searched, tick: Ticks) -> Response:
    """Show the button that erases, with the number of all that would go."""
    counts = Counter[str]()
    problem = ""
    try:
        counts = Choice(search, tick).counts
    except Refused as error:
        problem = error_text(setup.request, error)
    return setup.render("ticks.html", counts=counts, problem=problem)


@router.post("/erase", dependencies=[HAND])
def erase_mentions(
    setup: Screen, search: Searched, tick: Ticks, whole: Annotated[bool, Form()] = False
) -> Response:
    """Erase what is ticked, for good.

    The `whole` of what holds the text goes where an erasure has left something.
    """
    if not search.mentions or not (whole or tick):
        raise Refused("nothing is ticked, so nothing was erased")
    arguments = Choice(search, tick, whole).arguments
    with setup.read() as connection:
        check_team_keeps_owner(connection, arguments["leaves"])
    job = setup.start("erase", **arguments)
    address = link(setup.judge, f"receipts/{job.id}")
    if not is_part(setup.request):
        return RedirectResponse(address, 303)
    answer = _receipt_page(setup.request, job, matching=search.text)
    answer.headers["x-address"] = address  # which loads without the text
    return answer


# -- the receipt -----------------------------------------------------------------------------------


def _erasure(judge: str, job: str, server: Here) -> Job:
    erasure = server.jobs.find(job)
    if erasure is None or erasure.judge != judge or erasure.kind != "erase":
        raise Refused("there is no erasure '{job}' of '{judge}'", job=job, judge=judge)
    return erasure


Erasure = Annotated[Job, Depends(_erasure)]


@router.get("/receipts/{job}")
def receipt_page(request: Request, erasure: Erasure) -> Response:
    """Show the receipt of an erasure, or how far it is."""
    return _receipt_page(request, erasure)


@router.post("/receipts/{job}")
def save_reference(
    setup: Screen,
    erasure: Erasure,
    reference: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Keep the reference under which the receipt is filed."""
    receipt = {**_receipt(erasure), "reference": reference.strip()}
    with setup.write() as connection:
        change_receipt(connection, erasure.id, receipt)
    return setup.go(f"receipts/{erasure.id}")


@router.get("/receipts/{job}/file")
def receipt_file(erasure: Erasure) -> Response:
    """Send the receipt as a file."""
    facts = {
        "receipt": erasure.id,
        "by": erasure.asked_by,
        **_receipt(erasure),
    }
    return download(f"receipt-{erasure.id}.json", facts)


def _receipt(erasure: Job) -> dict[str, Any]:
    if not erasure.result:
        raise Refused("this erasure has no receipt: it has not ended, or failed")
    return dict(erasure.result)


def _receipt_page(request: Request, job: Job, *, matching: str = "") -> Response:
    """Render the page of an erasure; `matching` only in the answer to the form that began it."""
    receipt = job.result or {}
    places = [_place(place) for place in receipt.get("left", ())]
    places += [("elsewhere", name, 1) for name in receipt.get("elsewhere", ())]
    kinds = {kind for kind, _, _ in places}
    return render(
        request,
        "receipt.html",
        judge=job.judge,
        page="setup",
        job=job,
        receipt=receipt,
        places=places,
        again=not receipt.get("kept") and not _OURS.isdisjoint(kinds),
        matching=matching,
    )


def _place(place: str) -> tuple[str, str, int]:
    """Return what lies at a place that a receipt names, the place, and in how many rows."""
    kind = "other"
    for prefix, name in _PLACES.items():
        if place.startswith(prefix):
            kind = name
            break
    if ", the " in place:
        kind = "question"
    number = _COUNT.search(place)
    count = int(number[1]) if number else 1
    return kind, place, count
