"""A limit on calls in flight that holds over all event loops and threads of a process, and follows what is taken."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from types import TracebackType

__all__ = ["Slots"]

_LEAST = 1 / 256
_EASED = 0.7  # of the slots stay after a refusal, as in CUBIC (RFC 9438)
_EARNED = 1 / 40  # of the right to try one more than is known to be taken, by an answer
_SAVED = 1.5
_OWED = -5.0
_SMOOTHING = 0.1


class Slots:
    """`async with slots:` waits for one of the slots, first come first served.

    There are `count` of them at first. With `most` above that, their number follows what the provider takes. It doubles
    with every round of calls that `succeeded`, up to `most`, until a call is refused for being one too many
    (`overloaded`). That takes a third of them away; they come back quickly, up to as many as were taken, and one more is
    tried only after forty answers for every refusal: a provider whose limit stays where it is refuses about one call in
    forty, and one that has room again is noticed. Below one slot, calls are spaced out: at a half, the only slot stays
    empty after a call for as long as calls take.

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
        self._took = 0.0  # seconds of a call, smoothed
        self._not_before = float("-inf")  # when the next call may begin, below one slot
        self._looking = float("-inf")  # when somebody looks next whether it may
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def limit(self) -> int:
        """How many calls may be in flight now; 1 also where calls are spaced out."""
        return max(1, int(self._limit))

    def succeeded(self, *, began: float | None = None) -> None:
        """A call that `began` then (time.monotonic) was answered: there may be room for more."""
        with self._lock:
            if began is not None:
                took = time.monotonic() - began
                self._took += (took - self._took) * (_SMOOTHING if self._took else 1.0)
            self._credit = min(self._credit + _EARNED, _SAVED)
            if self._limit >= self._most:
                return
            step = min(1 / self._limit, self._limit / 4)
            if self._steep:
                most, step = float(self._most), 1.0
            elif self._limit < self._known:
                most, step = self._known, 4 * step
            else:
                most = float(self._most) if self._credit >= 1 else self._limit
            self._limit = min(self._limit + step, max(most, self._limit), float(self._most))
            self._hand_over()

    def overloaded(self, *, began: float) -> None:
        """A call that `began` then (time.monotonic) was one too many.

        Calls that were in flight together are refused together: those that began before the last easing say nothing
        new but how many were too many, and one burst takes slots away once.
        """
        with self._lock:
            self._credit = max(self._credit - 1, _OWED)
            if began >= self._eased:
                self._asked = float(int(self._limit)) if self._limit >= 1 else self._limit
                self._refused = 0
                self._steep = False
                self._eased = time.monotonic()
            self._refused += 1
            self._known = self._asked - self._refused
            if self._known < 1:  # all of them: too busy for anybody, or one at a time is too many
                self._known = self._asked / 2 if self._asked >= 2 else self._asked * _EASED
            self._limit = max(_LEAST, min(self._asked * _EASED, self._known))

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
