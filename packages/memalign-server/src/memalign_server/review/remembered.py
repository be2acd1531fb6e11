"""What a browser remembers of differences for a while: the last choice, and what is put off."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response

__all__ = [
    "done_last",
    "forget_done",
    "forget_put_off",
    "put_off",
    "remember_done",
    "remember_put_off",
]

_DONE: Final = "memalign_undo"
_PUT_OFF: Final = "memalign_put_off"
_MINUTES: Final = 60
_MOST: Final = 20
"""Cases that may be put off at once."""
_LONGEST: Final = 3500
"""Characters of a cookie: a browser drops a longer one."""


def done_last(request: Request) -> dict[str, Any]:
    """Return what the person has just chosen on a difference, as `remember_done` was given it."""
    done = _read(request, _DONE)
    return done if isinstance(done, dict) else {}


def remember_done(answer: Response, path: str, done: dict[str, Any]) -> None:
    """Remember for two minutes what was chosen."""
    _keep(answer, _DONE, done, seconds=2 * _MINUTES, path=path)


def forget_done(answer: Response, path: str) -> None:
    """Forget what was chosen: it was taken back."""
    answer.delete_cookie(_DONE, path=path)


def put_off(request: Request) -> list[str]:
    """Return the cases whose differences the person put off."""
    cases = _read(request, _PUT_OFF)
    return (
        [case for case in cases if isinstance(case, str)]
        if isinstance(cases, list)
        else []
    )


def remember_put_off(answer: Response, path: str, cases: list[str]) -> None:
    """Put differences off for an hour; of too many the latest."""
    _keep(answer, _PUT_OFF, cases[-_MOST:], seconds=60 * _MINUTES, path=path)


def forget_put_off(answer: Response, path: str) -> None:
    """Put nothing off any more."""
    answer.delete_cookie(_PUT_OFF, path=path)


def _read(request: Request, name: str) -> object:
    """Return the value of a cookie, or None if there is none, or it is none of ours."""
    try:
        return json.loads(base64.urlsafe_b64decode(request.cookies.get(name, "")))
    except ValueError:
        return None


def _keep(
    answer: Response, name: str, value: object, *, seconds: int, path: str
) -> None:
    text = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
    if len(text) <= _LONGEST:
        answer.set_cookie(
            name, text, max_age=seconds, path=path, httponly=True, samesite="lax"
        )
