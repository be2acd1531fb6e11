"""The one walker of JSON values: everything that a value holds, however deep it is nested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

__all__ = ["first_of", "members", "rebuilt", "texts_in", "values_in"]

# A value may be nested deeper than Python calls functions. So the walkers keep a stack of what
# waits, and take its end first: the parts of a value go there in reverse.


def members(value: object) -> Iterable[tuple[Any, Any]]:
    """Return the parts of an object with their keys, of a list with their places, else nothing."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    return ()


def first_of(value: object, keys: Iterable[str]) -> Any:
    """Return what an object has under the first of these keys that is there and not null."""
    if isinstance(value, Mapping):
        for key in keys:
            if value.get(key) is not None:
                return value[key]
    return None


def values_in(value: object) -> Iterator[Any]:
    """Yield the value and all that it holds, each before what it holds itself, in order."""
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            waiting.extend(reversed(part.values()))
        elif isinstance(part, list | tuple):
            waiting.extend(reversed(part))


def texts_in(
    value: object, *, keys: bool = True, numbers: bool = False
) -> Iterator[str]:
    """Yield every text in a value, in order.

    Args:
        value: A JSON value.
        keys: Whether the keys of objects count: content may carry words there.
        numbers: Whether numbers count, as text. True and false never do.
    """
    waiting: list[Any] = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            for key, inner in reversed(part.items()):
                waiting.append(inner)
                if keys and isinstance(key, str):
                    waiting.append(key)
        elif isinstance(part, list | tuple):
            waiting.extend(reversed(part))
        elif numbers and isinstance(part, int | float) and not isinstance(part, bool):
            yield str(part)


def rebuilt(value: Any, text: Callable[[str], str]) -> Any:
    """Return a value with what `text` makes of every text and key; tuples become lists."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, dict):
        return {rebuilt(key, text): rebuilt(part, text) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [rebuilt(part, text) for part in value]
    return value
