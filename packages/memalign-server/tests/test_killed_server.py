"""A server that is killed, over SQLite and over PostgreSQL: nothing is lost, changed or there
twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import select

from memalign import Example
from memalign_server.store import Store
from memalign_server.store.cases import add_cases
from memalign_server.store.tables import reviews
from server_support import world
from server_support.reviewing import FEEDBACK, call, ended, eventually, numbered
from tests.support.patience import PATIENCE

CASES = [str(case["id"]) for case in numbered(200)]


class Process:
    """`memalign serve` on a free port over the registry at `url`."""

    def __init__(self, url: str) -> None:
        environment = {**os.environ, "NO_PROXY": "*"}
        command = world.serve_command(url)
        self.running = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment
        )
        line = self.running.stderr.readline()  # type: ignore[union-attr]  # it is a pipe
        assert "memalign is at http://127.0.0.1:" in line, line
        self.client = httpx2.Client(
            base_url=line.split()[3].rstrip(","), timeout=PATIENCE, trust_env=False
        )

    def end(self, by: signal.Signals) -> int:
        """End it by a signal; returns its exit status."""
        self.running.send_signal(by)
        status = self.running.wait(PATIENCE)
        self.client.close()
        self.running.stderr.close()  # type: ignore[union-attr]  # it is a pipe
        return status


@pytest.mark.slow
@world.ON_BOTH
def test_work_says_that_it_was_killed_and_every_acknowledged_answer_is_there_once(
    place: str,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a model that never answers
        model = f"openai:test@http://127.0.0.1:{silent.getsockname()[1]}/v1"
        world.opened(place).create(world.judge("tone", model=model))
        with Store(place).write() as connection:
            add_cases(connection, "tone", map(Example.from_dict, numbered(200)))
        first = Process(place)
        job = call(first.client, "align", feedback=FEEDBACK).json()
        acknowledged = answered_until_killed(first)
        assert len(acknowledged) < len(CASES), "the server was killed too late"
        first.end(signal.SIGKILL)

        second = Process(place)
        assert "ask for it again" in ended(second.client, job)["problem"]
        assert set(acknowledged) <= set(answers(place))
        # A browser sends what was not acknowledged again, and some of it was saved.
        for case in CASES:
            assert say(second.client, case).status_code == 200
        assert answers(place) == {case: (f"About {case}.", 1) for case in CASES}
        assert second.end(signal.SIGINT) == 0


def answered_until_killed(server: Process) -> list[str]:
    """Answer cases four at a time, kill the server after twenty; the cases whose answers it
    acknowledged."""
    sent = threading.Semaphore(0)
    acknowledged = list[str]()

    def send(cases: list[str]) -> None:
        for case in cases:
            try:
                saved = say(server.client, case)
            except httpx2.HTTPError:
                return  # it was killed
            assert saved.status_code == 200, saved.text
            acknowledged.append(case)
            sent.release()

    with ThreadPoolExecutor(4) as pool:
        quarters = [CASES[start::4] for start in range(4)]
        sending = pool.map(send, quarters)
        for _ in range(20):
            assert sent.acquire(timeout=PATIENCE)
        server.running.send_signal(signal.SIGKILL)
    assert [*sending] == [None] * 4
    return acknowledged


def say(client: httpx2.Client, case: str) -> httpx2.Response:
    form = {
        "case": case,
        "form": f"form of {case}",
        "revision": "0",
        "value": "false",
        "rationale": f"About {case}.",
    }
    return client.post("/judges/tone/review", data=form, headers={"x-part": "true"})


def answers(place: str) -> dict[str, tuple[str, int]]:
    """The words of every answered case, with how often it was answered."""
    with Store(place).read() as connection:
        rows = connection.execute(select(reviews)).all()
    return {row.case_id: (row.rationale, row.revision) for row in rows}


def refused(url: str) -> str:
    """What `memalign serve` says over a registry where it may not start."""
    command = world.serve_command(url)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    return done.stderr


@world.ON_BOTH
def test_a_second_server_says_so_and_stops_nothing(place: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        model = f"openai:test@http://127.0.0.1:{silent.getsockname()[1]}/v1"
        world.opened(place).create(world.judge("tone", model=model))
        first = Process(place)
        job = call(first.client, "align", feedback=FEEDBACK).json()
        silent.accept()[0].close()  # it is at work
        assert "another server works on" in refused(place)
        shown = first.client.get(f"/api/v1/judges/tone/jobs/{job['id']}").json()
        assert (shown["state"], shown["problem"]) == ("running", None)
        first.end(signal.SIGKILL)
        second = Process(place)  # what was killed holds nothing
        assert "ask for it again" in ended(second.client, job)["problem"]
        second.end(signal.SIGINT)


def test_a_link_to_the_registry_is_the_same_registry(tmp_path: Path) -> None:
    world.registry(tmp_path)
    (tmp_path / "link.db").symlink_to(tmp_path / "memalign.db")
    first = Process(f"sqlite:///{tmp_path}/memalign.db")
    assert "another server works on" in refused(f"sqlite:///{tmp_path}/link.db")
    first.end(signal.SIGINT)


def test_a_killed_server_leaves_no_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    world.registry(tmp_path)
    url = f"sqlite:///{tmp_path}/memalign.db"
    first = Process(url)
    sheet = "inputs,outputs\n" + "Ms Okafor asks,It is polite.\n" * 400_000
    form: Any = {"files": {"file": ("cases.csv", sheet)}, "data": {"what": "show"}}
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(first.client.post, "/judges/tone/setup/cases", **form)
        eventually(lambda: [*temporary.rglob("upload.csv")])
        first.running.send_signal(signal.SIGKILL)
        assert isinstance(sending.exception(), httpx2.HTTPError)
    first.end(signal.SIGKILL)
    assert [*temporary.rglob("upload.csv")], "the server was killed too late"
    Process(url).end(signal.SIGINT)
    assert not any(map(Path.is_file, temporary.rglob("*")))
