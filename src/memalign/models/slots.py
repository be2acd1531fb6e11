"""A limit on calls in flight that holds over all event loops and threads of a process."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import TracebackType

__all__ = ["Slots"]


class Slots:
    """`async with slots:` waits for one of `count` slots, first come first served.

    An asyncio.Semaphore belongs to one event loop, yet the same model serves memalign's background loop and a
    notebook's own at the same time, and the provider counts them together.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            future = loop.create_future()
            self._waiting.append((loop, future))
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
            while self._waiting:
                loop, future = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(self._deliver, future)
                except RuntimeError:  # that loop was closed with its tasks still waiting
                    continue
                return
            self._free += 1

    def _deliver(self, future: asyncio.Future[None]) -> None:
        if future.cancelled():
            self._release()
        else:
            future.set_result(None)
