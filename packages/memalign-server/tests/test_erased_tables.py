"""An erasure reaches every text of the server's tables, and no other text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, String, Table, Text, insert, select

from memalign import Example, ValueType
from memalign.errors import RegistryError
from memalign.registry import other_tables
from memalign_server.review.answers import Answer, drafts_of, save, save_draft
from memalign_server.review.cases import add_cases
from memalign_server.review.disputes import settle
from memalign_server.store import Store
from memalign_server.store.tables import CASE_ID, JUDGE, MODEL_TEXT, SOURCE, TEXT, drafts, from_json, metadata, queue
from memalign_server.store.tables import jobs as table
from memalign_server.work.jobs import Jobs
from server_support import world

YES_NO = ValueType.of("bool")
SECRET = "the parcel of Mrs Almeida was left behind the blue door of number nine"
FEEDBACK = [
    {"id": "t-1", "inputs": "Where is it?", "outputs": SECRET, "value": False, "rationale": "Cold.", "source": "ana"},
    {"id": "t-2", "inputs": "Thanks!", "outputs": "Any time!", "value": True, "rationale": "Warm.", "source": "ben"},
]


@pytest.fixture
def notes() -> Table:
    """A table that somebody adds to the server, with nothing but marks."""
    name = "memalign_server_test_notes"
    if name in metadata.tables:
        return metadata.tables[name]
    return Table(
        name,
        metadata,
        Column("id", String(32), primary_key=True),
        Column("judge", Text, info=JUDGE),
        Column("case_id", Text, info=CASE_ID),
        Column("source", Text, info=SOURCE),
        Column("words", Text, info=TEXT),
        Column("judged", Text, info=MODEL_TEXT),
    )


def arguments_of(jobs: Jobs, job: str) -> Any:
    """What a job was given, as the table keeps it."""
    with jobs.store.read() as connection:
        return from_json(connection.execute(select(table.c.arguments).where(table.c.id == job)).scalar_one())


def aligned(folder: Path) -> tuple[Store, Jobs, str]:
    registry = world.registry(folder)
    registry.align("tone", FEEDBACK)
    store = Store(registry.url)
    return store, Jobs(store, registry), registry.url


def test_job_results_and_waiting_arguments_lose_erased_text(tmp_path: Path) -> None:
    _store, jobs, url = aligned(tmp_path)
    ended = jobs.start("judge", "tone", {}, asked_by="ana")
    jobs.end(ended.id, "done", result={"judgments": [{"id": "t-1", "rationale": f"It says: {SECRET}."}]})
    waiting = jobs.start("align", "tone", {"feedback": FEEDBACK}, asked_by="ana")
    other = jobs.start("align", "tone", {"feedback": FEEDBACK[1:]}, asked_by="ana")
    receipt = world.opened(url).erase("tone", ["t-1"])
    assert receipt.complete, receipt.left
    assert SECRET.encode() not in (tmp_path / "memalign.db").read_bytes()
    assert [found.result for found in (jobs.find(ended.id),) if found] == [None]
    assert arguments_of(jobs, waiting.id) is None
    assert arguments_of(jobs, other.id) == {"feedback": FEEDBACK[1:]}


def test_a_sentence_that_names_the_key_forgets_it(tmp_path: Path) -> None:
    _store, jobs, url = aligned(tmp_path)
    told = [jobs.start("align", "tone", {}, asked_by="ana") for _ in range(2)]
    for job, words in zip(told, ("t-1@ana, again", "t-2@ben"), strict=True):
        jobs.end(job.id, "failed", problem=words)
    world.opened(url).erase("tone", ["t-1"])
    assert [found.problem for job in told if (found := jobs.find(job.id))] == [None, "t-2@ben"]


def test_rows_of_the_case_go_and_others_stay(tmp_path: Path, notes: Table) -> None:
    store, _, url = aligned(tmp_path)
    with store.write() as connection:
        for number, (judge, case, source) in enumerate(
            [("tone", "t-1", "ana"), ("tone", "t-1", None), ("tone", "t-9", "ana"), ("other", "t-1", "ana")]
        ):
            row = {"id": str(number), "judge": judge, "case_id": case, "source": source, "words": SECRET}
            connection.execute(insert(notes).values(**row))
    world.opened(url).erase("tone", ["t-1"])
    with store.read() as connection:
        assert connection.execute(select(notes.c.id).order_by(notes.c.id)).scalars().all() == ["2", "3"]


def test_one_persons_row_goes_alone(tmp_path: Path, notes: Table) -> None:
    registry = world.registry(tmp_path)
    both = [FEEDBACK[0], {**FEEDBACK[0], "source": "ben", "rationale": "Says nothing of when."}]
    registry.align("tone", both)
    store = Store(registry.url)
    with store.write() as connection:
        for source in ("ana", "ben"):
            row = {"id": source, "judge": "tone", "case_id": "t-1", "source": source, "words": "Cold."}
            connection.execute(insert(notes).values(**row))
    registry.erase("tone", ["t-1@ana"])
    with store.read() as connection:
        assert connection.execute(select(notes.c.id)).scalars().all() == ["ben"]


def test_what_a_model_wrote_is_no_survivor(tmp_path: Path, notes: Table) -> None:
    store, _, url = aligned(tmp_path)
    row = {
        "id": "1",
        "judge": "tone",
        "case_id": "t-9",
        "words": "Not like the other one.",
        "judged": f"As in {SECRET}.",
    }
    with store.write() as connection:
        connection.execute(insert(notes).values(**row))
    world.opened(url).erase("tone", ["t-1"])
    with store.read() as connection:
        assert connection.execute(select(notes.c.words, notes.c.judged)).all() == [(row["words"], None)]


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
        for case in ("t-1", "t-2"):
            save_draft(connection, "tone", "olga", case, f"{case}: nobody else has read this", revision=0)
    registry = world.opened(url)
    registry.erase("tone", ["t-1"])
    assert b"t-1: nobody else has read this" not in (tmp_path / "memalign.db").read_bytes()
    with store.read() as connection:
        assert drafts_of(connection, "tone", "olga").keys() == {"t-2"}
    registry.delete("tone")
    with store.read() as connection:
        assert connection.execute(select(drafts)).all() == []


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
