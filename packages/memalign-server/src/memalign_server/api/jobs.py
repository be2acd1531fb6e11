"""Jobs: how far long work is, what it gave, and how to stop it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from memalign_server.api import shapes
from memalign_server.api.judges import JudgeName
from memalign_server.api.paging import Cursor, Limit, Page, after, cut
from memalign_server.problems import Problem
from memalign_server.review.blind import hidden_from, ids_in, without_hidden
from memalign_server.routing import guarded_router
from memalign_server.server import Blind, Here, Owning, Server
from memalign_server.work.jobs import Job

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}/jobs", tags=["jobs"])

_LEARNING = frozenset(("align", "teach", "unalign"))

JobId = Annotated[str, Path(max_length=32, description="The job's id.")]


def _found(server: Server, judge: str, job: str) -> Job:
    found = server.jobs.find(job)
    if found is None or found.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    return found


def _told(server: Server, job: Job, blind: str | None, *, owner: bool) -> dict[str, Any]:
    """A job as somebody may see it: without verdicts and answers on cases that still wait for them.

    Whoever had cases judged has seen the verdicts, and is told them; what others said, which learning reports, is not.
    """
    found = job.to_dict()
    if owner or blind is None or found["result"] is None or (job.asked_by == blind and job.kind not in _LEARNING):
        return found
    ids = ids_in(found["result"])
    with server.store.read() as connection:
        hidden = hidden_from(connection, job.judge, blind, ids)
    return {**found, "result": without_hidden(found["result"], hidden)} if hidden else found


@router.get("")
def list_jobs(
    judge: JudgeName,
    server: Here,
    blind: Blind,
    owner: Owning,
    active: Annotated[bool, Query(description="Only those that wait or run.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[shapes.JobShown]:
    """Jobs of a judge, the newest first."""
    found = server.jobs.recent(judge, active=active, limit=limit + 1, before=after(cursor) or "")
    return cut(
        [shapes.JobShown(**_told(server, each, blind, owner=owner)) for each in found],
        limit,
        lambda each: each.created_at,
    )


@router.get("/{job}")
def show_job(judge: JudgeName, job: JobId, server: Here, blind: Blind, owner: Owning) -> shapes.JobShown:
    """One job: its state, how far it is, and what it gave. What it tells of cases that wait for you is left out."""
    return shapes.JobShown(**_told(server, _found(server, judge, job), blind, owner=owner))


@router.delete("/{job}")
def cancel_job(judge: JudgeName, job: JobId, server: Here, blind: Blind, owner: Owning) -> shapes.JobShown:
    """Stop a job. An erasure that has begun goes on: half of one would be none."""
    found = _found(server, judge, job)
    if found.kind == "erase" and found.state == "running":
        raise Problem(409, "an erasure that has begun cannot be stopped")
    stopped = server.jobs.cancel(found.id) or found
    return shapes.JobShown(**_told(server, stopped, blind, owner=owner))
