"""A limit on attempts in flight that follows what a provider takes."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Limiter", "Pace"]

_WINDOW = 20
"""Attempts by which refusals are weighed, or twice as many as may be in flight."""

_SCATTERED = 1 / 5
"""The share of them that may be refused without a word about the limit: some servers refuse one now
and then, however few there are."""

_RETRIES = 1 / 4
"""The weight of the last retry in the share of retries that are refused again."""

_FULL = 1 / 2
"""The share of retries refused again above which the server is full; at random it is rare."""

_PROBE = 40
"""Answers after which one more attempt is tried: at a strict limit one in forty is refused."""

_CATCH_UP = 10.0
"""Seconds by which calls may lag behind their pace and still catch up: what a batch waits for its
last answer."""

_PAUSE = 1.0
"""Seconds between attempts to a server that takes none."""


class Limiter:
    """A number of attempts that may be in flight, first come first served, on one loop.

    `async with limiter:` waits for a slot. The limit is `count` at first. With `most` above that it
    follows what the provider takes. It doubles with every round of answers until more than a fifth
    of the recent attempts is refused. Each refusal from there on takes one away, so that what is
    left is what was accepted. After forty answers it tries one more; a refusal takes it back to
    what was known to be accepted. Single refusals besides are forgiven.

    A server that takes nothing at all gets one attempt at a time, with a second between two. What a
    server tells one call to wait is that call's own affair: no slot sleeps for others.
    """

    def __init__(self, count: int, *, most: int | None = None) -> None:
        self.limit = count  # attempts that may be in flight now
        self._most = max(most or count, count)
        self._accepted = count  # as many in flight are known to be taken
        self._doubling = True
        self._answers = 0  # since the last step
        self._begun = 0.0  # of the recent attempts
        self._refused = 0.0  # of these
        self._again = 0.0  # the share of recent retries that were refused again
        self._used = 0
        self._not_before = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()

    def succeeded(self, *, again: bool = False) -> None:
        """Count an attempt that was answered: there may be room for more.

        Args:
            again: Whether it was refused before.
        """
        if again:
            self._again -= self._again * _RETRIES
        if self._doubling:
            self.limit += 1
        else:
            self._answers += 1
            if self._answers >= max(_PROBE, self.limit):
                self._accepted = self.limit
                self._answers = 0
                self.limit += 1
        self.limit = min(self.limit, self._most)
        self._hand_over()

    def overloaded(self, *, again: bool = False) -> None:
        """Count an attempt that was refused, as one too many or at random; it still has its slot.

        Args:
            again: Whether it was refused before: at random that is rare, at a full server usual.
        """
        self._refused += 1
        if again:
            self._again += (1 - self._again) * _RETRIES
        full = again and self._again > _FULL
        if self._used <= 1 and self._refused > _SCATTERED * max(
            self._begun, _WINDOW / 4
        ):
            self._not_before = asyncio.get_running_loop().time() + _PAUSE
            self.limit = 1
            self._doubling = True
        elif full or self._refused > _SCATTERED * max(self._begun, _WINDOW):
            # Those still in flight are accepted, or will be refused and take one away each.
            self.limit = max(1, min(self.limit, self._used - 1))
            self._accepted = self.limit
            self._doubling = False
            self._answers = 0
        elif not self._doubling and self.limit > self._accepted:
            self.limit = self._accepted
            self._answers = 0

    async def acquire(self) -> None:
        """Wait for a slot, which `release` gives back."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._hand_over()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was given
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back."""
        self._used -= 1
        self._hand_over()

    __aenter__ = acquire

    async def __aexit__(self, *error: object) -> None:
        self.release()

    def _hand_over(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting and self._used < self.limit:
            pause = self._not_before - loop.time()
            if pause > 0:
                loop.call_later(pause, self._hand_over)
                return
            turn = self._waiting.popleft()
            if turn.cancelled():
                continue
            turn.set_result(None)
            self._used += 1
            stays = 1 - 1 / max(_WINDOW, 2 * self.limit)
            self._begun = self._begun * stays + 1
            self._refused *= stays


class Pace:
    """Turns at an even pace, however long what begins at them takes.

    Args:
        per_second: How many turns there are in a second.
    """

    def __init__(self, per_second: float) -> None:
        self._interval = 1 / per_second
        self._next: float | None = None

    async def turn(self) -> None:
        """Wait for the next turn."""
        now = asyncio.get_running_loop().time()
        due = now if self._next is None else max(self._next, now - _CATCH_UP)
        self._next = due + self._interval
        if due > now:
            await asyncio.sleep(due - now)
