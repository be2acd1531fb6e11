"""Memory and Trust, and how far a job is."""

from __future__ import annotations

from pathlib import Path

from fastapi.testclient import TestClient

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
