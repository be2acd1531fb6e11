"""Long work: followed, stopped, and finished whatever becomes of the server that began it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from memalign_server.store import Store
from memalign_server.store.erasing import ERASING
from memalign_server.store.work_tables import jobs as table
from memalign_server.work.jobs import Jobs
from memalign_server.work.worker import Worker
from server_support import world
from tests.cli.conftest import answer as tone_answer
from tests.support.endpoint import Answer, Endpoint

FEEDBACK = [{**row, "source": "ana"} for row in world.ROWS]
SOON = 60.0  # seconds that a slow machine may take


def ended(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        found: dict[str, Any] = client.get(f"/api/v1/judges/{job['judge']}/jobs/{job['id']}").json()
        if found["state"] in ("done", "failed"):
            return found
        time.sleep(0.05)
    raise AssertionError(f"not ended: {job}")


def learned(client: Any) -> dict[str, str]:
    """The state of each piece of feedback, by its key."""
    memory = client.app.state.server.judges.latest("tone").judge.memory
    return {str(entry.key): entry.state for entry in memory.ledger()}


def version(client: Any) -> int:
    (judge,) = client.get("/api/v1/judges").json()
    return int(judge["latest"])


def test_an_align_is_a_job_with_a_result(local: TestClient) -> None:
    begun = local.post("/api/v1/judges/tone/align", json={"feedback": FEEDBACK})
    assert begun.status_code == 202
    assert begun.headers["location"] == f"/api/v1/judges/tone/jobs/{begun.json()['id']}"
    done = ended(local, begun.json())
    assert done["state"] == "done"
    assert [row["state"] for row in done["result"]["rows"]] == ["learned", "learned"]
    assert learned(local) == {"t-1@ana": "learned", "t-2@ana": "learned"}


def test_bad_rows_fail_the_job_with_their_lines(local: TestClient) -> None:
    job = local.post("/api/v1/judges/tone/align", json={"feedback": [{"id": "x", "outputs": "y", "value": "maybe"}]})
    failed = ended(local, job.json())
    assert failed["state"] == "failed"
    assert "line 1 (x)" in failed["problem"]
    assert version(local) == 1


def test_a_server_that_stops_gives_its_work_back(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def never(_request: Any) -> dict[str, Any]:
        started.set()
        await asyncio.sleep(SOON)
        raise AssertionError("not stopped")

    world.registry(tmp_path)
    with TestClient(world.server(tmp_path, script=never), base_url=world.ADDRESS) as client:
        job = client.post("/api/v1/judges/tone/align", json={"feedback": FEEDBACK}).json()
        until = time.monotonic() + SOON
        while not started.is_set() and time.monotonic() < until:
            time.sleep(0.02)
    with TestClient(world.server(tmp_path), base_url=world.ADDRESS) as client:
        assert ended(client, job)["state"] == "done"
        assert learned(client) == {"t-1@ana": "learned", "t-2@ana": "learned"}


def waiting(folder: Path, *, starts: int = 1, kind: str = "align") -> tuple[Jobs, str]:
    """A job that a server began; its process is no more."""
    jobs = Jobs(Store(world.registry(folder).url))
    job = jobs.start(kind, "tone", {"feedback": FEEDBACK} if kind == "align" else {"keys": ["t-1"]}, asked_by="ana")
    jobs.claim()
    with jobs.store.write() as connection:
        connection.execute(update(table).values(starts=starts))
    return jobs, job.id


def test_work_of_a_killed_server_is_taken_up(tmp_path: Path) -> None:
    _, job = waiting(tmp_path)
    with TestClient(world.server(tmp_path), base_url=world.ADDRESS) as client:
        assert ended(client, {"judge": "tone", "id": job})["state"] == "done"


def test_work_that_kills_servers_is_given_up(tmp_path: Path) -> None:
    _, job = waiting(tmp_path, starts=3)
    with TestClient(world.server(tmp_path), base_url=world.ADDRESS) as client:
        failed = ended(client, {"judge": "tone", "id": job})
    assert failed["state"] == "failed"
    assert "stopped 3 times" in failed["problem"]


def test_two_threads_never_take_the_same_job(tmp_path: Path) -> None:
    store = Store(world.registry(tmp_path).url)
    jobs = [Jobs(store), Jobs(Store(f"sqlite:///{tmp_path / 'memalign.db'}"))]
    for number in range(20):
        jobs[0].start("judge", "tone", {"examples": [], "n": number}, asked_by="ana")
    taken: list[str] = []

    def take(own: Jobs) -> None:
        while (job := own.claim()) is not None:
            taken.append(job.id)

    threads = [threading.Thread(target=take, args=(own,)) for own in jobs * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 20


def test_an_erasure_keeps_its_receipt_over_a_kill(tmp_path: Path) -> None:
    jobs, job = waiting(tmp_path, kind="erase")
    registry = world.opened(f"sqlite:///{tmp_path / 'memalign.db'}")
    registry.align("tone", FEEDBACK)
    ERASING.set(job)
    registry.erase("tone", ["t-1"])  # and here the server is killed
    ERASING.set(None)
    worker = Worker(jobs, registry, at_once=1)
    worker.start()
    until = time.monotonic() + SOON
    while (found := jobs.find(job)) is not None and not found.ended and time.monotonic() < until:
        time.sleep(0.05)
    worker.stop()
    assert found is not None
    assert found.state == "done"
    assert found.result["counts"].startswith("1 case, 1 comment")
    assert found.result["complete"] is False
    assert "before what is left was searched" in found.result["problem"]


# -- a process of its own, killed ------------------------------------------------------------------------------------


class Process:
    """`memalign serve` as a process of its own on a free port."""

    def __init__(self, folder: Path, base_url: str) -> None:
        environment = {**os.environ, "OPENAI_BASE_URL": base_url, "NO_PROXY": "*"}
        command = [sys.executable, "-m", "memalign", "serve", "--port", "0", "--registry", str(folder / "memalign.db")]
        self.running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.running.stderr is not None
        line = self.running.stderr.readline()
        assert "memalign is at http://127.0.0.1:" in line, line
        self.client = httpx2.Client(base_url=line.split()[3].rstrip(","), timeout=SOON, trust_env=False)

    def kill(self) -> None:
        self.running.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        self.running.wait(SOON)
        self.client.close()
        assert self.running.stderr is not None
        self.running.stderr.close()


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Endpoint]:
    """A model that takes its time to distil."""

    def answer(body: dict[str, Any]) -> Answer:
        properties = body["response_format"]["json_schema"]["schema"]["properties"]
        if "changes" in properties:
            time.sleep(1.0)
        return tone_answer(body)

    with Endpoint(answer) as endpoint:
        yield endpoint


@pytest.mark.slow
def test_a_killed_process_loses_nothing(tmp_path: Path, slow: Endpoint) -> None:
    registry = world.opened(f"sqlite:///{tmp_path / 'memalign.db'}")
    registry.create(world.judge("tone", model=f"openai:test@{slow.base_url}"))
    first = Process(tmp_path, slow.base_url)
    job = first.client.post("/api/v1/judges/tone/align", json={"feedback": FEEDBACK}).json()
    until = time.monotonic() + SOON
    while not slow.requests and time.monotonic() < until:
        time.sleep(0.02)
    first.kill()
    second = Process(tmp_path, slow.base_url)
    done = ended(second.client, job)
    assert done["state"] == "done", done
    assert second.client.get("/api/v1/judges").json()[0]["feedback"] == 2
    second.running.send_signal(signal.SIGINT)
    second.end()
    assert second.running.returncode == 0
