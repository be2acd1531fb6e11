"""A server that is killed, over SQLite and over PostgreSQL: nothing is lost, changed or there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from memalign import Example
from memalign_server.review.cases import add_cases
from memalign_server.store import Store
from memalign_server.store.tables import reviews
from server_support import world
from server_support.reviewing import FEEDBACK, ended
from tests.cli.conftest import answer as tone_answer
from tests.support.endpoint import Answer, Endpoint
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.slow, world.ON_BOTH]
TONE = "/api/v1/judges/tone"
CASES = [f"c-{number}" for number in range(200)]


class Process:
    """`memalign serve` on a free port over the registry at `url`; models of OpenAI are at `base_url`."""

    def __init__(self, url: str, *, base_url: str = "http://127.0.0.1:9") -> None:
        environment = {**os.environ, "OPENAI_BASE_URL": base_url, "NO_PROXY": "*"}
        command = [sys.executable, "-m", "memalign", "serve", "--port", "0", "--registry", url]
        self.running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.running.stderr is not None
        line = self.running.stderr.readline()
        assert "memalign is at http://127.0.0.1:" in line, line
        self.client = httpx2.Client(base_url=line.split()[3].rstrip(","), timeout=PATIENCE, trust_env=False)

    def end(self, by: signal.Signals) -> int:
        """End it by a signal; returns its exit status."""
        self.running.send_signal(by)
        status = self.running.wait(PATIENCE)
        self.client.close()
        assert self.running.stderr is not None
        self.running.stderr.close()
        return status


def test_work_under_way_is_asked_for_again_for_nothing(place: str) -> None:
    asked, killed, requests = threading.Event(), threading.Event(), list[str]()

    def answer(body: dict[str, Any]) -> Answer:
        requests.append(str(body["messages"]))
        asked.set()
        assert killed.wait(PATIENCE)
        return tone_answer(body)

    with Endpoint(answer) as model:
        world.opened(place).create(world.judge("tone", model=f"openai:test@{model.base_url}"))
        first = Process(place, base_url=model.base_url)
        job = first.client.post(f"{TONE}/align", json={"feedback": FEEDBACK}).json()
        assert asked.wait(PATIENCE)
        first.end(signal.SIGKILL)
        killed.set()
        second = Process(place, base_url=model.base_url)
        assert "ask for it again" in ended(second.client, job)["problem"]
        again = second.client.post(f"{TONE}/align", json={"feedback": FEEDBACK}).json()
        assert ended(second.client, again)["state"] == "done"
        assert second.client.get("/api/v1/judges").json()[0]["feedback"] == 2
        assert second.end(signal.SIGINT) == 0


def test_every_answer_that_was_acknowledged_is_there_once(place: str) -> None:
    world.opened(place).create(world.judge("tone"))
    with Store(place).write() as connection:
        add_cases(connection, "tone", [Example(id=case, inputs=case, outputs=f"Reply to {case}.") for case in CASES])
    sent, acknowledged = threading.Semaphore(0), list[str]()

    def send(client: httpx2.Client, cases: list[str]) -> None:
        for case in cases:
            try:
                saved = say(client, case)
            except httpx2.HTTPError:
                return  # it was killed
            assert saved.status_code == 200, saved.text
            acknowledged.append(case)
            sent.release()

    first = Process(place)
    threads = [threading.Thread(target=send, args=(first.client, CASES[start::4])) for start in range(4)]
    for thread in threads:
        thread.start()
    assert all(sent.acquire(timeout=PATIENCE) for _ in range(20))
    first.running.send_signal(signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert len(acknowledged) < len(CASES), "the server was killed too late"
    first.end(signal.SIGKILL)

    second = Process(place)
    assert set(acknowledged) <= set(answers(place))
    for case in CASES:  # a browser sends what was not acknowledged again, and some of it was saved
        assert say(second.client, case).status_code == 200
    assert answers(place) == {case: (f"About {case}.", 1) for case in CASES}
    assert second.end(signal.SIGINT) == 0


def say(client: httpx2.Client, case: str) -> httpx2.Response:
    form = {"case": case, "form": f"form of {case}", "revision": "0", "value": "false", "rationale": f"About {case}."}
    return client.post("/judges/tone/review", data=form, headers={"hx-request": "true"})


def answers(place: str) -> dict[str, tuple[str, int]]:
    """The words of every answered case, with how often it was answered."""
    with Store(place).read() as connection:
        return {row.case_id: (row.rationale, row.revision) for row in connection.execute(select(reviews))}
