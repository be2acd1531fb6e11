"""A limit on calls in flight that holds over all event loops and threads of a process, and follows what is taken."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from types import TracebackType

__all__ = ["ConcurrencyLimiter"]

_LEAST = 1 / 256
_AWAY = 1 / 4  # slots that stay while nothing is answered
_EASED = 0.7  # of the slots stay where refusals bunch, as in CUBIC (RFC 9438)
_EARNED = 1 / 40  # of the right to try one more than is known to be taken, by an answer
_SAVED = 1.5
_OWED = -5.0
_OWED_BY_FEW = -1.0  # where refusals do not bunch
_SMOOTHING = 0.1
_LATE = 20  # so many calls are those of late, or twice as many as may be in flight
_BUNCH = 1 / 3  # of the calls of late: from there on refusals bunch
_STEEP = 1 / 5  # of the calls of late may be refused while the slots double; beyond it none is an accident
_NOTED = 1 / 50  # how fast the share of accidents is learned, by an answer
_FEWER = 1 / 8  # of the slots may have been taken away until a refused call is answered, for that to be no reason


class ConcurrencyLimiter:
    """`async with slots:` waits for one of the slots, first come first served.

    There are `count` of them at first. With `most` above that, their number follows what the provider takes. It doubles
    with every round of calls that `succeeded`, up to `most`, until calls are refused for being too many (`overloaded`).
    Then as many slots go as calls were refused, a third at least where refusals bunch; the latter come back quickly, up
    to as many as were taken. One more is tried only after forty answers for every refusal: a provider whose limit stays
    where it is refuses few calls, and one that has room again is noticed. Below one slot, where refusals bunch, calls are
    spaced out: at a half, the only slot stays empty after a call for as long as calls take.

    Some servers refuse a call now and then however few there are. Such a call is answered when it is tried again, with
    about as many slots as before; one that is one too many is refused again. The share of the former is noted, and single
    refusals up to twice that share take nothing away. While nothing at all is answered, the server is away: what it took
    before is tried again as soon as it is back.

    An asyncio.Semaphore belongs to one event loop, yet the same model serves memalign's background loop and a
    notebook's own at the same time, and the provider counts them together.
    """

    def __init__(self, count: int, *, most: int | None = None) -> None:
        self._lock = threading.Lock()
        self._limit = float(count)
        self._most = max(most or count, count)
        self._used = 0
        self._steep = True
        self._eased = float("-inf")
        self._asked = float("inf")  # slots at the last easing, and how many calls were refused then
        self._refused = 0
        self._known = float("inf")  # slots that the provider is known to take
        self._credit = 0.0
        self._accidents = 0.0  # the share of calls that are refused whatever the number of slots
        self._calls = self._refusals = 0.0  # of late
        self._answered = True  # whether any call was, since the last easing
        self._before = 0.0  # slots that were known to be taken when answers ceased
        self._took = 0.0  # seconds of a call, smoothed
        self._not_before = float("-inf")  # when the next call may begin, below one slot
        self._looking = float("-inf")  # when somebody looks next whether it may
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now; 1 also where calls are spaced out."""
        return max(1, int(self._limit))

    def succeeded(self, *, began: float | None = None, refused_at: float | None = None) -> None:
        """A call that `began` then (time.monotonic) was answered: there may be room for more.

        `refused_at` is what `overloaded` returned when the same call was refused before.
        """
        with self._lock:
            if began is not None:
                took = time.monotonic() - began
                self._took += (took - self._took) * (_SMOOTHING if self._took else 1.0)
            self._credit = min(self._credit + _EARNED, _SAVED)
            self._answered = True
            self._count(refused=False)
            few = self._refusals < _STEEP * self._of_late()
            fewer = refused_at - self._limit if few and refused_at is not None else math.inf
            self._accidents += ((fewer <= max(1, self._limit * _FEWER)) - self._accidents) * _NOTED
            self._credit = min(self._credit + (fewer <= 0), _SAVED)
            if self._limit >= self._most:
                return
            step = min(1 / self._limit, self._limit / 4)
            if self._steep:
                most, step = float(self._most), 1.0
            elif self._limit < self._known:
                most, step = self._known, 4 * step
            else:  # by one a round at first, and then by twice as many as the round before
                most = float(self._most) if self._credit >= 1 else self._limit
                step *= max(1.0, self._limit - self._known)
            self._limit = min(self._limit + step, max(most, self._limit), float(self._most))
            self._hand_over()

    def overloaded(self, *, began: float, refused_at: float | None = None) -> float:
        """A call that `began` then (time.monotonic) was refused, as one too many or by accident; returns the slots then.

        `refused_at` is what this returned when the same call was refused before. Calls that were in flight together are
        refused together: those that began before the last easing say nothing new but how many were too many, and one
        burst takes slots away once.
        """
        with self._lock:
            limit = self._limit
            self._count(refused=True)
            bunch = self._refusals >= _BUNCH * self._of_late()
            if began >= self._eased:
                if not self._tells(single=refused_at is None and not bunch):
                    return limit
                self._asked = float(int(limit)) if limit >= 1 else limit
                self._before = 0.0 if self._answered or self._steep else self._known
                self._refused = int(self._refusals) - 1 if self._steep else 0
                self._steep = self._answered = False
                self._eased = time.monotonic()
            owed = _OWED if bunch else min(self._credit, _OWED_BY_FEW)
            self._credit = max(self._credit - 1, owed)
            self._refused += 1
            self._ease(bunch=bunch)
            return limit

    def _tells(self, *, single: bool) -> bool:
        """Whether a refusal says that there are too many slots; the lock is held."""
        if not self._steep and self._used > self.limit:
            return False  # those that were begun with more slots are still under way, and refused for that
        if not single:
            return True
        if self._steep:
            return self._refusals > _STEEP * self._of_late()
        if self._refusals <= 2 * self._accidents * (self._of_late() + _LATE):
            return False
        if self._credit < 1:
            return True
        self._credit -= 1  # comes back where the same call is answered with as many slots
        return False

    def _of_late(self) -> float:
        """Of how many calls refusals are judged: refusals come at once, and answers to those beside them later."""
        return max(self._calls, self._used)

    def _count(self, *, refused: bool) -> None:
        kept = 1 - 1 / max(_LATE, 2 * self._limit)
        self._calls = self._calls * kept + 1
        self._refusals = self._refusals * kept + refused

    def _ease(self, *, bunch: bool) -> None:
        """Take slots away, for as many refusals as there are of calls that were in flight together; the lock is held."""
        known = self._asked - max(self._refused - 2 * self._accidents * self._asked, 1.0)
        if known < 1:  # all of them: too busy for anybody, or one at a time is too many
            known = self._asked / 2 if self._asked >= 2 else self._asked * _EASED
        if not bunch:
            self._limit = self._known = max(known, min(self._asked, 1.0))
            return
        least = _AWAY if self._before else _LEAST
        self._limit = max(min(self._asked * _EASED, known), min(self._asked, least))
        self._known = max(known, self._before)

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._used < self.limit and not self._waiting and time.monotonic() >= self._not_before:
                self._used += 1
                return
            future = loop.create_future()
            self._waiting.append((loop, future))
            self._hand_over()  # those before us may belong to a loop that is closed
        try:
            await future
        except asyncio.CancelledError:
            with self._lock:
                waiting = (loop, future) in self._waiting
                if waiting:
                    self._waiting.remove((loop, future))
            # Cancelled after the slot was handed over but before this task woke up: the slot goes to the next one.
            # (Handed over but not yet delivered: `_deliver` sees the cancelled future and does the same.)
            if not waiting and not future.cancelled():
                self._release()
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        with self._lock:
            self._used -= 1
            if self._limit < 1:
                self._not_before = time.monotonic() + self._took * (1 / self._limit - 1)
            self._hand_over()

    def _hand_over(self) -> None:
        """Give free slots to those who wait; the lock is held."""
        while self._waiting and self._used < self.limit:
            if self._limit < 1 and (pause := self._not_before - time.monotonic()) > 0:
                self._later(pause)
                return
            loop, future = self._waiting.popleft()
            try:
                loop.call_soon_threadsafe(self._deliver, future)
            except RuntimeError:  # that loop was closed with its tasks still waiting
                continue
            self._used += 1

    def _later(self, pause: float) -> None:
        """Look again after a pause, by whichever loop of those who wait is still open; the lock is held."""
        now = time.monotonic()
        if self._looking > now:
            return
        self._looking = now + pause
        for loop in dict.fromkeys(loop for loop, _ in self._waiting):
            with contextlib.suppress(RuntimeError):  # closed with its tasks still waiting
                loop.call_soon_threadsafe(loop.call_later, pause, self._look)

    def _look(self) -> None:
        with self._lock:
            self._hand_over()

    def _deliver(self, future: asyncio.Future[None]) -> None:
        if future.cancelled():
            self._release()
        else:
            future.set_result(None)
