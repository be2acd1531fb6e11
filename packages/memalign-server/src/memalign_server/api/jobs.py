"""Jobs: how far long work is, what it gave, and how to stop it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import StreamingResponse

from memalign_server.problems import Problem
from memalign_server.routing import guarded_router
from memalign_server.server import Here, Server
from memalign_server.work.events import events_of
from memalign_server.work.jobs import Job

__all__ = ["router"]

router = guarded_router(prefix="/judges/{judge}/jobs", tags=["jobs"])


def _found(server: Server, judge: str, job: str) -> Job:
    found = server.jobs.find(job)
    if found is None or found.judge != judge:
        raise Problem(404, f"no job {job!r} of {judge!r}")
    return found


@router.get("")
def list_jobs(judge: str, server: Here, active: Annotated[bool, Query()] = False) -> dict[str, Any]:
    """Jobs of a judge, the newest first."""
    return {"jobs": [each.to_dict() for each in server.jobs.recent(judge, active=active)]}


@router.get("/{job}")
def show_job(judge: str, job: str, server: Here) -> dict[str, Any]:
    """One job: its state, how far it is, and what it gave."""
    return _found(server, judge, job).to_dict()


@router.get("/{job}/events")
def watch_job(judge: str, job: str, server: Here) -> StreamingResponse:
    """What happens to a job, as server-sent events, until it has ended."""
    return StreamingResponse(events_of(server.jobs, _found(server, judge, job).id), media_type="text/event-stream")


@router.delete("/{job}")
def cancel_job(judge: str, job: str, server: Here) -> dict[str, Any]:
    """Stop a job. An erasure that has begun goes on: half of one would be none."""
    found = _found(server, judge, job)
    if found.kind == "erase" and found.state == "running":
        raise Problem(409, "an erasure that has begun cannot be stopped")
    stopped = server.jobs.cancel(found.id) or found
    return stopped.to_dict()
