"""Erase a person: find a text everywhere, tick what goes, erase it, and the receipt.

A text to look for is sent as a form and kept nowhere: logs keep addresses. The page that answers a form holds it until it
is left, so that what an erasure leaves behind can be erased with one button.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, File, Form, Request, UploadFile
from fastapi.responses import RedirectResponse, Response
from sqlalchemy import select, update

from memalign.errors import UnknownKey
from memalign.memory.text_search import Finder
from memalign.registry import Receipt
from memalign.registry.residue import strings
from memalign.types import FeedbackKey, canonical_json
from memalign_server.pages.rendering import link, render
from memalign_server.pages.setup import render_setup
from memalign_server.people.access import OWNER, Asking
from memalign_server.people.people import Person, name_key
from memalign_server.problems import Refused
from memalign_server.review.cases import cases_of
from memalign_server.server import JUDGE, Here, Server
from memalign_server.store.columns import to_json
from memalign_server.store.tables import drafts, jobs, reviews
from memalign_server.work.jobs import Job

__all__ = ["Mention", "router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE, OWNER])

_MOST = 100  # mentions with a tick of their own; the others have one together
_LINE = 72  # characters of each
_REST = "rest"
_AT_ONCE = 500
_COUNT = re.compile(r" \((\d+) rows?\)$")
_PLACES = {
    "memalign_server_queue.": "cases",
    "memalign_server_reviews.": "comments",
    "memalign_server_drafts.": "comments",
    "memalign_server_people.": "people",
    "memalign_server_": "notes",
}
_OURS = ("cases", "comments", "notes")
"""What one more erasure takes; a name of the team, the question itself and tables of others stay."""
_CHECKED_BY = "HMAC-SHA256 by the server's secret; Set up, Erase a person, Check a receipt says whether it was changed"

Text = Annotated[str, Form(max_length=2000)]


@dataclass(frozen=True, kw_only=True)
class Mention:
    """A case, a comment or a learned sentence that holds a text.

    Attributes:
        tick: What its tick sends: the kind's letter and the id, key or guideline.
        kind: `taught` and `untaught` cases, `comment`, `learned`; `note` where only notes of work mention the text.
        whose: The person who wrote it; empty for the one who asks.
        text: The words; empty where only an earlier state has them.
        line: What is shown of them.
    """

    tick: str
    kind: Literal["taught", "untaught", "comment", "learned", "note"]
    whose: str = ""
    text: str = ""
    line: str = ""


# -- find and erase ----------------------------------------------------------------------------------------------------


@router.post("/find")
def find_mentions(request: Request, judge: str, server: Here, person: Asking, matching: Text = "") -> Response:
    """Everything that holds a text, taught or not, with a tick for each."""
    mentions = _mentions(server, judge, matching.strip(), person)
    rest, counts = max(0, len(mentions) - _MOST), _counts([mention.tick for mention in mentions])
    news = {"mentions": mentions[:_MOST], "ticked": len(mentions), "rest": rest, "counts": counts}
    return render_setup(request, server, judge, person, "erase", matching=matching.strip(), **news)


@router.post("/erase/ticks")
def count_ticks(request: Request, judge: str, tick: Annotated[list[str] | None, Form()] = None) -> Response:
    """The button that erases, with the number of what is ticked."""
    return render(request, "ticks.html", judge=judge, ticked=len(tick or ()), counts=_counts(tick or ()))


@router.post("/erase")
def erase_mentions(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    matching: Text = "",
    tick: Annotated[list[str] | None, Form()] = None,
    whole: Annotated[bool, Form()] = False,
) -> Response:
    """Erase what is ticked, for good; the `whole` of it for what an erasure has left."""
    text, ticks = matching.strip(), set(tick or ())
    mentions = _mentions(server, judge, text, person)
    chosen = [m for n, m in enumerate(mentions) if whole or m.tick in ticks or (n >= _MOST and _REST in ticks)]
    if not chosen:
        raise Refused("nothing is ticked, so nothing was erased")
    arguments: dict[str, Any] = {"matching": text, "sources": _sources(server, judge, text)}
    if len(chosen) < len(mentions):
        arguments = {
            "keys": [mention.tick[2:] for mention in chosen if mention.kind != "learned"],
            "sentences": [mention.text for mention in chosen if mention.kind == "learned"],
            "kept": len(mentions) - len(chosen),
        }
    job = server.jobs.start("erase", judge, arguments, asked_by=person.name)
    address = link(judge, f"receipts/{job.id}")
    if "hx-request" not in request.headers:
        return RedirectResponse(address, 303)
    answer = _receipt_page(request, job, matching=text)
    answer.headers["hx-push-url"] = address  # which loads without the text
    return answer


def _mentions(server: Server, judge: str, text: str, person: Person) -> list[Mention]:
    """What holds a text, or was said by a person of that name: cases, comments, sentences.

    Comments of cases that go, and sentences learned from what goes, are only listed where they hold the text themselves.
    """
    finder, receipts = Finder(text), list[Receipt]()
    selections: list[dict[str, Any]] = [{"matching": text}]
    sources = _sources(server, judge, text)
    selections += [{"source": source} for source in sources]
    for selection in selections:
        with suppress(UnknownKey):
            receipts.append(server.registry.erase(judge, **selection, dry_run=True))
    cases = sorted({case for receipt in receipts for case in receipt.cases})
    keys = sorted({key for receipt in receipts for key in receipt.keys})
    memory = server.judges.latest(judge).judge.memory
    taught = {case.id: case.example for case in memory.cases}
    words = {note.key: [note.rationale or ""] for case in memory.cases for note in case.annotations}
    with server.store.read() as connection:
        queued = {case.example.id: case.example for part in _parts(cases) for case in cases_of(connection, judge, part)}
        for column in (reviews.c.rationale, drafts.c.words):
            table = column.table
            query = select(table.c.case_id, table.c.person, column).where(table.c.judge == judge, column.is_not(None))
            for part in _parts([key.id for key in keys]):
                for case_id, source, comment in connection.execute(query.where(table.c.case_id.in_(part))):
                    words.setdefault(FeedbackKey(case_id, source), []).append(comment)
    mentions = list[Mention]()
    for case_id in cases:
        example = queued.get(case_id) or taught.get(case_id)
        texts = [] if example is None else [*strings(example.outputs), *strings(example.content), case_id]
        kind: Literal["taught", "untaught"] = "taught" if case_id in taught else "untaught"
        mentions.append(Mention(tick=f"c:{case_id}", kind=kind, line=_line(texts, finder)))
    for key in keys:
        texts = words.get(key, [])
        if key.id not in cases or key.source in sources or any(map(finder.holds, texts)):
            whose = "" if key.source == person.name else key.source
            mentions.append(Mention(tick=f"k:{key}", kind="comment", whose=whose, line=_line(texts, finder)))
    rules = {rule for receipt in receipts for rule in receipt.guidelines}
    for rule in memory.guidelines:
        if rule.id in rules and finder.holds(rule.text):
            whose, line = ", ".join(sorted(rule.people - {person.name})), _line([rule.text], finder)
            mentions.append(Mention(tick=f"s:{rule.id}", kind="learned", whose=whose, text=rule.text, line=line))
    return mentions or [Mention(tick="note", kind="note")] * bool(receipts)


def _sources(server: Server, judge: str, text: str) -> list[str]:
    """The people of this name who said something."""
    memory = server.judges.latest(judge).judge.memory
    with server.store.read() as connection:
        names = set(connection.execute(select(reviews.c.person).where(reviews.c.judge == judge)).scalars())
    names |= {note.source for case in memory.cases for note in case.annotations}
    return sorted(name for name in names if name_key(name) == name_key(text))


def _line(texts: Sequence[str], finder: Finder) -> str:
    """The beginning of the first text that holds what is looked for, from a little before it where that is far in."""
    text = " ".join(next(filter(finder.holds, texts), next(iter(texts), "")).split())
    at = text.lower().find(" ".join(finder.text.lower().split()))
    start = text.rfind(" ", 0, at - _LINE // 3) + 1 if at > _LINE // 2 else 0
    end = start + _LINE
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _counts(ticks: Sequence[str]) -> dict[str, int]:
    letters = [tick[:2] for tick in ticks]
    return {"case": letters.count("c:"), "comment": letters.count("k:"), "sentence": letters.count("s:")}


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


# -- the receipt -------------------------------------------------------------------------------------------------------


@router.get("/receipts/{job}")
def receipt_page(request: Request, judge: str, job: str, server: Here) -> Response:
    """The receipt of an erasure, or how far it is."""
    return _receipt_page(request, _erasure(server, judge, job))


@router.post("/receipts/{job}")
def save_reference(
    request: Request, judge: str, job: str, server: Here, reference: Annotated[str, Form(max_length=200)] = ""
) -> Response:
    """Keep the reference under which the receipt is filed."""
    result = {**_receipt(_erasure(server, judge, job)), "reference": reference.strip()}
    with server.store.write() as connection:
        connection.execute(update(jobs).where(jobs.c.id == job).values(result=to_json(result)))
    parts = "hx-request" in request.headers
    return Response(status_code=204) if parts else RedirectResponse(link(judge, f"receipts/{job}"), 303)


@router.get("/receipts/{job}/file")
def receipt_file(judge: str, job: str, server: Here) -> Response:
    """The receipt as a file whose signature shows a change."""
    erasure = _erasure(server, judge, job)
    facts = {"receipt": erasure.id, "by": erasure.asked_by, **_receipt(erasure), "checked_by": _CHECKED_BY}
    text = json.dumps({**facts, "signature": _signature(server, facts)}, ensure_ascii=False, indent=2) + "\n"
    headers = {"content-disposition": f'attachment; filename="receipt-{erasure.id}.json"'}
    return Response(text, media_type="application/json", headers=headers)


@router.post("/receipts")
def check_receipt(
    request: Request, judge: str, server: Here, person: Asking, file: Annotated[UploadFile | None, File()] = None
) -> Response:
    """Whether a signed file is as this server wrote it."""
    try:
        facts = json.loads(b"" if file is None else file.file.read())
        genuine = hmac.compare_digest(facts.pop("signature"), _signature(server, facts))
    except (ValueError, KeyError, TypeError, AttributeError):
        genuine = False
    return render_setup(request, server, judge, person, "erase", genuine=genuine)


def _signature(server: Server, facts: dict[str, Any]) -> str:
    return hmac.new(server.store.secret, canonical_json(facts).encode(), hashlib.sha256).hexdigest()


def _erasure(server: Server, judge: str, job: str) -> Job:
    erasure = server.jobs.find(job)
    if erasure is None or erasure.judge != judge or erasure.kind != "erase":
        raise Refused("there is no erasure '{job}' of '{judge}'", job=job, judge=judge)
    return erasure


def _receipt(job: Job) -> dict[str, Any]:
    if not job.result:
        raise Refused("this erasure has no receipt: it has not ended, or failed")
    return dict(job.result)


def _receipt_page(request: Request, job: Job, *, matching: str = "") -> Response:
    """The page of an erasure; `matching` only in the answer to the form that began it."""
    receipt = job.result or {}
    places = [
        (_place(place), place, int(number[1]) if (number := _COUNT.search(place)) else 1)
        for place in receipt.get("left", ())
    ]
    places += [("elsewhere", name, 1) for name in receipt.get("elsewhere", ())]
    again = not receipt.get("kept") and any(kind in _OURS for kind, _, _ in places)
    return render(
        request,
        "receipt.html",
        judge=job.judge,
        page="setup",
        job=job,
        receipt=receipt,
        places=places,
        remaining=sum(number for _, _, number in places),
        again=again,
        matching=matching,
    )


def _place(place: str) -> str:
    """What lies at a place that a receipt names."""
    if ", the " in place:
        return "question"
    return next((kind for prefix, kind in _PLACES.items() if place.startswith(prefix)), "other")
