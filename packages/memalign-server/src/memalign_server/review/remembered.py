"""What a browser remembers of differences for a while: the last choice, and what is put off."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response

from memalign_server.pages.rendering import link

__all__ = ["DONE", "PUT_OFF", "Cookie", "done_last", "put_off"]

_MINUTE: Final = 60
_MOST: Final = 20
"""Cases that may be put off at once."""
_LONGEST: Final = 3500
"""Characters of a cookie: a browser drops a longer one."""


@dataclass(frozen=True)
class Cookie:
    """JSON that a browser keeps for the review of one judge.

    Attributes:
        name: The cookie's name.
        seconds: How long it is kept.
    """

    name: str
    seconds: int

    def read(self, request: Request) -> object:
        """Return what is kept, or None if there is nothing, or it is none of ours."""
        try:
            return json.loads(
                base64.urlsafe_b64decode(request.cookies.get(self.name, ""))
            )
        except ValueError:
            return None

    def keep(self, answer: Response, judge: str, value: object) -> None:
        """Keep a value in the place of the one before."""
        text = base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
        if len(text) <= _LONGEST:
            answer.set_cookie(
                self.name,
                text,
                max_age=self.seconds,
                path=link(judge, "review"),
                httponly=True,
                samesite="lax",
            )

    def forget(self, answer: Response, judge: str) -> None:
        """Forget what is kept."""
        answer.delete_cookie(self.name, path=link(judge, "review"))


DONE: Final = Cookie("memalign_undo", 2 * _MINUTE)
"""What the person has just chosen on a difference, as `disputes.undo` takes it."""
PUT_OFF: Final = Cookie("memalign_put_off", 60 * _MINUTE)
"""The cases whose differences the person put off; of too many the latest."""


def done_last(request: Request) -> dict[str, Any]:
    """Return what the person has just chosen on a difference."""
    done = DONE.read(request)
    return done if isinstance(done, dict) else {}


def put_off(request: Request) -> list[str]:
    """Return the latest cases whose differences the person put off."""
    cases = PUT_OFF.read(request)
    if not isinstance(cases, list):
        return []
    return [case for case in cases if isinstance(case, str)][-_MOST:]
