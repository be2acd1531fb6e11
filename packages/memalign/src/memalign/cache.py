"""What is derived from an immutable value, made once and kept for as long as the value lives.

Entries are keyed by the value itself, not by its content, and go with it: no cache holds on to what was forgotten.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

__all__ = ["kept", "kept_async"]

T = TypeVar("T")


class _Entries(NamedTuple):
    owner: weakref.ref[Any]
    by_key: dict[Hashable, Any]


_lock = threading.RLock()  # the collector may free an owner, and run its callback, while this thread holds the lock
_by_owner: dict[int, _Entries] = {}


def kept(owner: object, key: Hashable, make: Callable[[], T], *, most: int | None = None) -> T:
    """What `make` gives for `key` of `owner`, an immutable value that takes weak references.

    Of threads that ask at once each may make it, and all are given the first one's. With `most`, the oldest entry of
    the owner goes when it has more than that.
    """
    entries = _entries(owner)
    try:
        found: T = entries[key]
    except KeyError:
        made = make()
        with _lock:
            found = entries.setdefault(key, made)
            while most is not None and len(entries) > most:
                del entries[next(iter(entries))]
    return found


async def kept_async(owner: object, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
    """As `kept`, made once: callers that come meanwhile, in any thread or event loop, wait for the same result.

    When making it fails, the first caller has the error and the next one tries again.
    """
    entries = _entries(owner)
    while True:
        with _lock:
            future: Future[tuple[T] | None] | None = entries.get(key)
            first = future is None
            if future is None:
                future = entries[key] = Future()
                future.set_running_or_notify_cancel()  # a waiter that is cancelled must not cancel it for all
        if first:
            return await _made(entries, key, future, make)
        made = future.result() if future.done() else await asyncio.wrap_future(future)
        if made is not None:
            return made[0]


async def _made(
    entries: dict[Hashable, Any], key: Hashable, future: Future[tuple[T] | None], make: Callable[[], Awaitable[T]]
) -> T:
    try:
        result = await make()
    except BaseException:
        entries.pop(key, None)
        future.set_result(None)
        raise
    future.set_result((result,))
    return result


def _entries(owner: object) -> dict[Hashable, Any]:
    number = id(owner)
    with _lock:
        found = _by_owner.get(number)
        if found is None or found.owner() is not owner:
            found = _Entries(weakref.ref(owner, lambda _: _forget(number)), {})
            _by_owner[number] = found
        return found.by_key


def _forget(number: int) -> None:
    with _lock:
        entries = _by_owner.get(number)
        if entries is not None and entries.owner() is None:
            del _by_owner[number]


def _forget_all() -> None:
    """A forked child has no thread that would finish what its parent's threads were making."""
    global _lock  # noqa: PLW0603  # one lock a process is the point
    _lock = threading.RLock()
    _by_owner.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_forget_all)
