"""Waiting between attempts, and slots that hold over event loops."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.errors import ModelUnavailable, RateLimited
from memalign.models import concurrency as slots_module
from memalign.models.concurrency import ConcurrencyLimiter
from memalign.models.retry import AttemptFailed, Retry, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
QUICK = Retry(attempts=3, base_seconds=0.001)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_retry_after_is_read_in_seconds_milliseconds_and_as_a_date(headers, seconds):
    assert retry_after(headers, now=NOW) == seconds


def test_waits_double_and_stop_at_the_longest():
    retry = Retry(base_seconds=1, max_wait=5)
    waits = [retry.wait(attempt) for attempt in (1, 2, 3, 4, 9)]
    assert [0.5 <= waits[0] <= 1, 1 <= waits[1] <= 2, 2 <= waits[2] <= 4, 4 <= waits[3] <= 5, waits[4] == 5] == [
        True
    ] * 5


def test_a_wait_the_provider_asked_for_is_kept_but_never_beyond_the_longest():
    retry = Retry(base_seconds=1, max_wait=60)
    assert 20 <= retry.wait(1, asked=20) <= 21
    assert retry.wait(1, asked=3600) == 60


async def test_a_failure_that_may_pass_is_tried_again():
    attempts = []

    async def attempt() -> str:
        attempts.append(1)
        if len(attempts) < 3:
            raise AttemptFailed(ModelUnavailable, "down", retry=True)
        return "up"

    assert await QUICK.run(attempt, subject="openai:m") == "up"
    assert len(attempts) == 3


async def test_after_the_last_attempt_the_error_says_who_what_and_how_often():
    async def attempt() -> str:
        raise AttemptFailed(RateLimited, "HTTP 429", advice="Ask later.", retry=True)

    with pytest.raises(RateLimited, match=r"^openai:m at http://x: HTTP 429 \(3 attempts\)\. Ask later\.$"):
        await QUICK.run(attempt, subject="openai:m at http://x")


async def test_a_failure_that_will_not_pass_is_tried_once():
    attempts = []

    async def attempt() -> str:
        attempts.append(1)
        raise AttemptFailed(ModelUnavailable, "gone")

    with pytest.raises(ModelUnavailable, match=r"^m: gone$"):
        await QUICK.run(attempt, subject="m")
    assert len(attempts) == 1


async def test_a_bug_is_not_retried():
    async def attempt() -> str:
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        await QUICK.run(attempt, subject="m")


async def _hold(slots: ConcurrencyLimiter, seen: list[int], now: list[int], lock: threading.Lock) -> None:
    async with slots:
        with lock:
            now.append(1)
            seen.append(len(now))
        await asyncio.sleep(0.002)
        with lock:
            now.pop()


def test_slots_are_counted_over_all_event_loops():
    seen: list[int] = []
    now: list[int] = []
    slots, lock = ConcurrencyLimiter(3), threading.Lock()

    async def many() -> None:
        await asyncio.gather(*(_hold(slots, seen, now, lock) for _ in range(20)))

    threads = [threading.Thread(target=asyncio.run, args=(many(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    assert len(seen) == 60
    assert max(seen) == 3


async def test_a_cancelled_wait_gives_its_slot_to_the_next():
    seen: list[int] = []
    now: list[int] = []
    slots, lock = ConcurrencyLimiter(1), threading.Lock()
    tasks = [asyncio.create_task(_hold(slots, seen, now, lock)) for _ in range(12)]
    await asyncio.sleep(0.001)
    for task in tasks[1::2]:
        task.cancel()
    done = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=5)
    assert sum(isinstance(each, asyncio.CancelledError) for each in done) == 6
    await asyncio.wait_for(_hold(slots, seen, now, lock), timeout=1)
    assert max(seen) == 1


async def test_a_slot_that_was_handed_over_to_a_cancelled_wait_is_not_lost():
    slots = ConcurrencyLimiter(1)
    async with slots:
        waiting = asyncio.create_task(slots.__aenter__())
        await asyncio.sleep(0)
    # The slot is on its way to `waiting`, which is cancelled before it arrives.
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(1), slots:
        pass


def test_a_slot_is_not_handed_to_a_loop_that_is_closed():
    slots = ConcurrencyLimiter(1)
    loop = asyncio.new_event_loop()

    async def take() -> None:
        await slots.__aenter__()

    loop.run_until_complete(take())
    other = asyncio.new_event_loop()
    waiting = other.create_task(take())
    other.run_until_complete(asyncio.sleep(0))
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]  # the loop goes with its task, on purpose
    other.close()
    slots._release()
    loop.run_until_complete(asyncio.wait_for(take(), timeout=1))
    loop.close()


def test_calls_that_are_answered_make_room_for_more_up_to_the_ceiling():
    slots = ConcurrencyLimiter(4, most=20)
    for _ in range(4):
        slots.succeeded()
    assert slots.limit == 8  # a round doubles it
    for _ in range(100):
        slots.succeeded()
    assert slots.limit == 20


def test_without_a_ceiling_above_it_the_number_stays():
    slots = ConcurrencyLimiter(3)
    for _ in range(100):
        slots.succeeded()
    assert slots.limit == 3


def test_a_burst_of_refusals_says_how_many_are_taken():
    slots = ConcurrencyLimiter(16, most=64)
    before = time.monotonic()
    for _ in range(6):
        slots.overloaded(began=before)
    assert slots.limit == 10
    for _ in range(30):
        slots.succeeded()
    assert slots.limit == 10, "what is known to be too many is not tried at once"
    for _ in range(300):
        slots.succeeded()
    assert slots.limit > 10, "and not for ever"


def test_a_burst_in_which_all_were_refused_halves_the_number():
    slots = ConcurrencyLimiter(16, most=64)
    before = time.monotonic()
    for _ in range(16):
        slots.overloaded(began=before)
    assert slots.limit == 8


@pytest.mark.parametrize("room", [1, 3, 9, 40])
def test_a_provider_whose_limit_stays_refuses_few_calls(room: int):
    slots, refused, answered = ConcurrencyLimiter(16, most=64), 0, 0
    while answered < 2_000:
        began = time.monotonic()
        taken = min(room, slots.limit)
        for _ in range(slots.limit - taken):
            slots.overloaded(began=began)
            refused += 1
        for _ in range(taken):
            slots.succeeded()
            answered += 1
    assert refused / (refused + answered) < 0.05
    assert slots.limit >= 0.6 * room


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
    """What came of judging 1,000 items, 64 side by side, in calls of two seconds; `least` is of the slots."""

    seconds: float = 0.0
    refused: int = 0
    failed: int = 0
    least: float = 16.0


def run_of(
    monkeypatch: pytest.MonkeyPatch, *, share: float = 0.0, room: int = 64, away: tuple[float, float] = (0, 0)
) -> Run:
    """A server that refuses a `share` of calls at random, all beyond `room` at a time, and all while it is `away`."""
    clock, chance, slots, run = Clock(), random.Random(5), ConcurrencyLimiter(16, most=256), Run()
    monkeypatch.setattr(slots_module, "time", clock)
    in_flight = 0

    async def call() -> None:
        nonlocal in_flight
        refused_at = None
        async with slots:
            for attempt in range(1, 6):
                began = clock.now
                if chance.random() < share or in_flight >= room or away[0] < began < away[1]:
                    await asyncio.sleep(0.2)
                    run.refused += 1
                    refused_at = slots.overloaded(began=began, refused_at=refused_at)
                    run.least = min(run.least, slots._limit)
                    await asyncio.sleep(Retry().wait(attempt))
                    continue
                in_flight += 1
                await asyncio.sleep(2 * chance.uniform(0.7, 1.3))
                in_flight -= 1
                slots.succeeded(began=began, refused_at=refused_at)
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
def test_calls_that_are_refused_now_and_then_slow_nobody_down(monkeypatch: pytest.MonkeyPatch, share: float):
    run, undisturbed = run_of(monkeypatch, share=share), run_of(monkeypatch)
    assert run.seconds < 2.5 * undisturbed.seconds
    assert run.least >= 1
    assert run.failed == 0


@pytest.mark.parametrize("room", [4, 24, 40])
def test_calls_in_flight_settle_at_what_a_server_takes(monkeypatch: pytest.MonkeyPatch, room: int):
    run = run_of(monkeypatch, room=room)
    assert run.seconds < 1.3 * 1_000 * 2 / room
    assert run.refused < 80
    assert run.failed <= 2


def test_a_server_that_takes_few_and_refuses_now_and_then_is_kept_busy(monkeypatch: pytest.MonkeyPatch):
    run = run_of(monkeypatch, room=24, share=0.03)
    assert run.seconds < 1.5 * 1_000 * 2 / 24
    assert run.refused < 100


def test_after_an_outage_all_slots_come_back(monkeypatch: pytest.MonkeyPatch):
    assert run_of(monkeypatch, away=(10, 100)).seconds < 90 + 3 * run_of(monkeypatch).seconds


async def test_below_one_slot_calls_are_spaced_out():
    slots = ConcurrencyLimiter(1, most=2)
    slots.succeeded(began=time.monotonic() - 0.05)
    slots.overloaded(began=time.monotonic())  # two are too many
    for _ in range(2):
        slots.overloaded(began=time.monotonic())  # and one at a time as well
    began = time.monotonic()
    for _ in range(3):
        async with slots:
            pass
    spaced = time.monotonic() - began
    assert slots.limit == 1
    assert 0.05 < spaced < 1
    waiting = [asyncio.create_task(slots.__aenter__()) for _ in range(2)]
    await asyncio.wait_for(waiting[0], timeout=1)
    slots._release()
    await asyncio.wait_for(waiting[1], timeout=1)


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 8), st.integers(1, 40))
def test_the_number_stays_between_one_and_the_ceiling(answered: list[bool], count: int, most: int):
    slots = ConcurrencyLimiter(count, most=most)
    for good in answered:
        if good:
            slots.succeeded()
        else:
            slots.overloaded(began=time.monotonic())
        assert 1 <= slots.limit <= max(count, most)


async def test_room_that_opens_is_given_to_those_who_wait():
    slots = ConcurrencyLimiter(1, most=2)
    async with slots:
        waiting = asyncio.create_task(slots.__aenter__())
        await asyncio.sleep(0)
        assert not waiting.done()
        slots.succeeded()
        await asyncio.wait_for(waiting, timeout=1)
