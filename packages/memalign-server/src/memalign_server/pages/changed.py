"""What changed: the judge while it learns, what it was taught, and which verdicts turned."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from memalign.types import guideline_number
from memalign_server.pages.rendering import link, render
from memalign_server.people.access import Asking
from memalign_server.problems import Problem, Refused
from memalign_server.review.answers import say_drafts
from memalign_server.review.blind import hidden_from
from memalign_server.review.teaching import untaught_count
from memalign_server.review.turning import readable_first, turns_of_version, versions_with_turns
from memalign_server.server import JUDGE, Here, Server
from memalign_server.work.jobs import Job

__all__ = ["router"]

router = APIRouter(prefix="/judges/{judge}", dependencies=[JUDGE])

_LEARNING = ("teach", "align", "unalign", "erase")
_OF_OWNERS = ("erase", "pull")


@router.post("/teach")
def teach_judge(judge: str, server: Here, person: Asking) -> Response:
    """Begin to teach the judge what it has not learned, unless that is under way; then show it.

    What the person has typed on cases that they answered is taught with it.
    """
    kind = server.judges.latest(judge).judge.value_type
    with server.store.write() as connection:
        say_drafts(connection, judge, person.name, kind=kind)
    running = [each for each in server.jobs.recent(judge, active=True) if each.kind == "teach"]
    job = (
        running[0]
        if running and running[0].state == "queued"
        else server.jobs.start("teach", judge, {}, asked_by=person.name)
    )
    return RedirectResponse(link(judge, "changed", job=job.id), 303)


@router.get("/jobs/{job}")
def job_progress(request: Request, judge: str, job: str, server: Here, phase: str = "", done: int = 0) -> Response:
    """How far a job is, for the part of a page that asks every second: nothing until it has moved on from there.

    Once the job has ended, the browser is sent to the page of its result.
    """
    running = _job(server, judge, job, result=False)
    if running.ended:
        page = {"erase": "erase", "queue": "data", "pull": "data"}.get(running.kind, "changed")
        return Response(headers={"HX-Redirect": link(judge, page, job=job)})
    if (running.phase, running.done) == (phase, done):
        return Response(status_code=204)
    return render(request, "working.html", job=running)


@router.post("/jobs/{job}/again")
def start_again(judge: str, job: str, server: Here, person: Asking) -> Response:
    """Start work again that died with its server; then show it."""
    old = _job(server, judge, job, result=False)
    if not person.owner and (old.kind in _OF_OWNERS or old.asked_by != person.name):
        raise Problem(403, "this is for owners: ask one")
    new = server.jobs.start_again(old, asked_by=person.name)
    page = {"erase": "erase", "queue": "data", "pull": "data"}.get(old.kind, "changed")
    return RedirectResponse(link(judge, page, job=new.id), 303)


@router.get("/changed")
def changed_page(
    request: Request,
    judge: str,
    server: Here,
    person: Asking,
    job: str | None = None,
    version: int | None = None,
) -> Response:
    """A job while it runs, and after it what it changed; without one the newest version that changed something."""
    found = None if job is None else _job(server, judge, job)
    if found is None and version is None:
        latest = next((other.id for other in server.jobs.recent(judge) if other.kind in _LEARNING), None)
        found = None if latest is None else server.jobs.find(latest)
    if found is not None and not found.ended:
        return render(request, "learning.html", judge=judge, page="changed", job=found)
    if found is not None and found.kind in ("queue", "pull"):
        return RedirectResponse(link(judge, "data", job=found.id), 303)
    result: dict[str, Any] = (found.result if found is not None else None) or {}
    number = version or result.get("version") or result.get("latest")
    loaded = server.judges.latest(judge)
    memory = loaded.judge.memory
    rules = {rule.id: rule for rule in memory.guidelines}
    learned = [
        rules[each["id"]] for each in result.get("guidelines", ()) if isinstance(each, dict) and each["id"] in rules
    ]
    with server.store.read() as connection:
        versions = versions_with_turns(connection, judge)
        number = number or (versions[0] if versions else None)
        turned = turns_of_version(connection, judge, number) if number else []
        hidden = hidden_from(connection, judge, person.name, [each.case_id for each in turned])
        waiting = untaught_count(connection, judge)
    return render(
        request,
        "changed.html",
        judge=judge,
        page="changed",
        job=found,
        result=result,
        version=number,
        versions=versions,
        learned=sorted(learned, key=lambda rule: (memory.status(rule) != "active", guideline_number(rule.id))),
        memory=memory,
        turned=readable_first(turned, hidden),
        hidden=hidden,
        untaught=waiting,
        problem=_problem(found),
    )


def _job(server: Server, judge: str, job: str, *, result: bool = True) -> Job:
    found = server.jobs.find(job, result=result)
    if found is None or found.judge != judge:
        raise Refused("there is no job '{job}' of '{judge}'", job=job, judge=judge)
    return found


def _problem(job: Job | None) -> str | None:
    return job.problem if job is not None and job.state == "failed" else None
