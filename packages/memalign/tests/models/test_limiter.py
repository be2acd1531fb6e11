"""How many calls are in flight: as many as a provider takes."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from memalign.models.limiter import Limiter
from memalign.models.retry import Retry
from tests.support.patience import PATIENCE


async def test_a_cancelled_wait_gives_its_turn_on():
    limiter = Limiter(1)
    in_flight = 0
    most = 0

    async def hold() -> None:
        nonlocal in_flight, most
        async with limiter:
            in_flight += 1
            most = max(most, in_flight)
            await asyncio.sleep(0.002)
            in_flight -= 1

    tasks = [asyncio.create_task(hold()) for _ in range(12)]
    await asyncio.sleep(0.001)
    for task in tasks[1::2]:
        task.cancel()
    done = await asyncio.wait_for(
        asyncio.gather(*tasks, return_exceptions=True), timeout=PATIENCE
    )
    assert sum(isinstance(each, asyncio.CancelledError) for each in done) == 6
    await asyncio.wait_for(hold(), timeout=PATIENCE)
    assert most == 1


async def test_a_cancelled_waiters_turn_is_not_lost():
    limiter = Limiter(1)
    async with limiter:
        waiting = asyncio.create_task(limiter.__aenter__())
        await asyncio.sleep(0)
    # The slot is on its way to `waiting`, which is cancelled before it arrives.
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(PATIENCE), limiter:
        pass


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes as soon as nobody has anything to do."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop: Any = self  # what every loop of asyncio has is in no stub
        if not loop._ready and loop._scheduled:
            self.now = max(self.now, loop._scheduled[0]._when) + 1e-6
        super()._run_once()  # type: ignore[misc]


class Run(msgspec.Struct):
    """What came of judging items, 64 side by side; `least` is of the limiter."""

    seconds: float = 0.0
    refused: int = 0
    failed: int = 0
    least: int = 16


def run_of(
    *,
    share: float = 0.0,
    room: int = 64,
    away: tuple[float, float] = (0, 0),
    rate: int = 1_000_000,
    takes: float = 2.0,
    retry_after: float | None = None,
    items: int = 1_000,
) -> Run:
    """A server that refuses a `share` of calls at random, and all beyond `room` at a time.

    It refuses all while it is `away`. It answers `rate` calls a second, each of which `takes`
    so many.
    """
    clock = Clock()
    chance = random.Random(5)
    limiter = Limiter(16, most=256)
    run = Run()
    in_flight = 0
    starts = deque[float]()

    async def attempt(again: bool) -> bool:
        nonlocal in_flight
        async with limiter:
            while starts and starts[0] < clock.now - 1:
                starts.popleft()
            full = in_flight >= room or len(starts) >= rate
            if chance.random() < share or full or away[0] < clock.now < away[1]:
                await asyncio.sleep(takes / 10)
                run.refused += 1
                limiter.overloaded(again=again)
                run.least = min(run.least, limiter.limit)
                return False
            starts.append(clock.now)
            in_flight += 1
            await asyncio.sleep(takes * chance.uniform(0.7, 1.3))
            in_flight -= 1
            limiter.succeeded(again=again)
            return True

    async def work(waiting: Iterator[int]) -> None:
        for _ in waiting:
            for number in range(1, 6):
                if await attempt(number > 1):
                    break
                await asyncio.sleep(Retry().wait(number, retry_after))
            else:
                run.failed += 1

    async def all_of_them() -> None:
        waiting = iter(range(items))
        await asyncio.wait_for(
            asyncio.gather(*(work(waiting) for _ in range(64))), timeout=36_000
        )

    random.seed(5)  # Retry's jitter
    try:
        clock.run_until_complete(all_of_them())
    finally:
        clock.close()
    run.seconds = clock.now
    return run


@pytest.mark.parametrize("share", [0.03, 0.05, 0.1])
def test_rare_refusals_slow_nobody_down(share: float):
    run = run_of(share=share)
    undisturbed = run_of()
    assert run.seconds < 2 * undisturbed.seconds
    assert run.least >= 16
    assert run.failed == 0


@pytest.mark.parametrize(
    ("room", "takes", "retry_after", "share"),
    [
        (4, 0.2, 1.0, 0.0),
        (4, 2.0, None, 0.0),
        (8, 0.2, None, 0.0),
        (8, 2.0, 1.0, 0.0),
        (24, 0.2, 1.0, 0.0),
        (24, 2.0, None, 0.0),
        (40, 0.2, 1.0, 0.0),
        (40, 2.0, None, 0.0),
        (8, 0.2, 1.0, 0.03),  # few slots, and accidents
        (24, 0.2, 1.0, 0.03),
    ],
)
def test_calls_in_flight_settle_at_the_servers_limit(
    room: int, takes: float, retry_after: float | None, share: float
):
    run = run_of(
        room=room, takes=takes, retry_after=retry_after, share=share, items=3_000
    )
    assert run.seconds < 3_000 * takes / room / 0.85
    assert run.refused < (0.1 if share else 0.05) * 3_000
    assert run.failed == 0 or share


def test_a_server_that_counts_calls_a_second_is_asked_that_often():
    run = run_of(rate=20, takes=0.2)
    assert run.seconds < 2_000 / 20
    assert run.failed < 20


def test_after_an_outage_the_limit_comes_back():
    assert run_of(away=(10, 100)).seconds < 90 + 3 * run_of().seconds
