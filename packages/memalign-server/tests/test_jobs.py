"""Long work: followed, stopped, started again, whatever becomes of the server that began it."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from memalign_server.server import Judges
from memalign_server.store import Store
from memalign_server.store.tables import jobs as table
from memalign_server.store.tables import later
from memalign_server.work.jobs import Job, Jobs
from memalign_server.work.judging import Work
from server_support import world
from server_support.reviewing import FEEDBACK, call, ended, expect, job_ended, post
from tests.support.patience import PATIENCE


def align(client: TestClient, rows: Any = FEEDBACK) -> Any:
    return ended(client, call(client, "align", feedback=rows).json())


def test_bad_rows_fail_the_job_with_their_lines(local: TestClient) -> None:
    failed = align(local, [{"id": "x", "outputs": "y", "value": "maybe"}])
    assert failed["state"] == "failed"
    assert "line 1 (x)" in failed["problem"]
    assert local.get("/api/v1/judges").json()[0]["latest"] == 1


def killed(
    folder: Path, kind: str, arguments: dict[str, Any], state: str = "running"
) -> tuple[Jobs, str]:
    """A job that a process had asked for or begun when it was killed."""
    registry = world.registry(folder)
    jobs = Jobs(Store(registry.url), registry)
    job = jobs.start(kind, "tone", arguments, asked_by="ana")
    with jobs.store.write() as connection:
        connection.execute(update(table).values(state=state))
    return jobs, job.id


def restarted(jobs: Jobs, job: str) -> Job:
    """The job once the next process has begun."""
    jobs.open()
    jobs.close()
    return job_ended(jobs, job)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_work_of_a_killed_server_says_so(state: str, tmp_path: Path) -> None:
    job = restarted(*killed(tmp_path, "align", {"feedback": FEEDBACK}, state))
    assert job.state == "failed"
    assert "ask for it again" in str(job.problem)


def test_work_of_a_server_that_is_stopped_says_so(place: str) -> None:
    started = threading.Event()

    async def never(_request: Any) -> dict[str, Any]:
        started.set()
        await asyncio.sleep(PATIENCE)
        raise AssertionError("not stopped")

    with world.site(place, script=never) as client:
        job = call(client, "align", feedback=FEEDBACK).json()
        assert started.wait(PATIENCE)
    with world.client(place) as client:
        stopped = ended(client, job)
        assert stopped["state"] == "failed"
        assert "ask for it again" in stopped["problem"]
        assert align(client)["state"] == "done"


def test_an_erasure_keeps_its_receipt_over_a_kill(tmp_path: Path) -> None:
    jobs, job = killed(tmp_path, "erase", {"keys": ["t-1"]})
    registry = world.opened(tmp_path)
    registry.align("tone", FEEDBACK)
    registry.erase("tone", ["t-1"])  # and here the server is killed
    found = restarted(jobs, job)
    assert (found.state, found.result["complete"]) == ("done", False)
    assert found.result["counts"].startswith("1 case, 1 comment")
    assert "before what is left was searched" in found.result["problem"]


def test_an_erasure_takes_all_work_of_the_judge(tmp_path: Path) -> None:
    begun = threading.Semaphore(0)
    finish = threading.Event()

    async def held(_work: Work) -> dict[str, Any]:
        begun.release()
        await asyncio.to_thread(finish.wait, PATIENCE)
        return {"guidelines": ["A customer such as Ms Okafor gets a call."]}

    registry = world.registry(tmp_path)
    jobs = Jobs(Store(registry.url), registry, kinds={"align": held})
    registry.align("tone", FEEDBACK)
    jobs.open()
    try:
        for arguments in ({}, {}, {"feedback": FEEDBACK}, {}):
            jobs.start("align", "tone", arguments, asked_by="ana")
        assert begun.acquire(timeout=PATIENCE)
        assert begun.acquire(timeout=PATIENCE)
        assert not begun.acquire(timeout=0.5), "two at once"
        registry.erase("tone", ["t-1"])
        finish.set()
        done = [job_ended(jobs, job.id) for job in jobs.recent("tone")]
    finally:
        finish.set()
        jobs.close()
    assert len(done) == 4
    for job in done:
        assert job.state == "failed"
        assert "an erasure took what this was to work on" in str(job.problem)
        assert job.result is None, "which may repeat what went"


def test_old_jobs_go_and_receipts_stay(tmp_path: Path) -> None:
    jobs, _ = killed(tmp_path, "teach", {}, "done")
    jobs.start("erase", "tone", {}, asked_by="ana")
    with jobs.store.write() as connection:
        long_ago = later(-31 * 86400)
        connection.execute(update(table).values(state="done", ended_at=long_ago))
    jobs.start("queue", "tone", {}, asked_by="ana")
    assert {job.kind for job in jobs.recent("tone")} == {"erase", "queue"}


def test_a_page_asks_how_far_a_job_is(tmp_path: Path) -> None:
    world.registry(tmp_path)
    idle = world.client(tmp_path)  # its worker has not started
    begun = post(idle, "/judges/tone/setup/cases", what="judge").headers["location"]
    job = begun.partition("job=")[2]
    place = f"/judges/tone/jobs/{job}"
    assert idle.get(place).status_code == 204  # nothing has moved since
    moved = idle.get(place, params={"phase": "judging", "done": 2})
    expect(moved, 200, "waiting for its turn")
    assert idle.get("/judges/tone/jobs/other").status_code == 422
    world.server_of(idle).jobs.end(job, "done", result={})
    ended = idle.get(place, headers={"x-part": "true"})
    assert ended.text == ""
    assert ended.headers["x-go-to"] == begun


def test_a_new_version_is_loaded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = world.registry(tmp_path)
    judges = Judges(registry, Store(registry.url))
    loads = list[int | None]()
    load = registry.load

    def slow(name: str, version: int | None = None) -> Any:
        loads.append(version)
        time.sleep(0.05)  # as a large memory takes
        return load(name, version)

    monkeypatch.setattr(registry, "load", slow)
    with ThreadPoolExecutor(8) as pool:
        loaded = set(map(id, pool.map(judges.latest, ["tone"] * 8)))
    assert loads == [1]
    assert len(loaded) == 1
