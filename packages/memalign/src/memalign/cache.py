"""What is made of an immutable value for one key, and lies in the value's `__dict__`, so that it goes with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["cached"]

T = TypeVar("T")


def cached(owner: object, key: Hashable, make: Callable[[], T]) -> T:
    """Make what belongs to `key` of `owner` when it is first asked for, and return the same from then on.

    Of threads that ask at once each may make it, and all get the first one's.
    """
    entries: dict[Hashable, Any] = owner.__dict__.setdefault("_cached", {})
    if key not in entries:
        entries.setdefault(key, make())
    value: T = entries[key]
    return value
