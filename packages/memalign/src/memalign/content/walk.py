"""The one walker of JSON values: everything that a value holds, however deep it is nested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = ["members", "rebuilt", "texts_in", "walk"]


def members(value: object) -> Iterable[tuple[Any, Any]]:
    """Return the parts of an object with their keys, of a list with their places, else nothing."""
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    return ()


def walk(value: object) -> Iterator[tuple[str | int | None, Any]]:
    """Yield the value and all that it holds, each before what it holds itself, as JSON writes them.

    Each comes with its key or place in what holds it, the value itself with None. Iterative,
    because a value may be nested deeper than Python calls functions.
    """
    waiting: list[tuple[str | int | None, Any]] = [(None, value)]
    while waiting:
        step, part = waiting.pop()
        yield step, part
        if isinstance(part, dict | list | tuple):
            waiting.extend(reversed(list(members(part))))


def texts_in(
    value: object, *, keys: bool = True, numbers: bool = False
) -> Iterator[str]:
    """Yield every text in a value, in order.

    Args:
        value: A JSON value.
        keys: Whether the keys of objects count: content may carry words there.
        numbers: Whether numbers count, as text. True and false never do.
    """
    for step, part in walk(value):
        if keys and isinstance(step, str):
            yield step
        if isinstance(part, str):
            yield part
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
