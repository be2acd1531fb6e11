"""One request and its JSON answer, sent again while the server is busy or the way to it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from memalign.errors import MemalignError

__all__ = ["LOST", "ServerRefused", "ServerUnreachable", "Tries", "aexchange", "exchange"]

_TRIES = 4
_PAUSE = 0.5  # seconds
_LONGEST = 60.0  # seconds that a server may ask us to wait
BUSY = frozenset((429, 502, 503, 504))
LOST = (httpx2.TransportError, httpx2.DecodingError, ValueError)
"""What is raised where no answer comes, or a part of one; ValueError: JSON that is cut."""


class ServerRefused(MemalignError):
    """The server answered with a problem: its `status`, and what it says; `fields` are the problem's own."""

    def __init__(self, status: int, detail: str, fields: dict[str, Any] | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.fields = fields or {}


class ServerUnreachable(MemalignError):
    """No server answers at the address, or its answers are lost on the way, every time we tried."""


def exchange(
    http: httpx2.Client, method: str, path: str, *, remedy: str, again: Collection[int] = BUSY, **given: Any
) -> Any:
    """The JSON that the server answers, None where it answers nothing; what is sent twice must be safe to be done twice.

    `again` are the statuses after which it is sent again, when `Retry-After` says so. Raises ServerRefused for every other
    problem, with the server's own words, and ServerUnreachable, with the `remedy`, when no answer comes or it is cut.
    """
    tries = Tries(http.base_url, remedy, again)
    while True:
        try:
            answer = http.request(method, path, **given)
            if answer.is_success:
                return answer.json() if answer.content else None
            pause = tries.refused(answer)
        except LOST as error:
            pause = tries.lost(error)
        time.sleep(pause)


async def aexchange(
    http: httpx2.AsyncClient, method: str, path: str, *, remedy: str, again: Collection[int] = BUSY, **given: Any
) -> Any:
    """The same, awaited."""
    tries = Tries(http.base_url, remedy, again)
    while True:
        try:
            answer = await http.request(method, path, **given)
            if answer.is_success:
                return answer.json() if answer.content else None
            pause = tries.refused(answer)
        except LOST as error:
            pause = tries.lost(error)
        await asyncio.sleep(pause)


class Tries:
    """What is left of a request's tries: each failure costs one, and says how many seconds to wait for the next."""

    def __init__(self, url: httpx2.URL, remedy: str, again: Collection[int] = BUSY) -> None:
        self._url, self._remedy, self._again = url, remedy, again
        self._left = _TRIES

    def refused(self, answer: httpx2.Response) -> float:
        """After an answer that is no success. Raises ServerRefused when asking again is of no use."""
        self._left -= 1
        if answer.status_code not in self._again or not self._left:
            raise _refused(answer)
        return _wait(answer.headers.get("retry-after"))

    def lost(self, error: Exception) -> float:
        """After no answer, or a part of one. Raises ServerUnreachable for the last try."""
        self._left -= 1
        if not self._left:
            said = "its answer is no JSON" if isinstance(error, ValueError) else str(error) or type(error).__name__
            raise ServerUnreachable(f"no server answers at {_shown(self._url)} ({said}): {self._remedy}") from None
        return _PAUSE


def _wait(asked: str | None) -> float:
    """Seconds: `Retry-After` is a number of them, or a date."""
    try:
        seconds = float(asked or _PAUSE)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(asked or "") - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            seconds = _PAUSE
    return min(max(seconds, 0.0), _LONGEST) if seconds == seconds else _PAUSE  # noqa: PLR0124  # "nan" is a float


def _shown(url: httpx2.URL) -> str:
    """The address without a password that may stand in it."""
    return str(url.copy_with(username=None, password=None)).rstrip("/")


def _refused(answer: httpx2.Response) -> ServerRefused:
    try:
        told = answer.json()
    except ValueError:
        told = None
    fields = told if isinstance(told, dict) else {}
    said = next((fields[name] for name in ("detail", "message", "error") if fields.get(name)), answer.text[:500])
    return ServerRefused(answer.status_code, str(said)[:500] or answer.reason_phrase, fields)
