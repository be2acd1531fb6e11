"""What a run's model calls cost, and where that ends it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from memalign.errors import MemalignError
from memalign.types import Usage

__all__ = ["Gate", "Spending", "StoppedError"]

Gate = Callable[[], AbstractAsyncContextManager[None]]
"""What every model call that is made now goes through; it may refuse."""


class StoppedError(MemalignError):
    """The run has stopped, and begins no model call any more.

    No ModelError: an alignment would go on without the answer and leave feedback pending.
    """


class Spending:
    """The dollars that a run has spent. Once it has `stopped`, with the reason, no call begins any more.

    `cost` is in US dollars, and None as soon as that of one call is not known. `cost_of` gives the cost of a usage.
    """

    def __init__(self, spend_limit: float | None, cost_of: Callable[[Usage], float | None]) -> None:
        self._spend_limit = spend_limit
        self._cost_of = cost_of
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.cost: float | None = 0.0
        self.stopped: str | None = None

    @asynccontextmanager
    async def gate(self) -> AsyncIterator[None]:
        """A model call goes on inside. Raises StoppedError once the run has stopped."""
        if self.stopped is not None:
            # The error cancels the calls beside this one, which are paid: their answers come first, to be remembered.
            await self._idle.wait()
            raise StoppedError(self.stopped)
        self._in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    def pay(self, usage: Usage) -> None:
        """Count a call that was made, and stop where the spend limit is reached or cannot be kept."""
        cost = self._cost_of(usage)
        self.cost = None if cost is None or self.cost is None else self.cost + cost
        if self._spend_limit is None:
            return
        if self.cost is None:
            self.stopped = "what a call costs is not known: give [prices], or no spend limit"
        elif self.cost >= self._spend_limit:
            self.stopped = f"${self.cost:.4f} spent, the spend limit is ${self._spend_limit:.4f}"
