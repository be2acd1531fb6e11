"""What a model was paid for is kept until the commit, and none of it is paid for twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from memalign import MemAlign, Registry
from memalign.aio import run
from memalign.align import AlignResult
from memalign.errors import RegistryError
from memalign.models.base import ChatReply, ChatRequest
from memalign.models.calls import Calls
from memalign.registry.paid_answers import PaidAnswers
from memalign.testing import ScriptedChatModel
from memalign.types import Usage
from tests.support import paying
from tests.support.endpoint import Body, Endpoint
from tests.support.learning import key_of, states
from tests.support.patience import PATIENCE
from tests.support.paying import NAME, OPTIMIZER, create, rows
from tests.support.places import OnSQLite, Place
from tests.support.programs import ROOT, program
from tests.support.registry import case, memory_of
from tests.support.rows import RawRow

ROWS = rows(20)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(paying.answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


@pytest.fixture
def undisturbed(endpoint: Endpoint, tmp_path: Path) -> AlignResult:
    """What the same feedback comes to where nothing stops the align; the record is empty again."""
    result = create(tmp_path / "undisturbed.db").align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.usage.calls == len(endpoint.requests) == 11
    endpoint.requests.clear()
    return result


def answers(place: Place) -> int:
    return int(place.execute("SELECT count(*) FROM memalign_answers")[0][0])


def texts(endpoint: Endpoint) -> list[str]:
    return [json.dumps(body["messages"]) for body in endpoint.requests]


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is another thing there")
def test_a_killed_align_pays_for_no_answer_twice(
    endpoint: Endpoint, undisturbed: AlignResult, path: Path, tmp_path: Path
) -> None:
    answered = 7
    seen = iter(range(1_000))
    goes_on = threading.Event()

    def silent(body: Body) -> Any:
        if next(seen) >= answered:
            goes_on.wait(PATIENCE)
        return paying.answer(body)

    registry = create(path)
    endpoint.answer = silent
    (file := tmp_path / "feedback.json").write_text(json.dumps(ROWS), "utf-8")
    command = [*program("tests.support.paying"), registry.url, NAME, str(file)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        end = time.monotonic() + PATIENCE
        while answers(OnSQLite(path)) < answered:
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    goes_on.set()
    assert len(registry.history(NAME)) == 1
    paid = texts(endpoint)[:answered]
    endpoint.requests.clear()
    endpoint.answer = paying.answer
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == answered
    assert result.usage.calls == undisturbed.usage.calls - answered
    assert not set(paid) & set(texts(endpoint)), "what was answered is not asked again"
    assert result.judge == undisturbed.judge
    assert answers(OnSQLite(path)) == 0


def test_a_database_that_fills_up_stops_the_paying(
    endpoint: Endpoint, undisturbed: AlignResult, path: Path
) -> None:
    registry = create(path)
    place = OnSQLite(path)
    place.execute(
        "CREATE TRIGGER full BEFORE INSERT ON memalign_answers "
        "WHEN (SELECT count(*) FROM memalign_answers) >= 4 "
        "BEGIN SELECT RAISE(ABORT, 'no room is left'); END"
    )
    message = (
        "(?s)cannot keep what was paid for: .*no room is left.*"
        "Nothing was committed; 4 answers are kept"
    )
    with pytest.raises(RegistryError, match=message):
        registry.align(NAME, ROWS, optimizer=MemAlign(shard_size=2, concurrency=1))
    place.execute("DROP TRIGGER full")
    assert len(registry.history(NAME)) == 1
    assert len(endpoint.requests) <= 6
    registry.align(NAME, rows(2, source="ben"), optimizer=OPTIMIZER)
    assert answers(place) == 4, "other feedback leaves kept answers alone"
    registry.rollback(NAME, 1)
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert (result.taken_up, result.usage.calls) == (4, undisturbed.usage.calls - 4)


@pytest.mark.parametrize("step", ["erase", "unalign", "delete"])
def test_forgetting_leaves_no_kept_answer(
    endpoint: Endpoint, place: Place, step: str
) -> None:
    registry = create(place.url)
    registry.create(paying.judge(name="another"))
    registry.align(NAME, rows(2, source="eve"), optimizer=OPTIMIZER)
    running = PaidAnswers(registry._database, NAME)
    other = PaidAnswers(registry._database, "another")
    run(running.keep({"0" * 64: b'"a quote of eve, who said word777"'}))
    run(other.keep({"0" * 64: b'"another judge\'s"'}))
    if step == "delete":
        registry.delete(NAME)
    elif step == "erase":
        registry.erase(NAME, ["t-eve-0"], dry_run=True)
        assert answers(place) == 2
        registry.erase(NAME, ["t-eve-0"], rederive=False)
        assert b"word777" not in place.bytes()
    else:
        registry.unalign(NAME, "t-eve-0", optimizer=OPTIMIZER)
    run(running.keep({"1" * 64: b'"said after it"'}))
    left = place.execute(
        "SELECT name FROM memalign_answers JOIN memalign_judges ON judge = id"
    )
    assert left == [("another",)], "a running align keeps nothing more"


def test_an_answer_about_another_judge_that_quotes_the_erased_is_named(
    registry: Registry,
) -> None:
    quote = "the clinic on the hill where the operation of Maria went so badly wrong"
    registry.create(paying.judge(memory=memory_of(case("t-1", "ana", says=quote))))
    registry.create(paying.judge(name="another"))
    kept = PaidAnswers(registry._database, "another")
    run(kept.keep({"0" * 64: json.dumps({"text": quote}).encode()}))
    receipt = registry.erase(NAME, ["t-1"], rederive=False)
    assert (receipt.elsewhere, receipt.complete) == (("another",), False)


def test_half_characters_are_cleaned_before_they_are_kept(registry: Registry) -> None:
    said = "a half \ud83d of a pair"
    data = {"rationale": said, "value": True}
    reply = ChatReply(data=data, text=said, usage=Usage(calls=1))
    chat = ScriptedChatModel(lambda _: reply)
    request = ChatRequest(system="s", user=said, schema={"type": "object"})
    registry.create(paying.judge())
    first = PaidAnswers(registry._database, NAME)
    paid = run(Calls(answers=first).complete(chat, request))
    second = PaidAnswers(registry._database, NAME)
    again = run(Calls(answers=second).complete(chat, request))
    assert (again.data, again.text, again.usage) == (paid.data, paid.text, Usage())
    assert paid.data["rationale"] == paid.text == "a half \ufffd of a pair"
    assert (second.taken_up, len(chat.requests)) == (1, 1)


def test_keeping_does_not_stop_the_loop(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.create(paying.judge())
    running = PaidAnswers(registry._database, NAME)
    slow = threading.Event()
    write = PaidAnswers._write

    def waiting(self: PaidAnswers, new: Mapping[str, bytes]) -> None:
        assert slow.wait(PATIENCE)
        write(self, new)

    monkeypatch.setattr(PaidAnswers, "_write", waiting)

    async def keep_all() -> None:
        keeping = asyncio.gather(*(running.keep({f"{n:064}": b"1"}) for n in range(3)))
        await asyncio.sleep(0)
        slow.set()  # nobody would get here if the database were waited for on the loop
        await keeping

    run(keep_all())


def test_four_aligns_at_once_pay_for_no_request_twice(
    endpoint: Endpoint, place: Place
) -> None:
    registry = create(place.url)
    ready = threading.Barrier(4)
    feedback = [rows(2, source=f"expert{n}", first=10 * n) for n in range(4)]

    def align(part: list[RawRow]) -> Any:
        ready.wait()
        return Registry(place.url).align(NAME, part, optimizer=OPTIMIZER)

    with ThreadPoolExecutor(4) as people:
        results = list(people.map(align, feedback))
    judge = registry.load(NAME)
    assert sorted(states(judge)) == sorted(map(key_of, chain(*feedback)))
    ids = [guideline.id for guideline in judge.memory.guidelines]
    assert len(set(ids)) == len(ids) == 8
    assert {result.version for result in results} == {2, 3, 4, 5}
    asked = texts(endpoint)
    paid = sum(result.usage.calls for result in results)
    assert paid == len(asked) == len(set(asked))
    assert answers(place) == 0
