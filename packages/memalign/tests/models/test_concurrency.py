"""How many calls are in flight: over event loops, and as many as a provider takes."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.models import concurrency
from memalign.models.concurrency import ConcurrencyLimiter
from memalign.models.retry import Retry
from tests.support.patience import PATIENCE


async def _hold(limiter: ConcurrencyLimiter, seen: list[int], now: list[int], lock: threading.Lock) -> None:
    async with limiter:
        with lock:
            now.append(1)
            seen.append(len(now))
        await asyncio.sleep(0.002)
        with lock:
            now.pop()


def test_calls_are_counted_over_all_event_loops():
    seen: list[int] = []
    now: list[int] = []
    limiter, lock = ConcurrencyLimiter(3), threading.Lock()

    async def many() -> None:
        await asyncio.gather(*(_hold(limiter, seen, now, lock) for _ in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
    assert len(seen) == 60
    assert max(seen) == 3


async def test_a_cancelled_wait_gives_its_turn_on():
    seen: list[int] = []
    now: list[int] = []
    limiter, lock = ConcurrencyLimiter(1), threading.Lock()
    tasks = [asyncio.create_task(_hold(limiter, seen, now, lock)) for _ in range(12)]
    await asyncio.sleep(0.001)
    for task in tasks[1::2]:
        task.cancel()
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=PATIENCE)
    assert sum(isinstance(each, asyncio.CancelledError) for each in done) == 6
    await asyncio.wait_for(_hold(limiter, seen, now, lock), timeout=PATIENCE)
    assert max(seen) == 1


async def test_a_cancelled_waiters_turn_is_not_lost():
    limiter = ConcurrencyLimiter(1)
    async with limiter:
        waiting = asyncio.create_task(limiter.__aenter__())
        await asyncio.sleep(0)
    # The slot is on its way to `waiting`, which is cancelled before it arrives.
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(PATIENCE), limiter:
        pass


def test_a_closed_loop_gets_no_turn():
    limiter = ConcurrencyLimiter(1)
    loop = asyncio.new_event_loop()

    async def take() -> None:
        await limiter.__aenter__()

    loop.run_until_complete(take())
    other = asyncio.new_event_loop()
    waiting = other.create_task(take())
    other.run_until_complete(asyncio.sleep(0))
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]  # the loop goes with its task, on purpose
    other.close()
    limiter._release()
    loop.run_until_complete(asyncio.wait_for(take(), timeout=PATIENCE))
    loop.close()


def test_answered_calls_raise_the_limit_to_its_maximum():
    limiter = ConcurrencyLimiter(4, most=20)
    for _ in range(4):
        limiter.succeeded()
    assert limiter.limit == 8  # a round doubles it
    for _ in range(100):
        limiter.succeeded()
    assert limiter.limit == 20


def test_without_a_higher_most_the_limit_stays():
    limiter = ConcurrencyLimiter(3)
    for _ in range(100):
        limiter.succeeded()
    assert limiter.limit == 3


def test_a_burst_of_refusals_tells_the_limit():
    limiter = ConcurrencyLimiter(16, most=64)
    before = time.monotonic()
    for _ in range(6):
        limiter.overloaded(began=before)
    assert limiter.limit == 10
    for _ in range(30):
        limiter.succeeded()
    assert limiter.limit == 10, "what is known to be too many is not tried at once"
    for _ in range(300):
        limiter.succeeded()
    assert limiter.limit > 10, "and not for ever"


def test_a_wholly_refused_burst_halves_the_limit():
    limiter = ConcurrencyLimiter(16, most=64)
    before = time.monotonic()
    for _ in range(16):
        limiter.overloaded(began=before)
    assert limiter.limit == 8


@pytest.mark.parametrize("room", [1, 3, 9, 40])
def test_a_provider_whose_limit_stays_refuses_few_calls(room: int):
    limiter, refused, answered = ConcurrencyLimiter(16, most=64), 0, 0
    while answered < 2_000:
        began = time.monotonic()
        taken = min(room, limiter.limit)
        for _ in range(limiter.limit - taken):
            limiter.overloaded(began=began)
            refused += 1
        for _ in range(taken):
            limiter.succeeded()
            answered += 1
    assert refused / (refused + answered) < 0.05
    assert limiter.limit >= 0.6 * room


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes as soon as nobody has anything to do."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]  # what every loop of asyncio has
            self.now = max(self.now, self._scheduled[0]._when) + 1e-6  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


class Run(msgspec.Struct):
    """What came of judging 1,000 items, 64 side by side, in calls of two seconds; `least` is of the limiter."""

    seconds: float = 0.0
    refused: int = 0
    failed: int = 0
    least: float = 16.0


def run_of(
    monkeypatch: pytest.MonkeyPatch, *, share: float = 0.0, room: int = 64, away: tuple[float, float] = (0, 0)
) -> Run:
    """A server that refuses a `share` of calls at random, all beyond `room` at a time, and all while it is `away`."""
    clock, chance, limiter, run = Clock(), random.Random(5), ConcurrencyLimiter(16, most=256), Run()
    monkeypatch.setattr(concurrency, "time", clock)
    in_flight = 0

    async def call() -> None:
        nonlocal in_flight
        refused_at = None
        async with limiter:
            for attempt in range(1, 6):
                began = clock.now
                if chance.random() < share or in_flight >= room or away[0] < began < away[1]:
                    await asyncio.sleep(0.2)
                    run.refused += 1
                    refused_at = limiter.overloaded(began=began, refused_at=refused_at)
                    run.least = min(run.least, limiter._limit)
                    await asyncio.sleep(Retry().wait(attempt))
                    continue
                in_flight += 1
                await asyncio.sleep(2 * chance.uniform(0.7, 1.3))
                in_flight -= 1
                limiter.succeeded(began=began, refused_at=refused_at)
                return
            run.failed += 1

    async def work(items: Iterator[int]) -> None:
        for _ in items:
            await call()

    async def all_of_them() -> None:
        items = iter(range(1_000))
        await asyncio.wait_for(asyncio.gather(*(work(items) for _ in range(64))), timeout=3_600)

    random.seed(5)  # Retry's jitter
    try:
        clock.run_until_complete(all_of_them())
    finally:
        clock.close()
    run.seconds = clock.now
    return run


@pytest.mark.parametrize("share", [0.03, 0.05, 0.1])
def test_rare_refusals_slow_nobody_down(monkeypatch: pytest.MonkeyPatch, share: float):
    run, undisturbed = run_of(monkeypatch, share=share), run_of(monkeypatch)
    assert run.seconds < 2.5 * undisturbed.seconds
    assert run.least >= 1
    assert run.failed == 0


@pytest.mark.parametrize("room", [4, 24, 40])
def test_calls_in_flight_settle_at_the_servers_limit(monkeypatch: pytest.MonkeyPatch, room: int):
    run = run_of(monkeypatch, room=room)
    assert run.seconds < 1.3 * 1_000 * 2 / room
    assert run.refused < 80
    assert run.failed <= 2


def test_few_slots_and_accidents_keep_a_server_busy(monkeypatch: pytest.MonkeyPatch):
    run = run_of(monkeypatch, room=24, share=0.03)
    assert run.seconds < 1.5 * 1_000 * 2 / 24
    assert run.refused < 100


def test_after_an_outage_the_limit_comes_back(monkeypatch: pytest.MonkeyPatch):
    assert run_of(monkeypatch, away=(10, 100)).seconds < 90 + 3 * run_of(monkeypatch).seconds


async def test_a_limit_below_one_spaces_calls_out():
    limiter = ConcurrencyLimiter(1, most=2)
    limiter.succeeded(began=time.monotonic() - 0.05)
    limiter.overloaded(began=time.monotonic())  # two are too many
    for _ in range(2):
        limiter.overloaded(began=time.monotonic())  # and one at a time as well
    began = time.monotonic()
    for _ in range(3):
        async with limiter:
            pass
    spaced = time.monotonic() - began
    assert limiter.limit == 1
    assert 0.05 < spaced < PATIENCE
    waiting = [asyncio.create_task(limiter.__aenter__()) for _ in range(2)]
    await asyncio.wait_for(waiting[0], timeout=PATIENCE)
    limiter._release()
    await asyncio.wait_for(waiting[1], timeout=PATIENCE)


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 8), st.integers(1, 40))
def test_the_limit_stays_between_one_and_the_most(answered: list[bool], count: int, most: int):
    limiter = ConcurrencyLimiter(count, most=most)
    for good in answered:
        if good:
            limiter.succeeded()
        else:
            limiter.overloaded(began=time.monotonic())
        assert 1 <= limiter.limit <= max(count, most)


async def test_new_room_goes_to_those_who_wait():
    limiter = ConcurrencyLimiter(1, most=2)
    async with limiter:
        waiting = asyncio.create_task(limiter.__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
        limiter.succeeded()
        await asyncio.wait_for(waiting, timeout=PATIENCE)
