"""One long-lived event loop under every synchronous call.

The core is async. A synchronous call that used `asyncio.run` would fail inside a notebook, whose
own loop is running, and would close the HTTP connections that clients keep open between calls. So
all synchronous calls share one loop in one daemon thread, started on first use (the habit is
any-llm's, `any_llm/utils/aio.py`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from memalign.errors import MemalignError

logger = logging.getLogger(__name__)

__all__ = ["at_most", "blocking", "run", "shared", "together"]

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _background_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603  # one loop a process is the point
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(
                target=_loop.run_forever, name="memalign", daemon=True
            ).start()
        return _loop


def _forget_loop() -> None:
    """Forget the loop in a forked child, which has its object but not its thread."""
    global _lock, _loop  # noqa: PLW0603  # one loop a process is the point
    _lock = threading.Lock()
    _loop = None


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget_loop)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` on the background loop and wait for its result.

    Ctrl-C cancels the coroutine, waits until it has cleaned up, and raises KeyboardInterrupt.
    """
    loop = _background_loop()
    if asyncio._get_running_loop() is loop:
        coroutine.close()
        raise RuntimeError(
            "a synchronous memalign call inside memalign's own loop would wait for ever; use await"
        )
    task: asyncio.Task[Any] | None = None
    interrupted = threading.Event()
    ended = threading.Event()

    async def whole() -> T:
        nonlocal task
        try:
            if interrupted.is_set():
                raise asyncio.CancelledError
            task = asyncio.current_task()
            return await coroutine
        finally:
            coroutine.close()  # where it never began
            ended.set()

    def cancel() -> None:
        interrupted.set()
        if task is not None:
            task.cancel()

    try:
        return asyncio.run_coroutine_threadsafe(whole(), loop).result()
    except KeyboardInterrupt:
        # It may come before there is a future to cancel, while the work is under way already.
        loop.call_soon_threadsafe(cancel)
        ended.wait(timeout=5)
        raise


def blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make the synchronous form of a coroutine function; its name loses the `a`."""

    @wraps(function)
    def waiting(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            coroutine = function(*args, **kwargs)
        except TypeError as error:  # an argument that it does not have
            name = f"{function.__name__}()"
            raise TypeError(str(error).replace(name, name.removeprefix("a"))) from None
        try:
            return run(coroutine)
        except MemalignError as error:
            # Its message says what to do; in a notebook the way through our loop would bury it.
            logger.debug("%s raised", waiting.__qualname__, exc_info=error)
            raise error.with_traceback(None) from None

    name = function.__name__.removeprefix("a")
    holder = function.__qualname__.removesuffix(function.__name__)
    waiting.__name__ = name
    waiting.__qualname__ = f"{holder}{name}"
    return waiting


def shared(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make `function` run on the background loop, to which connections belong."""

    @wraps(function)
    async def waiting(*args: P.args, **kwargs: P.kwargs) -> T:
        loop = _background_loop()
        if asyncio.get_running_loop() is loop:
            return await function(*args, **kwargs)
        coroutine = function(*args, **kwargs)
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        return await asyncio.wrap_future(future)

    return waiting


async def together(coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run `coroutines` at once and return their results in order; an error cancels the others.

    A TaskGroup would wrap the error in a group, which no `except MemalignError` catches; `gather`
    alone would let the others go on, unwatched, and spend money.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def at_most(
    limit: int,
    function: Callable[[Item], Awaitable[T]],
    items: Sequence[Item],
    progress: Callable[[int, int], None],
) -> list[T]:
    """Call `function` with every item, at most `limit` at a time, and return the results in order.

    `progress` is called with how many items are done, and how many there are.
    """
    places = asyncio.Semaphore(limit)
    done = 0

    async def one(item: Item) -> T:
        nonlocal done
        async with places:
            result = await function(item)
        done += 1
        progress(done, len(items))
        return result

    return await together(one(item) for item in items)
