"""What is derived from an immutable value, made once and kept for as long as the value lives.

Entries are keyed by the value itself, not by its content, and go with it: no cache holds on to what was forgotten.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, Self, TypeVar, overload

__all__ = ["derived", "kept"]

T = TypeVar("T")


class _Owner(weakref.ref[Any]):
    __slots__ = ("number",)
    number: int


class _Entries(NamedTuple):
    owner: _Owner
    by_key: dict[Hashable, Any]


class _Cache:
    """Entries by the number of their owner. A bound method is called when one is freed, also while Python shuts down."""

    def __init__(self) -> None:
        self.by_owner: dict[int, _Entries] = {}
        self.renew()

    def renew(self) -> None:
        """Begin anew: a forked child has no thread that would finish what its parent's threads were making."""
        self.lock = threading.RLock()  # the collector may free an owner while this thread holds the lock
        self.by_owner.clear()

    def entries(self, owner: object) -> dict[Hashable, Any]:
        """What is kept of `owner`."""
        number = id(owner)
        found = self.by_owner.get(number)
        if found is not None and found.owner() is owner:  # nearly always, and without the lock
            return found.by_key
        with self.lock:
            found = self.by_owner.get(number)
            if found is None or found.owner() is not owner:
                found = _Entries(_Owner(owner, self.forget), {})
                found.owner.number = number
                self.by_owner[number] = found
            return found.by_key

    def forget(self, owner: _Owner) -> None:
        """Drop what is kept of an owner that was freed."""
        with self.lock:
            entries = self.by_owner.get(owner.number)
            if entries is not None and entries.owner is owner:
                del self.by_owner[owner.number]


_cache = _Cache()
if hasattr(os, "register_at_fork"):  # not on Windows, which does not fork
    os.register_at_fork(after_in_child=_cache.renew)


class derived(Generic[T]):  # used as `property` is
    """A property that is made when it is first asked for, and kept; its class must take weak references."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make, self._key, self.__doc__ = make, make.__name__, make.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...
    @overload
    def __get__(self, owner: object, kind: type) -> T: ...
    def __get__(self, owner: object | None, kind: type) -> Self | T:
        if owner is None:
            return self
        # What `kept` does, and quicker: content hashes are asked for by the ten thousand.
        known = _cache.by_owner.get(id(owner))
        if known is not None and known.owner() is owner and self._key in known.by_key:
            found: T = known.by_key[self._key]
            return found
        return kept(owner, self._key, lambda: self._make(owner))


def kept(owner: object, key: Hashable, make: Callable[[], T], *, most: int | None = None) -> T:
    """What `make` gives for `key` of `owner`, an immutable value that takes weak references.

    Of threads that ask at once each may make it, and all are given the first one's. With `most`, the oldest entry of
    the owner goes when it has more than that. What is made must not refer to the owner, which would never be freed.
    """
    entries = _cache.entries(owner)
    try:
        found: T = entries[key]
    except KeyError:
        made = make()
        with _cache.lock:
            found = entries.setdefault(key, made)
            while most is not None and len(entries) > most:
                del entries[next(iter(entries))]
    return found
