"""One request and its JSON answer, sent again while the server is busy or the way to it is lost."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from memalign.errors import MemalignError

__all__ = ["ServerRefused", "ServerUnreachable", "exchange"]

_TRIES = 4
_PAUSE = 0.5  # seconds
_LONGEST = 60.0  # seconds that a server may ask us to wait
_BUSY = frozenset((429, 502, 503, 504))


class ServerRefused(MemalignError):
    """The server answered with a problem: its `status`, and what it says; `fields` are the problem's own."""

    def __init__(self, status: int, detail: str, fields: dict[str, Any] | None = None) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.fields = fields or {}


class ServerUnreachable(MemalignError):
    """No server answers at the address, or its answers are lost on the way, every time we tried."""


def exchange(
    http: httpx2.Client, method: str, path: str, *, remedy: str, again: Collection[int] = _BUSY, **given: Any
) -> Any:
    """The JSON that the server answers, None where it answers nothing; what is sent twice must be safe to be done twice.

    `again` are the statuses after which it is sent again, when `Retry-After` says so. Raises ServerRefused for every other
    problem, with the server's own words, and ServerUnreachable, with the `remedy`, when no answer comes or it is cut.
    """
    for left in reversed(range(_TRIES)):
        try:
            answer = http.request(method, path, **given)
            if answer.is_success:
                return answer.json() if answer.content else None
        except (httpx2.TransportError, httpx2.DecodingError, ValueError) as error:  # ValueError: JSON that is cut
            if not left:
                said = "its answer is no JSON" if isinstance(error, ValueError) else str(error) or type(error).__name__
                raise ServerUnreachable(f"no server answers at {_shown(http.base_url)} ({said}): {remedy}") from None
            time.sleep(_PAUSE)
            continue
        if answer.status_code not in again or not left:
            raise _refused(answer)
        time.sleep(_wait(answer.headers.get("retry-after")))
    raise AssertionError


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
