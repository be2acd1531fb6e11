"""Erasing: what would go, then that it is gone, with the receipt."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from memalign.registry.residue import strings
from memalign.types import Example
from memalign_server.pages.rendering import link, render
from memalign_server.people.access import OWNER, Asking
from memalign_server.problems import Refused
from memalign_server.review.cases import cases_of
from memalign_server.server import JUDGE, Here, Server
from memalign_server.work.jobs import Job

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_MOST = 100  # cases that a preview shows
_LINE = 120  # characters of each


@router.get("/erase", dependencies=[OWNER])
def erase_page(
    request: Request, judge: str, server: Here, key: Annotated[list[str] | None, Query()] = None, job: str | None = None
) -> Response:
    """What an erasure would take; after it, the receipt. A text to look for is sent as a form: logs keep addresses."""
    done = _erasure(server, judge, job) if job is not None else None
    keys = _keys(key) if done is None else []
    return _shown(request, server, judge, keys=keys, job=done)


@router.post("/erase", dependencies=[OWNER])
def erase_feedback(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    key: Annotated[list[str] | None, Form()] = None,
    source: Annotated[str, Form(max_length=200)] = "",
    matching: Annotated[str, Form(max_length=2000)] = "",
    confirmed: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """Show what would go; once that is confirmed, erase it from every version and table, for good."""
    keys, source, matching = _keys(key), source.strip(), matching.strip()
    if not (keys or source or matching):
        raise Refused("say what to erase: a case, a person or a text")
    if not confirmed:
        return _shown(request, server, judge, keys=keys, source=source, matching=matching)
    given: dict[str, Any] = {"keys": keys, "source": source or None, "matching": matching or None}
    job = server.jobs.start("erase", judge, given, asked_by=person.name)
    return RedirectResponse(link(judge, "erase", job=job.id), 303)


@router.post("/delete", dependencies=[OWNER])
def delete_judge_page(judge: str, server: Here, name: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Delete a judge with all that belongs to it, once its name is typed."""
    if name.strip() != judge:
        raise Refused("type the judge's name to delete it: '{judge}'", judge=judge)
    server.registry.delete(judge)
    return RedirectResponse("/", 303)


@router.get("/receipts/{job}", dependencies=[OWNER])
def receipt(judge: str, job: str, server: Here) -> Response:
    """The receipt of an erasure as a file."""
    found = _erasure(server, judge, job)
    if not found.result:
        raise Refused("this erasure has no receipt: it has not ended, or failed")
    text = json.dumps(found.result, ensure_ascii=False, indent=2) + "\n"
    headers = {"content-disposition": f'attachment; filename="receipt-{found.id}.json"'}
    return Response(text, media_type="application/json", headers=headers)


def _erasure(server: Server, judge: str, job: str) -> Job:
    found = server.jobs.find(job)
    if found is None or found.judge != judge or found.kind != "erase":
        raise Refused("there is no erasure '{job}' of '{judge}'", job=job, judge=judge)
    return found


def _keys(lines: list[str] | None) -> list[str]:
    return [each.strip() for line in lines or () for each in line.split("\n") if each.strip()]


def _shown(
    request: Request,
    server: Server,
    judge: str,
    *,
    keys: list[str],
    source: str = "",
    matching: str = "",
    job: Job | None = None,
) -> Response:
    preview, cases = None, list[tuple[str, str]]()
    if keys or source or matching:
        receipt = server.registry.erase(judge, keys, source=source or None, matching=matching or None, dry_run=True)
        preview = receipt.to_dict()
        with server.store.read() as connection:
            queued = cases_of(connection, judge, receipt.cases[:_MOST])
        cases = [(case.example.id, _first_line(case.example)) for case in queued]
    return render(
        request,
        "erase.html",
        judge=judge,
        page="memory",
        keys=keys,
        source=source,
        matching=matching,
        preview=preview,
        cases=cases,
        job=job,
        receipt=None if job is None else job.result,
    )


def _first_line(example: Example) -> str:
    """The beginning of a case, so that a person can tell which it is."""
    words = " ".join(" ".join(strings(list(example.content.values()))).split())
    return words if len(words) <= _LINE else f"{words[:_LINE]}…"
