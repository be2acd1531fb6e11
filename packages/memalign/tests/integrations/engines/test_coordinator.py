"""Workers elsewhere keep to one rate and one limit of cost together, whatever breaks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import memalign as ma
from memalign import aio
from memalign.errors import ConfigurationError, InputError, ModelUnavailable
from memalign.integrations.coordinator import Coordinator, GrantedCalls, Task
from memalign.judge.paid_calls import Call
from memalign.models.asking import asked_through
from memalign.models.base import ChatReply
from memalign.testing import ScriptedChatModel
from memalign.types import Usage
from tests.support.patience import PATIENCE

pa = pytest.importorskip("pyarrow")


class Held:
    """A broadcast of a judge whose calls cost what they are told to."""

    def __init__(self, cost: float | None = 0.5, answer: Any = None) -> None:
        reply = ChatReply(data={"rationale": "", "value": True}, text="", usage=Usage(calls=1, cost=cost))
        self.model = ScriptedChatModel(answer or (lambda _: reply))
        judge = ma.Judge(name="j", instructions="{{ outputs }}", feedback_value_type=bool, model=self.model)
        self.value = judge


def rows(count: int) -> Any:
    return pa.table({"id": [f"i-{n}" for n in range(count)], "outputs": ["x"] * count})


@pytest.fixture
def coordinator(request: pytest.FixtureRequest) -> Iterator[Coordinator]:
    with Coordinator(**getattr(request, "param", {})) as one:
        yield one


def worker(coordinator: Coordinator, held: Held) -> Task:
    return Task(held, {"concurrency": 4}, coordinator.place)


@pytest.mark.parametrize("coordinator", [{"max_cost": 3.2}], indirect=True)
def test_workers_share_one_limit_of_cost(coordinator: Coordinator) -> None:
    one, other = Held(), Held()

    async def both() -> list[Any]:
        found = []
        for held in (one, other):  # each a process of its own, with a connection of its own
            with asked_through(GrantedCalls(coordinator.place)):
                found.append(asyncio.ensure_future(held.value.apredict_batch(rows(5), concurrency=4)))
        return await asyncio.gather(*found)

    errors = [error for table in aio.run(both()) for error in table["error"].to_pylist()]
    assert errors.count(None) == 6
    assert set(errors) - {None} == {
        "SpendLimitReached: one more call would pass the limit of $3.2; run it again to go on"
    }
    assert len(one.model.requests) + len(other.model.requests) == 6
    assert coordinator.spent == pytest.approx(3.0)


@pytest.mark.parametrize("coordinator", [{"calls_per_second": 50}], indirect=True)
def test_workers_share_one_rate(coordinator: Coordinator) -> None:
    held, started = Held(), time.monotonic()
    worker(coordinator, held).predict(rows(11))
    assert time.monotonic() - started >= 10 / 50
    assert len(held.model.requests) == 11


@pytest.mark.parametrize("coordinator", [{"max_cost": 10.0}], indirect=True)
def test_a_call_of_unknown_price_stops_the_task(coordinator: Coordinator) -> None:
    held = Held(cost=None)
    with pytest.raises(ConfigurationError, match="max_cost cannot hold"):
        worker(coordinator, held).predict(rows(20))
    assert len(held.model.requests) == 1


def test_no_call_goes_out_once_it_is_gone() -> None:
    coordinator, held = Coordinator(calls_per_second=1_000), Held()
    task = worker(coordinator, held)
    assert task.predict(rows(1))["error"].to_pylist() == [None]
    coordinator.close()
    errors = task.predict(rows(2).slice(1))["error"].to_pylist()
    assert errors[0].startswith("ModelUnavailable: the coordinator at 127.0.0.1:")
    assert len(held.model.requests) == 1


def test_a_token_of_another_job_is_refused(coordinator: Coordinator) -> None:
    held, strange = Held(), coordinator.place._replace(token="another")
    with asked_through(GrantedCalls(strange)):
        errors = held.value.predict_batch(rows(1))["error"].to_pylist()
    assert "is gone, and no call is made without it" in errors[0]
    assert not held.model.requests


@pytest.mark.parametrize("said", [b"", b"[1]\n", b'{"token": 7}\n', b"\xff\xfe\n", b"x" * 100_000])
def test_a_stranger_harms_nobody(coordinator: Coordinator, said: bytes) -> None:
    async def talk() -> bytes:
        reader, writer = await asyncio.open_connection(coordinator.place.host, coordinator.place.port)
        writer.write(said)
        if not said:
            writer.write_eof()
        try:
            return await asyncio.wait_for(reader.read(), PATIENCE)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    assert aio.run(talk()) == b""
    assert worker(coordinator, Held()).predict(rows(1))["value"].to_pylist() == [True]


@pytest.mark.parametrize("coordinator", [{"max_cost": 100.0}], indirect=True)
def test_a_lost_workers_calls_count_as_paid(coordinator: Coordinator) -> None:
    worker(coordinator, Held(cost=2.0)).predict(rows(3))

    async def lose(count: int) -> None:
        _, writer = reader_writer = await asyncio.open_connection(coordinator.place.host, coordinator.place.port)
        asked = [{"call": n, "asked": Call("scripted", "judgment", 1)} for n in range(count)]
        for message in ({"token": coordinator.place.token}, *asked):
            writer.write(json.dumps(message).encode() + b"\n")
        for _ in range(count):
            await reader_writer[0].readline()  # granted
        writer.close()

    before = coordinator.spent
    aio.run(lose(4))
    end = time.monotonic() + PATIENCE
    while coordinator.spent < before + 8 and time.monotonic() < end:
        time.sleep(0.01)
    assert (before, coordinator.spent) == (6.0, 14.0)


def test_a_cancelled_call_gives_its_place_back(coordinator: Coordinator) -> None:
    calls = GrantedCalls(coordinator.place)

    async def answer() -> str:
        return "here"

    async def asked() -> str:
        first = asyncio.ensure_future(calls.pay(Call("m", "k", 1), answer, lambda _: Usage()))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return await calls.pay(Call("m", "k", 1), answer, lambda _: Usage())

    assert aio.run(asked()) == "here"


@pytest.mark.parametrize("limits", [{"calls_per_second": 0}, {"calls_per_second": "5"}, {"max_cost": -1.0}])
def test_what_is_no_limit_is_refused(limits: Any) -> None:
    with pytest.raises(InputError):
        Coordinator.of(limits, Held().value, host="127.0.0.1")
    with pytest.raises(InputError, match="concurrency"):
        Coordinator.of({"concurrency": 0}, Held().value, host="127.0.0.1")
    assert Coordinator.of({"concurrency": 2}, Held().value, host="127.0.0.1") is None


def test_a_model_that_fails_is_told_as_ever(coordinator: Coordinator) -> None:
    held = Held(answer=lambda _: ModelUnavailable("it is down"))
    assert worker(coordinator, held).predict(rows(1))["error"].to_pylist() == ["ModelUnavailable: it is down"]


def test_a_limit_without_a_price_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    judge = Held().value.replace(model="openai:nobody-knows-it")
    with pytest.raises(ConfigurationError, match="max_cost cannot hold: what a call of openai:nobody-knows-it costs"):
        Coordinator.of({"max_cost": 1.0}, judge, host="127.0.0.1")
    assert Coordinator.of({"concurrency": 1}, judge, host="127.0.0.1") is None
