"""Erasing: what would go, then that it is gone, with the receipt."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Form, Query, Request
from fastapi.responses import RedirectResponse, Response

from memalign_server.pages.rendering import link, render
from memalign_server.problems import Refused
from memalign_server.routing import guarded_router
from memalign_server.server import Asking, Here, Server
from memalign_server.work.jobs import Job

__all__ = ["router"]

router = guarded_router(prefix="/judges/{judge}")


@router.get("/erase")
def erase_page(
    request: Request,
    judge: str,
    server: Here,
    key: Annotated[list[str] | None, Query()] = None,
    source: Annotated[str, Query(max_length=200)] = "",
    matching: Annotated[str, Query(max_length=2000)] = "",
    job: str | None = None,
) -> Response:
    """What an erasure would take; after it, the receipt."""
    done = _erasure(server, judge, job) if job is not None else None
    keys = [each for line in key or () for each in line.split("\n") if each.strip()]
    preview = None
    if done is None and (keys or source or matching):
        preview = server.registry.erase(
            judge, keys, source=source or None, matching=matching or None, dry_run=True
        ).to_dict()
    return render(
        request,
        "erase.html",
        judge=judge,
        page="memory",
        keys=keys,
        source=source,
        matching=matching,
        preview=preview,
        job=done,
        receipt=None if done is None else done.result,
    )


@router.post("/erase")
def erase_feedback(
    judge: str,
    server: Here,
    person: Asking,
    key: Annotated[list[str] | None, Form()] = None,
    source: Annotated[str, Form()] = "",
    matching: Annotated[str, Form()] = "",
) -> Response:
    """Erase feedback from every version, for good."""
    if not (key or source or matching):
        raise Refused("say what to erase: a case, a person or a text")
    given: dict[str, Any] = {"keys": key or [], "source": source or None, "matching": matching or None}
    job = server.jobs.start("erase", judge, given, asked_by=person.name)
    return RedirectResponse(link(judge, "erase", job=job.id), 303)


@router.post("/delete")
def delete_judge_page(judge: str, server: Here, name: Annotated[str, Form(max_length=200)] = "") -> Response:
    """Delete a judge with all that belongs to it, once its name is typed."""
    if name.strip() != judge:
        raise Refused("type the judge's name to delete it: '{judge}'", judge=judge)
    server.registry.delete(judge)
    return RedirectResponse("/", 303)


@router.get("/receipts/{job}")
def receipt(judge: str, job: str, server: Here) -> Response:
    """The signed receipt of an erasure, as a file that `memalign verify` reads."""
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
