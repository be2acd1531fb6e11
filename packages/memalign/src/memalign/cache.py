"""What is made of an immutable value for one key, and lies in the value itself, so that it goes with it.

For a single thing `functools.cached_property` does the same. Both need a class whose objects have a `__dict__`, which
no comparison, no copy and no file takes note of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

__all__ = ["cached"]

T = TypeVar("T")


def cached(owner: object, key: Hashable, make: Callable[[], T]) -> T:
    """Make what belongs to `key` of `owner` when it is first asked for, and return the same from then on.

    Of threads that ask at once each may make it, and all get the first one's.

    Args:
        owner: An immutable value.
        key: What is made of it.
        make: Makes it.
    """
    entries: dict[Hashable, Any] = owner.__dict__.setdefault("_cached", {})
    if key not in entries:
        entries.setdefault(key, make())
    value: T = entries[key]
    return value
