"""Requests that another page makes in somebody's name: refused by where they come from, and by a token it cannot know."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from urllib.parse import urlsplit

from memalign_server.people.sessions import COOKIE
from memalign_server.problems import Problem

__all__ = [
    "FIELD",
    "HEADER",
    "SAFE",
    "VISITOR",
    "check_direct",
    "check_origin",
    "check_token",
    "new_visitor",
    "token_of",
]

FIELD = "csrf"
"""The field of a form that holds the token."""
HEADER = "x-csrf-token"
VISITOR = "memalign_visitor"
"""The cookie of a browser that has not signed in: a sign-in can be forged too."""
SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_OF_PROXIES = ("forwarded", "via", "x-real-ip")


def new_visitor() -> str:
    """What a browser's cookie holds before it has a session."""
    return secrets.token_urlsafe(24)


def token_of(secret: bytes, cookies: Mapping[str, str]) -> str:
    """The token that belongs to a browser's session, or to its visitor's cookie; empty where it has neither."""
    whose = cookies.get(COOKIE) or cookies.get(VISITOR)
    return "" if not whose else hmac.new(secret, f"csrf {whose}".encode(), hashlib.sha256).hexdigest()


def check_origin(headers: Mapping[str, str], public_url: str | None) -> None:
    """Raise Problem 403 where the browser says that another site makes the request."""
    origin = headers.get("origin")
    own = {headers.get("host", "")} | ({urlsplit(public_url).netloc} if public_url else set())
    if (origin is not None and urlsplit(origin).netloc not in own) or headers.get("sec-fetch-site") in (
        "cross-site",
        "same-site",
    ):
        raise Problem(403, "this request comes from a page of another site")


def check_direct(headers: Mapping[str, str], http_version: str) -> None:
    """Raise Problem 403 for a request that a proxy passed on, to a server that is open to its own machine alone.

    A proxy says so in its headers, or speaks HTTP/1.0, as nginx does unless it is told otherwise and no browser does.
    """
    if http_version == "1.0" or any(name in _OF_PROXIES or name.startswith("x-forwarded-") for name in headers):
        raise Problem(
            403,
            "a proxy passes requests on to this server, which has no accounts and is for this machine alone. Make an "
            "owner with `memalign serve --add-owner NAME`, and start it with `--public-url URL`",
        )


def check_token(secret: bytes, cookies: Mapping[str, str], given: str | None) -> None:
    """Raise Problem 403 where a browser that has a cookie of ours does not send its token."""
    wanted = token_of(secret, cookies)
    if wanted and not hmac.compare_digest(wanted.encode(), (given or "").encode()):
        raise Problem(
            403,
            "the form is too old, or not from here: load the page again (no valid {field} token)",
            parts={"field": FIELD},
        )
