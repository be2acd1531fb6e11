"""What a model was paid for is kept until the commit: a stopped align that is run again pays for none of it twice."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from memalign import Judge, MemAlign, Registry
from memalign.aio import run
from memalign.errors import RegistryError
from memalign.models.base import ChatReply, ChatRequest, Question
from memalign.models.calls import Calls
from memalign.registry.paid_answers import PaidAnswers
from memalign.testing import HashEmbedding, ScriptedChatModel, ScriptedDecisionModel
from memalign.types import Usage
from tests.support import paying
from tests.support.endpoint import Endpoint
from tests.support.patience import PATIENCE
from tests.support.paying import NAME, OPTIMIZER, create, rows
from tests.support.places import OnPostgreSQL, OnSQLite, Place
from tests.support.registry import case, memory_of

ROWS = rows(20)
ONE_BY_ONE = MemAlign(shard_size=2, concurrency=1)  # which answers come before the stop does not depend on threads


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with Endpoint(paying.answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        yield server


class Undisturbed(NamedTuple):
    registry: Registry
    judge: Judge
    calls: int


@pytest.fixture
def undisturbed(endpoint: Endpoint, tmp_path: Path) -> Undisturbed:
    """What the same feedback comes to where nothing stops the align. The server's record is empty again."""
    registry = create(tmp_path / "undisturbed.db")
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    kinds = Counter(body["response_format"]["json_schema"]["name"] for body in endpoint.requests)
    assert kinds == {"changes": 10, "merged": 1}
    assert registry.kept_answers(NAME) == 0
    endpoint.requests.clear()
    return Undisturbed(registry, result.judge, kinds.total())


class Stopped(BaseException):
    """As Ctrl-C: nothing in memalign takes it for a failure."""


def texts(endpoint: Endpoint) -> list[str]:
    return [json.dumps(body["messages"]) for body in endpoint.requests]


def align_elsewhere(url: str, folder: Path, feedback: list[dict[str, Any]], name: str) -> subprocess.Popen[bytes]:
    """A process of its own that aligns."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps(feedback), "utf-8")
    root = Path(__file__).parents[2]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "tests.support.paying", url, NAME, str(file)]
    return subprocess.Popen(command, cwd=root, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.PIPE)


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def silent_after(endpoint: Endpoint, count: int) -> threading.Event:
    """From request number `count` + 1 on, the model answers nobody until the event is set."""
    seen, goes_on = iter(range(1_000)), threading.Event()

    def answer(body: dict[str, Any]) -> Any:
        if next(seen) >= count:
            goes_on.wait(PATIENCE)
        return paying.answer(body)

    endpoint.answer = answer
    return goes_on


def stopped(registry: Registry, endpoint: Endpoint, answered: int) -> Registry:
    """The registry after an align that was stopped when so many answers were kept."""
    done, write, lock = 0, PaidAnswers._write, threading.Lock()

    def kept(self: PaidAnswers, new: Mapping[str, bytes]) -> None:
        nonlocal done
        with lock:  # whoever stops the align comes after the last one that is kept
            done += len(new)
            if done > answered:
                raise Stopped
            write(self, new)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PaidAnswers, "_write", kept)
        with pytest.raises(Stopped):
            registry.align(NAME, ROWS, optimizer=ONE_BY_ONE)
    assert registry.kept_answers(NAME) == answered
    endpoint.requests.clear()
    return registry


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is another thing there")
def test_a_killed_align_pays_for_no_answer_twice(
    endpoint: Endpoint, undisturbed: Undisturbed, place: Place, tmp_path: Path
) -> None:
    answered = 7
    registry, goes_on = create(place.url), silent_after(endpoint, answered)
    with align_elsewhere(place.url, tmp_path, ROWS, "feedback") as process:
        wait_until(lambda: registry.kept_answers(NAME) >= answered)
        process.send_signal(signal.SIGKILL)
    goes_on.set()
    assert len(registry.history(NAME)) == 1
    paid = texts(endpoint)[:answered]
    endpoint.requests.clear()
    endpoint.answer = paying.answer
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.taken_up == answered
    assert result.usage.calls == undisturbed.calls - answered
    assert not set(paid) & set(texts(endpoint)), "what was answered is not asked again"
    assert result.judge.memory == undisturbed.judge.memory
    assert registry.export(NAME) == undisturbed.registry.export(NAME)
    assert registry.kept_answers(NAME) == 0


FULL = "(SELECT count(*) FROM memalign_answers) >= 4"
REFUSING = {
    OnSQLite: [
        f"CREATE TRIGGER full BEFORE INSERT ON memalign_answers WHEN {FULL} "
        "BEGIN SELECT RAISE(ABORT, 'no room is left'); END"
    ],
    OnPostgreSQL: [
        f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF {FULL} "
        "THEN RAISE 'no room is left'; END IF; RETURN NEW; END $$",
        "CREATE TRIGGER refusal BEFORE INSERT ON memalign_answers FOR EACH ROW EXECUTE FUNCTION refuse()",
    ],
}


def test_a_database_that_fills_up_stops_the_paying(endpoint: Endpoint, undisturbed: Undisturbed, place: Place) -> None:
    registry = create(place.url)
    for statement in REFUSING[type(place)]:
        place.execute(statement)
    message = r"(?s)cannot keep what was paid for: .*no room is left.*Nothing was committed; 4 answers are kept"
    with pytest.raises(RegistryError, match=message):
        registry.align(NAME, ROWS, optimizer=ONE_BY_ONE)
    assert (registry.kept_answers(NAME), len(registry.history(NAME))) == (4, 1)
    assert len(endpoint.requests) <= 6
    place.execute("DROP TRIGGER full" if isinstance(place, OnSQLite) else "DROP FUNCTION refuse CASCADE")
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert (result.taken_up, result.usage.calls) == (4, undisturbed.calls - 4)
    assert result.judge.memory == undisturbed.judge.memory


def test_an_answer_that_cannot_be_read_is_asked_again(
    endpoint: Endpoint, undisturbed: Undisturbed, place: Place
) -> None:
    registry = stopped(create(place.url), endpoint, 5)
    first, second = (key for (key,) in place.execute("SELECT key FROM memalign_answers ORDER BY key LIMIT 2"))
    for key, answer in ((first, b'{"data": 3}'), (second, b"{half")):
        place.execute("UPDATE memalign_answers SET answer = ? WHERE key = ?", answer, key)
    result = registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    assert result.usage.calls == undisturbed.calls - 3
    assert result.judge.memory == undisturbed.judge.memory


def test_other_feedback_leaves_kept_answers_alone(endpoint: Endpoint, place: Place) -> None:
    registry = stopped(create(place.url), endpoint, 5)
    registry.align(NAME, rows(2, source="ben"), optimizer=OPTIMIZER)
    assert registry.kept_answers(NAME) == 5


@pytest.mark.parametrize("step", ["erase", "unalign", "delete"])
def test_forgetting_leaves_no_kept_answer(endpoint: Endpoint, place: Place, step: str) -> None:
    registry = create(place.url)
    registry.create(paying.judge(name="another"))
    registry.align(NAME, rows(2, source="eve"), optimizer=OPTIMIZER)
    running, other = PaidAnswers(registry._database, NAME), PaidAnswers(registry._database, "another")
    run(running.keep({"0" * 64: b'"a quote of eve, who said word777"'}))
    run(other.keep({"0" * 64: b'"another judge\'s"'}))
    if step == "delete":
        registry.delete(NAME)
    elif step == "erase":
        registry.erase(NAME, ["t-eve-0"], dry_run=True)
        assert registry.kept_answers(NAME) == 1
        registry.erase(NAME, ["t-eve-0"], rederive=False)
        assert b"word777" not in place.bytes()
    else:
        registry.unalign(NAME, "t-eve-0", optimizer=OPTIMIZER)
    run(running.keep({"1" * 64: b'"said after it"'}))
    assert place.execute("SELECT count(*) FROM memalign_answers") == [(1,)], "a running align keeps nothing more"
    assert registry.kept_answers("another") == 1


def test_an_answer_about_another_judge_that_quotes_the_erased_is_named(registry: Registry) -> None:
    quote = "the clinic on the hill where the operation of Maria went so badly wrong"
    registry.create(paying.judge(memory=memory_of(case("t-1", "ana", says=quote))))
    registry.create(paying.judge(name="another"))
    run(PaidAnswers(registry._database, "another").keep({"0" * 64: json.dumps({"text": quote}).encode()}))
    receipt = registry.erase(NAME, ["t-1"], rederive=False)
    assert receipt.elsewhere == ("another",)
    assert not receipt.complete


def test_committed_answers_are_paid_for_again(endpoint: Endpoint, place: Place) -> None:
    registry = create(place.url)
    registry.align(NAME, ROWS, optimizer=OPTIMIZER)
    requests = len(endpoint.requests)
    endpoint.requests.clear()
    registry.unalign(NAME, source="ana", optimizer=OPTIMIZER)
    result = registry.align(NAME, [row | {"id": f"again-{row['id']}"} for row in ROWS], optimizer=OPTIMIZER)
    assert result.taken_up == 0
    assert len(endpoint.requests) == requests


# -- models of one's own ---------------------------------------------------------------------------------------------


def test_vectors_and_half_characters_are_kept_exactly(registry: Registry) -> None:
    said = "a half \ud83d of a pair"
    usage = Usage(calls=1, input_tokens=10, output_tokens=3, cost=0.25)
    data = {"rationale": said, "value": True}
    chat = ScriptedChatModel(lambda _: ChatReply(data=data, text=said, usage=usage))
    request = ChatRequest(system="s", user=said, schema={"type": "object"})
    vectors = HashEmbedding(dim=16)
    registry.create(paying.judge())
    calls = Calls(answers=PaidAnswers(registry._database, NAME))
    paid = run(calls.complete(chat, request))
    embedded = run(calls.embed(vectors, ["a b", said]))
    second = PaidAnswers(registry._database, NAME)
    calls = Calls(answers=second)
    again = run(calls.complete(chat, request))
    assert (again.data, again.text) == (paid.data, paid.text)
    assert (paid.usage, again.usage) == (usage, Usage())
    assert run(calls.embed(vectors, [said, "a b"])).tobytes() == embedded[::-1].tobytes()
    assert vectors.texts == ["a b", said]
    assert second.taken_up == 3
    assert len(chat.requests) == 1


def test_decisions_are_kept_one_by_one_and_paid_once(registry: Registry) -> None:
    deciding = ScriptedDecisionModel(lambda state, question: len(question.text) / 30)
    one, two, three = (Question(key=f"q{n}", text=f"Is it {n}?" + "!" * n) for n in (1, 2, 3))
    registry.create(paying.judge())
    calls = Calls(answers=PaidAnswers(registry._database, NAME))
    paid = run(calls.decide(deciding, "item", [one, two]))
    calls = Calls(answers=PaidAnswers(registry._database, NAME))
    renamed = msgspec.structs.replace(one, key="q9")
    again = run(calls.decide(deciding, "item", [three, renamed, two]))
    elsewhere = run(calls.decide(deciding, "another item", [one]))
    assert list(again.probabilities) == ["q3", "q9", "q2"]
    assert again.probabilities["q9"] == paid.probabilities["q1"]
    assert again.probabilities["q2"] == paid.probabilities["q2"]
    assert (again.usage.calls, elsewhere.usage.calls) == (1, 1)
    assert deciding.calls == [2, 1, 1]


def test_keeping_does_not_stop_the_loop(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.create(paying.judge())
    answers = PaidAnswers(registry._database, NAME)
    slow = threading.Event()
    write = PaidAnswers._write

    def waiting(self: PaidAnswers, new: Mapping[str, bytes]) -> None:
        assert slow.wait(PATIENCE)
        write(self, new)

    monkeypatch.setattr(PaidAnswers, "_write", waiting)

    async def keep_all() -> None:
        keeping = asyncio.gather(*(answers.keep({f"{n:064}": b"1"}) for n in range(3)))
        await asyncio.sleep(0)
        slow.set()  # nobody would get here if the database were waited for on the loop
        await keeping

    run(keep_all())
    assert registry.kept_answers(NAME) == 3


# -- several at once -------------------------------------------------------------------------------------------------


def test_four_aligns_at_once_pay_for_no_request_twice(endpoint: Endpoint, place: Place) -> None:
    registry, ready = create(place.url), threading.Barrier(4)
    feedback = [rows(2, source=f"expert{n}", first=10 * n) for n in range(4)]

    def align(part: list[dict[str, Any]]) -> Any:
        ready.wait()
        return Registry(place.url).align(NAME, part, optimizer=OPTIMIZER)

    with ThreadPoolExecutor(4) as people:
        results = list(people.map(align, feedback))
    assert {str(entry.key) for entry in registry.ledger(NAME)} == {
        f"{row['id']}@{row['source']}" for part in feedback for row in part
    }
    guidelines = registry.load(NAME).memory.guidelines
    assert len({guideline.id for guideline in guidelines}) == len(guidelines) == 8
    assert [info.action for info in registry.history(NAME)] == ["create", *["align"] * 4]
    assert sorted(result.version for result in results) == list(range(2, 6))
    assert sum(result.usage.calls for result in results) == len(endpoint.requests)
    assert len(texts(endpoint)) == len(set(texts(endpoint)))
    assert registry.kept_answers(NAME) == 0
