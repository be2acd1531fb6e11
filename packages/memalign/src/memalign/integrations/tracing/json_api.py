"""A tool's HTTP interface: its address and keys out of the environment, JSON in and out, and errors that say what to do."""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import httpx2

from memalign.client.exchange import ServerRefused, exchange
from memalign.errors import ConfigurationError, InputError

__all__ = ["JsonApi", "address", "key", "side_by_side"]

_AT_ONCE = 8  # requests: a tool across the ocean answers ten a second to one that waits for each

Item = TypeVar("Item")

_AGAIN = frozenset((429, 500, 502, 503, 504))  # all that we write has an id, and is the same when it is sent twice


def address(names: tuple[str, ...], default: str | None) -> str:
    """The address in the first of these environment variables that is set. Raises ConfigurationError."""
    found = next((given for name in names if (given := os.environ.get(name, "").strip())), default)
    if found is None:
        raise ConfigurationError(f"where is it? Set {names[0]}, for example {names[0]}=https://tool.example.com")
    if not found.startswith(("http://", "https://")):
        raise ConfigurationError(f"{names[0]} must be an address that begins with https:// or http://")
    return found.rstrip("/")


def key(name: str) -> str:
    """The secret in an environment variable. Raises ConfigurationError that names it."""
    found = os.environ.get(name, "").strip()
    if not found:
        raise ConfigurationError(f"{name} is not set: it holds the key of the tool")
    if not found.isascii() or not found.isprintable():
        raise ConfigurationError(f"{name} holds characters that no key has; copy it again")
    return found


def side_by_side(function: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Call `function` with each item, several at a time; the first error ends it."""
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        for _ in pool.map(function, items):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


class JsonApi:
    """Requests to one tool at `url`; `keys` are the environment variables that hold its secrets, for messages."""

    def __init__(
        self, tool: str, url: str, *, keys: str, headers: Mapping[str, str] | None = None, auth: Any = None
    ) -> None:
        self._tool, self._keys = tool, keys
        self._http = httpx2.Client(base_url=url, headers=dict(headers or {}), auth=auth, timeout=60.0)
        weakref.finalize(self, self._http.close)

    def get(self, path: str, **query: Any) -> Any:
        """The answer to a GET; values of `query` that are None are left out, lists are repeated."""
        return self._ask("GET", path, params={name: value for name, value in query.items() if value is not None})

    def send(self, path: str, body: Any, *, method: str = "POST", **query: Any) -> Any:
        """The answer to a POST, or another `method`, of a JSON body."""
        return self._ask(method, path, json=body, params=query)

    def id_of(self, place: str, named: Callable[[str], Any]) -> str:
        """The id of the project `place`, which is one, or a name that `named` looks up. Raises InputError."""
        with suppress(ValueError):
            return str(uuid.UUID(place))
        found = named(place)
        if not isinstance(found, list) or not found:
            raise InputError(f"{self._tool} has no project {place!r} that this key may see")
        return str(found[0]["id"])

    def pages(self, ask: Callable[[str | None], Any], items: str, cursor: Callable[[Any], Any]) -> Iterator[Any]:
        """The `items` of every page: `ask` gets the page after a cursor, None for the first; `cursor` finds the next one."""
        seen: set[str] = set()
        place: str | None = None
        while True:
            page = ask(place)
            found = page.get(items) if isinstance(page, dict) else None
            if not isinstance(found, list):
                raise InputError(f"{self._tool} answered without a list of {items!r}; is it another version?")
            yield from found
            place = cursor(page)
            if not place:
                return
            if place in seen:
                raise InputError(f"{self._tool} gave the same page twice; read it again later")
            seen.add(place)

    def _ask(self, method: str, path: str, **given: Any) -> Any:
        try:
            return exchange(
                self._http,
                method,
                path,
                remedy=f"is {self._tool} running, and is its address right?",
                again=_AGAIN,
                **given,
            )
        except ServerRefused as refused:
            said = str(refused).partition(": ")[2].strip()
            if refused.status in (401, 403):
                raise ConfigurationError(
                    f"{self._tool} refuses the key ({refused.status}): check {self._keys}, and that it may do this"
                ) from None
            if refused.status in (400, 404, 422):
                shown = "" if said.lstrip().startswith("<") else f": {said[:200]}"
                raise InputError(f"{self._tool} does not know {path} ({refused.status}){shown}") from None
            raise
