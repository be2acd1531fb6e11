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

from memalign.align import write_guideline
from memalign_server.review.judges import Judges
from memalign_server.review.turning import Turn, readable_first
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


def test_a_guideline_is_edited_and_retired(taught: TestClient) -> None:
    post(taught, "/judges/tone/guidelines", guideline="G1", action="edit", text="Sympathy comes before facts.")
    page = taught.get("/judges/tone/memory").text
    assert "Sympathy comes before facts." in page
    assert "Words by local." in page
    post(taught, "/judges/tone/guidelines", guideline="G1", action="retire")
    assert "not in use" in taught.get("/judges/tone/memory").text


def test_many_guidelines_come_by_parts(local: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memalign_server.pages.memory._RULES", 2)
    texts = [f"A reply must name the order by number {number}." for number in range(1, 4)]
    registry = local.app.state.server.registry  # type: ignore[attr-defined]  # a FastAPI
    for text in texts:
        registry.update("tone", lambda old, text=text: write_guideline(old, text, by="olga"))
    first = local.get("/judges/tone/memory").text
    assert re.findall(r'<article class="card rule active" id="(\w+)"', first) == ["G1", "G2"]
    assert "1 to 2 of 3" in first
    assert 'rel="next" href="/judges/tone/memory?rule=G3#rules"' in first
    last = local.get("/judges/tone/memory?rule=G3").text
    assert re.findall(r'<article class="card rule active" id="(\w+)"', last) == ["G3"]
    edited = post(local, "/judges/tone/guidelines", guideline="G2", action="retire", back="/judges/tone/memory?rule=G3")
    assert edited.headers["location"] == "/judges/tone/memory?rule=G2#G2"


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


@pytest.mark.parametrize(
    ("text", "case"), [("THREE  weeks", "late"), ("the lamp", "lamp"), ('say "it BROKE"', "quoted")]
)
def test_cases_are_found_by_a_text_taught_or_not(taught: TestClient, text: str, case: str) -> None:
    put_in(taught, [{"id": "quoted", "inputs": 'They say\n"it broke" again.', "outputs": "Oh."}])
    page = taught.get("/judges/tone/memory", params={"find": text}).text
    assert "1 case found" in page
    assert f"<b>{case}</b>" in page


def test_withdrawn_feedback_is_not_taught_again(taught: TestClient) -> None:
    post(taught, "/judges/tone/withdraw", key="late@local")
    wait(taught)
    page = taught.get("/judges/tone/memory").text
    assert "A reply must show sympathy" not in page
    assert "withdrawn" in page
    assert "1 answered" in taught.get("/judges/tone/review").text
    post(taught, "/judges/tone/teach")
    wait(taught)
    assert "Show sympathy first." not in taught.get("/judges/tone/memory").text


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
    assert taught.get("/judges/tone/review", params={"case": "late"}).status_code == 422
    assert "late" not in taught.get("/judges/tone/download/cases.jsonl").text


def test_trust_shows_a_figure_from_blind_answers(local: TestClient) -> None:
    cases = [{**reviewing.CASES[0], "id": f"c-{n}", "inputs": f"Order {n} is late."} for n in range(10)]
    put_in(local, cases)
    for n in range(10):
        answer(local, f"c-{n}", value="true" if n < 8 else "false")
    page = local.get("/judges/tone/trust").text
    assert "80%" in page
    assert "49% to 94%" in page


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
    assert "5 left" in local.get("/judges/tone/review").text


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
    assert "2 pieces of feedback" in local.get("/judges/tone/memory").text
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
    assert (ended.text, ended.headers["hx-redirect"]) == ("", f"/judges/tone/data?job={job}")


def test_a_hidden_turns_place_tells_nothing() -> None:
    effects: tuple[Any, ...] = ("broken", "turned", "fixed", "fixed")
    turns = [
        Turn(case_id=name, before=True, after=False, label=None, effect=effects[n]) for n, name in enumerate("dcba")
    ]
    assert [turn.case_id for turn in readable_first(turns, {"d", "a"})] == ["c", "b", "a", "d"]
