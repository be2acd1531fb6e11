"""Memory and Trust, and how far a job is."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memalign_server.server import Judges
from memalign_server.store import Store
from server_support import world
from server_support.reviewing import answer, post, put_in, wait


def test_a_page_asks_how_far_a_job_is(tmp_path: Path) -> None:
    world.registry(tmp_path)
    idle = TestClient(world.server(tmp_path), base_url=world.ADDRESS)  # its worker has not started
    job = post(idle, "/judges/tone/setup/cases", what="judge").headers["location"].partition("job=")[2]
    place = f"/judges/tone/jobs/{job}"
    assert idle.get(place).status_code == 204  # nothing has moved since
    assert "waiting for its turn" in idle.get(place, params={"phase": "judging", "done": 2}).text
    assert idle.get("/judges/tone/jobs/other").status_code == 422
    idle.app.state.server.jobs.end(job, "done", result={})  # type: ignore[attr-defined]  # a FastAPI
    ended = idle.get(place)
    assert (ended.text, ended.headers["hx-redirect"]) == ("", f"/judges/tone/setup?open=cases&job={job}")


@pytest.fixture
def taught(local: TestClient) -> TestClient:
    put_in(local)
    answer(local, "late", value="false", rationale="Show sympathy first.")
    answer(local, "thanks", value="true")
    post(local, "/judges/tone/teach")
    wait(local)
    return local


def test_a_new_version_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = world.registry(tmp_path)
    judges, loads = Judges(registry, Store(registry.url)), list[int | None]()

    def load(name: str, version: int | None = None, real: Any = registry.load) -> Any:
        loads.append(version)
        time.sleep(0.05)  # as a large memory takes
        return real(name, version)

    monkeypatch.setattr(registry, "load", load)
    with ThreadPoolExecutor(8) as pool:
        judges_loaded = list(pool.map(judges.latest, ["tone"] * 8))
    assert (loads, len(set(map(id, judges_loaded)))) == ([1], 1)


def test_an_erased_case_is_gone_with_a_receipt(taught: TestClient, tmp_path: Path) -> None:
    done = post(taught, "/judges/tone/erase", matching="three weeks late", whole="true").headers["location"]
    wait(taught)
    page = taught.get(done).text
    assert "We searched again afterwards: 0 left." in page
    link = re.findall(r'href="(/judges/tone/receipts/\w+/file)"', page)[0]
    receipt = taught.get(link).json()
    assert receipt["complete"]
    assert "late" not in receipt["counts"]
    assert b"three weeks late" not in (tmp_path / "memalign.db").read_bytes()
    assert b"Show sympathy first" not in (tmp_path / "memalign.db").read_bytes()
    assert taught.get("/judges/tone/review", params={"case": "late"}).status_code == 410
