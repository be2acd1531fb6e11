"""An erasure reaches every text of the server's tables, and no other text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from memalign import Example, ValueType
from memalign.errors import RegistryError
from memalign.registry import other_tables
from memalign_server.review.answers import Answer, save, save_draft
from memalign_server.review.cases import add_cases
from memalign_server.review.disputes import settle
from memalign_server.store import Store
from memalign_server.store.tables import jobs as table
from memalign_server.store.tables import queue, reviews
from memalign_server.work.jobs import Jobs
from server_support import world

YES_NO = ValueType.of("bool")
SECRET = "the parcel of Mrs Almeida was left behind the blue door of number nine"
FEEDBACK = [
    {"id": "t-1", "inputs": "Where is it?", "outputs": SECRET, "value": False, "rationale": "Cold.", "source": "ana"},
    {"id": "t-2", "inputs": "Thanks!", "outputs": "Any time!", "value": True, "rationale": "Warm.", "source": "ben"},
]


def arguments_of(jobs: Jobs, job: str) -> Any:
    """What a job was given, as the table keeps it."""
    with jobs.store.read() as connection:
        return connection.execute(select(table.c.arguments).where(table.c.id == job)).scalar_one()


def aligned(folder: Path) -> tuple[Store, Jobs, str]:
    registry = world.registry(folder)
    registry.align("tone", FEEDBACK)
    store = Store(registry.url)
    return store, Jobs(store, registry), registry.url


def test_job_results_and_waiting_arguments_lose_erased_text(tmp_path: Path) -> None:
    _store, jobs, url = aligned(tmp_path)
    ended = jobs.start("align", "tone", {}, asked_by="ana")
    jobs.end(ended.id, "done", result={"judgments": [{"id": "t-1", "rationale": f"It says: {SECRET}."}]})
    waiting = jobs.start("align", "tone", {"feedback": FEEDBACK}, asked_by="ana")
    receipt = world.opened(url).erase("tone", ["t-1"])
    assert receipt.complete, receipt.left
    assert SECRET.encode() not in (tmp_path / "memalign.db").read_bytes()
    assert [found.result for found in (jobs.find(ended.id),) if found] == [None]
    assert arguments_of(jobs, waiting.id) is None


def test_without_the_package_nothing_is_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, url = aligned(tmp_path)
    monkeypatch.setattr(other_tables, "entry_points", lambda **_: ())
    with pytest.raises(RegistryError, match="memalign-server"):
        world.opened(url).erase("tone", ["t-1"])
    assert world.opened(url).history("tone")[-1].number == 2


def test_a_dry_run_leaves_the_tables(tmp_path: Path) -> None:
    _, jobs, url = aligned(tmp_path)
    waiting = jobs.start("align", "tone", {"feedback": FEEDBACK}, asked_by="ana")
    world.opened(url).erase("tone", ["t-1"], dry_run=True)
    assert arguments_of(jobs, waiting.id) == {"feedback": FEEDBACK}


def test_what_somebody_typed_goes_with_its_case_and_with_its_judge(tmp_path: Path) -> None:
    store, _, url = aligned(tmp_path)
    with store.write() as connection:
        add_cases(connection, "tone", [Example(id=name, outputs=f"Reply {name}.") for name in ("t-1", "t-2")])
        for case in ("t-1", "t-2"):
            save(connection, "tone", "olga", case, Answer(state="answered", value=True, form="f"), kind=YES_NO)
            save_draft(connection, "tone", "olga", case, f"{case}: nobody else has read this", revision=0)
    registry = world.opened(url)
    registry.erase("tone", ["t-1"])
    assert b"t-1: nobody else has read this" not in (tmp_path / "memalign.db").read_bytes()
    with store.read() as connection:
        assert connection.execute(select(reviews.c.case_id)).scalars().all() == ["t-2"]
    registry.delete("tone")
    with store.read() as connection:
        assert connection.execute(select(reviews)).all() == []


def test_a_settlement_names_nobody_who_was_erased_since(tmp_path: Path) -> None:
    store, _, url = aligned(tmp_path)
    with store.write() as connection:
        add_cases(connection, "tone", [Example(id=name, outputs=f"Reply {name}.") for name in ("c-1", "c-2")])
        for name, holder in (("c-1", "ana"), ("c-2", "ben")):
            save(connection, "tone", holder, name, Answer(state="answered", value=True, form="f"), kind=YES_NO)
            settle(connection, "tone", name, holder)
    world.opened(url).erase("tone", source="ana")
    with store.read() as connection:
        settled = connection.execute(select(queue.c.case_id, queue.c.settled).order_by(queue.c.case_id)).all()
        assert [tuple(row) for row in settled] == [("c-1", None), ("c-2", "ben")]
