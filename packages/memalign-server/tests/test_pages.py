"""Memory and Trust, and how far a job is."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memalign_server.server import Judges
from memalign_server.store import Store
from server_support import world
from server_support.reviewing import post


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
