"""Memory, Trust, In and out."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from memalign_server.review.judges import Judges
from memalign_server.store import Store
from server_support import reviewing, world
from server_support.reviewing import answer, post, put_in, wait


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
        found = list(pool.map(judges.latest, ["tone"] * 8))
    assert (loads, len(set(map(id, found)))) == ([1], 1)


def test_an_erased_case_is_gone_with_a_receipt(taught: TestClient, tmp_path: Path) -> None:
    assert "late@local" in taught.get("/judges/tone/erase?key=late").text
    done = post(taught, "/judges/tone/erase", key="late", confirmed="yes").headers["location"]
    wait(taught)
    page = taught.get(done).text
    assert "It is gone, from every version and every table." in page
    link = re.findall(r'href="(/judges/tone/receipts/\w+)"', page)[0]
    receipt = taught.get(link).json()
    assert receipt["complete"]
    assert "late" not in receipt["counts"]
    assert b"three weeks late" not in (tmp_path / "memalign.db").read_bytes()
    assert b"Show sympathy first" not in (tmp_path / "memalign.db").read_bytes()
    assert taught.get("/judges/tone/review", params={"case": "late"}).status_code == 410
    assert "late" not in taught.get("/judges/tone/download/cases.jsonl").text


@pytest.mark.parametrize("name", ["cases.csv", "cases.xlsx"])
def test_tables_are_taken_in(local: TestClient, tmp_path: Path, name: str) -> None:
    import polars as pl

    table = pl.DataFrame(reviewing.CASES)
    path = tmp_path / name
    if name.endswith("csv"):
        table.write_csv(path)
    else:
        from openpyxl import Workbook

        book = Workbook()
        for row in (table.columns, *table.rows()):
            book.active.append(list(row))
        book.save(path)
    local.post("/judges/tone/data", files={"file": (name, path.read_bytes())}, data={"what": "cases"})
    wait(local)
    assert "Case 1 of 5" in local.get("/judges/tone/review").text


def test_a_bad_file_says_what_is_wrong(local: TestClient) -> None:

    def sent(name: str, body: bytes) -> Any:
        form = {"what": "cases"}
        return local.post("/judges/tone/data", files={"file": (name, body)}, data=form, headers={"accept": "text/html"})

    for name, body, why in (
        ("cases.pdf", b"%PDF", "a file is one of .jsonl"),
        ("cases.jsonl", b"", "cases.jsonl"),
        ("cases.jsonl", json.dumps({"id": "x" * 501, "inputs": "a", "outputs": "b"}).encode(), "give shorter ones"),
        ("cases.jsonl", b'{"inputs": "no id"}\n{"id": 3', "2"),
        ("../../cases.csv", b"a,b\n1,2\n", ""),
    ):
        answered = sent(name, body)
        assert answered.status_code == 422, answered.text
        assert why in answered.text
        assert "Something is missing" in answered.text


def test_given_feedback_is_learned(local: TestClient) -> None:
    lines = "\n".join(json.dumps({**case, "value": True, "rationale": "Fine."}) for case in reviewing.CASES[:2])
    form = {"what": "feedback"}
    local.post("/judges/tone/data", files={"file": ("f.jsonl", lines)}, data=form, follow_redirects=False)
    wait(local)
    assert len(local.app.state.server.judges.latest("tone").judge.memory) == 2  # type: ignore[attr-defined]  # a FastAPI
    assert '"source": "local"' in local.get("/judges/tone/download/feedback.jsonl").text.replace('":"', '": "')


def test_a_page_asks_how_far_a_job_is(tmp_path: Path) -> None:
    world.registry(tmp_path)
    idle = TestClient(world.server(tmp_path), base_url=world.ADDRESS)  # its worker has not started
    job = post(idle, "/judges/tone/data", what="judge").headers["location"].partition("job=")[2]
    place = f"/judges/tone/jobs/{job}"
    assert idle.get(place).status_code == 204  # nothing has moved since
    assert "waiting for its turn" in idle.get(place, params={"phase": "judging", "done": 2}).text
    assert idle.get("/judges/tone/jobs/other").status_code == 422
    idle.app.state.server.jobs.end(job, "done", result={})  # type: ignore[attr-defined]  # a FastAPI
    ended = idle.get(place)
    assert (ended.text, ended.headers["hx-redirect"]) == ("", f"/judges/tone/setup?open=cases&job={job}")
