"""One long-lived event loop under every synchronous call.

The core is async. A synchronous call that used `asyncio.run` would fail inside a notebook, whose own loop is running,
and would close the HTTP connections that clients keep open between calls. So all synchronous calls share one loop in
one daemon thread, started on first use (the habit is any-llm's, `any_llm/utils/aio.py`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run"]

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _background_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603  # one loop a process is the point
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="memalign", daemon=True).start()
        return _loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` on the background loop and wait for its result.

    Ctrl-C cancels the coroutine, waits until it has cleaned up, and raises KeyboardInterrupt.
    """
    loop = _background_loop()
    if threading.current_thread() is not threading.main_thread():
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is loop:
            coroutine.close()
            raise RuntimeError("a synchronous memalign call inside memalign's own loop would wait for ever; use await")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except KeyboardInterrupt:
        if future.cancel():
            done = threading.Event()
            loop.call_soon_threadsafe(loop.call_later, 0, done.set)
            done.wait(timeout=5)
        raise
