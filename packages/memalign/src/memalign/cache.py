"""Memoise derived values in an immutable object's own `__dict__`, so that they go with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["cached"]

T = TypeVar("T")


def cached(owner: object, key: Hashable, make: Callable[[], T]) -> T:
    """Make the value for a key of `owner` when it is first asked for, and return it from then on.

    Of threads that ask at once each may make it, and all get the first one's.
    """
    entries: dict[Hashable, Any] = owner.__dict__.setdefault("_cached", {})
    if key not in entries:
        entries.setdefault(key, make())
    value: T = entries[key]
    return value
