"""Jobs: how far long work is, what it gave, and how to stop it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from memalign_server.api import shapes
from memalign_server.api.judges import JudgeName
from memalign_server.api.paging import Cursor, Limit, Page, after, cut
from memalign_server.problems import Problem
from memalign_server.routing import guarded_router
from memalign_server.server import Here, Server
from memalign_server.work.events import events_of
from memalign_server.work.jobs import Job

__all__ = ["router"]

router: APIRouter = guarded_router(prefix="/judges/{judge}/jobs", tags=["jobs"])

JobId = Annotated[str, Path(max_length=32, description="The job's id.")]


def _found(server: Server, judge: str, job: str) -> Job:
    found = server.jobs.find(job)
    if found is None or found.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    return found


@router.get("")
def list_jobs(
    judge: JudgeName,
    server: Here,
    active: Annotated[bool, Query(description="Only those that wait or run.")] = False,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[shapes.JobShown]:
    """Jobs of a judge, the newest first."""
    found = server.jobs.recent(judge, active=active, limit=limit + 1, before=after(cursor) or "")
    return cut([shapes.JobShown(**each.to_dict()) for each in found], limit, lambda each: each.created_at)


@router.get("/{job}")
def show_job(judge: JudgeName, job: JobId, server: Here) -> shapes.JobShown:
    """One job: its state, how far it is, and what it gave."""
    return shapes.JobShown(**_found(server, judge, job).to_dict())


@router.get(
    "/{job}/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
def watch_job(judge: JudgeName, job: JobId, server: Here) -> StreamingResponse:
    """What happens to a job, as server-sent events, until it has ended: `progress`, then `done`, `failed` or `cancelled`."""
    return StreamingResponse(events_of(server.jobs, _found(server, judge, job).id), media_type="text/event-stream")


@router.delete("/{job}")
def cancel_job(judge: JudgeName, job: JobId, server: Here) -> shapes.JobShown:
    """Stop a job. An erasure that has begun goes on: half of one would be none."""
    found = _found(server, judge, job)
    if found.kind == "erase" and found.state == "running":
        raise Problem(409, "an erasure that has begun cannot be stopped")
    stopped = server.jobs.cancel(found.id) or found
    return shapes.JobShown(**stopped.to_dict())
