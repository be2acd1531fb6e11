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

_LEAST, _AWAY = 1 / 256, 1 / 4  # what stays of the limit; the latter while nothing is answered
_EASED = 0.7  # of the limit stays where refusals bunch, as in CUBIC (RFC 9438)
_EARNED = 1 / 40  # of the right to try one more call than is known to be taken, by an answer
_LATELY = 20  # so many calls are those of late, or twice as many as may be in flight
_BUNCH = 1 / 3  # of the calls of late: from there on refusals bunch
_STEEP = 1 / 5  # of the calls of late may be refused while the limit doubles
_NOTED = 1 / 50  # how fast the share of accidents is learned, by an answer
_NEAR = 1 / 8  # of the limit may have gone until a refused call is answered, for that to be no reason


class ConcurrencyLimiter:
    """`async with limiter:` waits until one more call may be in flight, first come first served.

    The limit is `count` at first. With `most` above that, it follows what the provider takes. It doubles with every round
    of calls that `succeeded`, until calls are refused for being too many (`overloaded`). Then it falls by as many calls as
    were refused, comes back quickly to what was taken, and tries one more after forty answers. Below 1, where even single
    calls are refused, calls are spaced out: at a half, the limiter stays empty after a call for as long as calls take.

    Some servers refuse a call now and then however few there are. Such a call is answered when it is tried again with
    about the same limit; one that is one too many is refused again. Single refusals take nothing away as long as
    enough of those before were of the first kind. While nothing at all is answered, the server is away: what it took
    before is tried again as soon as it is back.

    An asyncio.Semaphore belongs to one event loop, yet the same model serves memalign's background loop and a
    notebook's own at the same time, and the provider counts them together.
    """

    def __init__(self, count: int, *, most: int | None = None) -> None:
        self._lock = threading.Lock()
        self._limit = float(count)
        self._most = float(max(most or count, count))
        self._used = 0
        self._doubling = True
        self._eased = float("-inf")  # when the limit fell last
        self._asked = 0.0  # the limit then
        self._refused = 0  # calls of then that were refused
        self._known = float("inf")  # calls that the provider is known to take
        self._credit = 0.0
        self._accidents = 0.0  # the share of calls that are refused whatever the limit
        self._calls = self._refusals = 0.0  # of late
        self._answered = True  # whether any call was, since the limit fell
        self._before = 0.0  # calls that were known to be taken when answers ceased
        self._took = 0.0  # seconds of a call, smoothed
        self._not_before = float("-inf")  # when the next call may begin, with a limit below 1
        self._wakes = float("-inf")  # when somebody looks next whether it may
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
                self._took += (took - self._took) * (0.1 if self._took else 1.0)
            self._count(refused=False)
            self._answered = True
            fell = math.inf if refused_at is None else refused_at - self._limit
            by_accident = fell <= max(1, self._limit * _NEAR) and self._refusals < _STEEP * self._of_late()
            self._accidents += (by_accident - self._accidents) * _NOTED
            self._credit = min(self._credit + _EARNED + (fell <= 0), 1.5)
            step = min(1 / self._limit, self._limit / 4)  # one more a round
            if self._doubling:
                self._limit += 1
            elif self._limit < self._known:
                self._limit = min(self._limit + 4 * step, self._known)
            elif self._credit >= 1:  # by one a round at first, and then by twice as many as the round before
                self._limit += step * max(1.0, self._limit - self._known)
            self._limit = min(self._limit, self._most)
            self._hand_over()

    def overloaded(self, *, began: float, refused_at: float | None = None) -> float:
        """A call that `began` then (time.monotonic) was refused, as one too many or by accident; returns the limit then.

        `refused_at` is what this returned when the same call was refused before. Calls that were in flight together are
        refused together: those that began before the limit fell say nothing new but how many were too many.
        """
        with self._lock:
            limit = self._limit
            self._count(refused=True)
            bunch = self._refusals >= _BUNCH * self._of_late()
            if began >= self._eased:
                if not self._doubling and self._used > self.limit:
                    return limit  # those that began with a higher limit are still under way, and refused for that
                if refused_at is None and not bunch and self._may_be_accident():
                    return limit
                self._asked = float(int(limit)) if limit >= 1 else limit
                self._refused = int(self._refusals) - 1 if self._doubling else 0
                self._before = 0.0 if self._answered or self._doubling else self._known
                self._doubling = self._answered = False
                self._eased = time.monotonic()
            self._credit = max(self._credit - 1, -5.0 if bunch else -1.0)
            self._refused += 1
            taken = self._asked - max(self._refused - 2 * self._accidents * self._asked, 1.0)
            if taken < 1:  # all of them: too busy for anybody, or one at a time is too many
                taken = self._asked / 2 if self._asked >= 2 else self._asked * _EASED
            self._limit = self._known = max(taken, min(self._asked, 1.0))
            if bunch:
                self._limit = max(min(self._asked * _EASED, taken), min(self._asked, _AWAY if self._before else _LEAST))
                self._known = max(taken, self._before)
            return limit

    def _may_be_accident(self) -> bool:
        if self._doubling:
            return self._refusals <= _STEEP * self._of_late()
        if self._refusals <= 2 * self._accidents * (self._of_late() + _LATELY):
            return True
        if self._credit < 1:
            return False
        self._credit -= 1  # comes back where the same call is answered with the same limit
        return True

    def _of_late(self) -> float:
        """Of how many calls refusals are judged: refusals come at once, and answers to those beside them later."""
        return max(self._calls, self._used)

    def _count(self, *, refused: bool) -> None:
        kept = 1 - 1 / max(_LATELY, 2 * self._limit)
        self._calls = self._calls * kept + 1
        self._refusals = self._refusals * kept + refused

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
            # Cancelled after its turn was given but before this task woke up: the turn goes to the next one.
            # (Given but not yet delivered: `_deliver` sees the cancelled future and does the same.)
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
        """Give free turns to those who wait; the lock is held."""
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
        if self._wakes > now:
            return
        self._wakes = now + pause
        for loop in dict.fromkeys(loop for loop, _ in self._waiting):
            with contextlib.suppress(RuntimeError):  # closed with its tasks still waiting
                loop.call_soon_threadsafe(loop.call_later, pause, self._wake)

    def _wake(self) -> None:
        with self._lock:
            self._hand_over()

    def _deliver(self, future: asyncio.Future[None]) -> None:
        if future.cancelled():
            self._release()
        else:
            future.set_result(None)
