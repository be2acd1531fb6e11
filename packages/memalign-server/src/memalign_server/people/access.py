"""Decide who asks and what they may do, before a body is read; say what browsers may do.

A route is for everybody in the team, unless its router says `ANYBODY` or the route says `OWNER`:

    @router.post("/erase", dependencies=[OWNER])
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Annotated, Final, cast
from urllib.parse import quote, unquote, urlsplit

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memalign.errors import RegistryError
from memalign_server.people.service import (
    LOCAL,
    PROGRAM,
    Person,
    digest,
    list_people,
    person_of_session,
)
from memalign_server.problems import Problem, unreachable
from memalign_server.store.tables import whole

if TYPE_CHECKING:
    from memalign_server.server import Server

COOKIE = "memalign_session"
_UNASKED = ("/static/", "/health")
"""How the paths begin for which nobody is asked who they are."""
PART: Final = "x-part"
"""The header with which the page's script asks for a part of a page.

A redirect then comes as `X-Go-To`.
"""
BY_HAND: Final = "x-by-hand"
"""The header that only the page's script can send.

Its value is what the server has signed for one person's form.
"""
_OF_PROXIES = ("forwarded", "via", "x-real-ip")


class Identity:
    """Middleware that says in `request.state` who asks.

    `person` is None for nobody, and no byte of their request's body is read. `refusal` is the
    reason why the request is refused, or None.
    """

    def __init__(self, app: ASGIApp, *, server: Server) -> None:
        self.app = app
        self.server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and not scope["path"].startswith(_UNASKED):
            person = None
            refusal = None
            try:
                person = await run_in_threadpool(_identify, self.server, Request(scope))
            except Problem as problem:
                refusal = problem
            except RegistryError:
                refusal = unreachable()
            scope.setdefault("state", {}).update(person=person, refusal=refusal)
            receive = receive if person is not None else _no_body()
        await self.app(scope, receive, send)


def _no_body() -> Receive:
    messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    return receive


def _identify(server: Server, request: Request) -> Person | None:
    person = _person(server, request)
    changes = request.method not in ("GET", "HEAD", "OPTIONS")
    if changes and person is not PROGRAM:
        _check_origin(request, server.settings.public_url)
    return person


def _person(server: Server, request: Request) -> Person | None:
    settings = server.settings
    if "authorization" in request.headers:
        _check_token(request, settings.api_token)
        return PROGRAM
    session = request.cookies.get(COOKIE)
    with server.store.read() as connection:
        member = person_of_session(connection, session) if session else None
        if member is not None or not settings.local or settings.openid is not None:
            return member
        if list_people(connection):
            return None
    _check_direct(request)
    return LOCAL


def _check_token(request: Request, own: str | None) -> None:
    """Check that a program sends the server's token to the API. Raises Problem 401."""
    scheme, _, token = request.headers["authorization"].partition(" ")
    is_known = own is not None and hmac.compare_digest(digest(own), digest(token))
    in_place = request.url.path.startswith("/api/")
    if scheme.lower() != "bearer" or not is_known or not in_place:
        raise Problem(
            401, "this is not the server's API token; it is for addresses under /api"
        )


def _check_origin(request: Request, public_url: str | None) -> None:
    """Refuse a request that another site makes, as the browser says.

    Raises:
        Problem: 403 for such a request.
    """
    headers = request.headers
    own = {headers.get("host", ""), urlsplit(public_url or "").netloc} - {""}
    is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
    if "origin" in headers and urlsplit(headers["origin"]).netloc not in own:
        is_foreign = True
    if is_foreign:
        raise Problem(403, "this request comes from a page of another site")


def _check_direct(request: Request) -> None:
    """Refuse a request that a proxy passed on to a server for its own machine alone.

    A proxy says so in its headers, or uses HTTP/1.0: nginx does so by default, and no browser does.

    Raises:
        Problem: 403 for such a request.
    """
    of_proxy = any(
        name in _OF_PROXIES or name.startswith("x-forwarded-")
        for name in request.headers
    )
    if of_proxy or request.scope.get("http_version") == "1.0":
        raise Problem(
            403,
            "a proxy passes requests on to this server, which has no people and is for this "
            "machine alone. Add an owner with `memalign serve --add-owner NAME`, and start it with "
            "`--public-url URL`",
        )


def _anybody(request: Request) -> None:
    if request.state.refusal is not None:
        raise request.state.refusal


def _member(request: Request) -> Person:
    _anybody(request)
    if request.state.person is None:
        raise Problem(
            401, "sign in, or send the API token as `Authorization: Bearer …`"
        )
    return cast("Person", request.state.person)


Asking = Annotated[Person, Depends(_member)]
"""A parameter of a route: who asks."""


def _owner(person: Asking) -> None:
    if not person.owner:
        raise Problem(403, "this is for owners: ask one")


def hand_of(secret: bytes, session: str, path: str) -> str:
    """Return the value that a form of this session must send with what it posts to a path.

    No markup can know it, and no form can send a header. So text that is pasted, imported or
    answered by a model cannot do what needs this value.
    """
    return hmac.new(secret, f"{session}\0{path}".encode(), hashlib.sha256).hexdigest()


def hand(request: Request, path: str) -> str:
    """Return the value that the asking person's form must send to a path."""
    server: Server = request.app.state.server
    return hand_of(server.store.secret, request.cookies.get(COOKIE, ""), unquote(path))


def _by_hand(request: Request, person: Asking) -> None:
    given = request.headers.get(BY_HAND, "")
    wanted = hand(request, quote(request.scope["path"]))
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Problem(
            403,
            "this is done by the button on its page alone: "
            "load that page again, and press it there",
        )


def is_part(request: Request) -> bool:
    """Return whether the page's script asks, for a part of a page."""
    return PART in request.headers


ANYBODY: Final = Depends(_anybody)
TEAM: Final = Depends(_member)
OWNER: Final = Depends(_owner)
HAND: Final = Depends(_by_hand)
"""A dependency of routes that cannot be undone, or that let people in.

It holds if a person has pressed the button on their own page.
"""


class Json(JSONResponse):
    """JSON in which no text begins a tag, wherever a program or a page may put it."""

    def render(self, content: object) -> bytes:
        """Return the bytes of a value."""
        text = json.dumps(
            content, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        )
        text = whole(text)  # a model may end its words in half a character
        return inert(text).encode()


def download(name: str, value: object) -> Response:
    """Return a value as a file of JSON that a browser keeps."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(inert(text), media_type="application/json", headers=headers)


def inert(text: str) -> str:
    """Return JSON text with each `<`, which only its strings can hold, as an escape."""
    return text.replace("<", "\\u003c")


# No script or style but our own files, and nothing from another host: judged text stays text.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
LARGEST_BODY: Final = 64 << 20  # bytes: a sheet of some ten thousand cases
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
}


class SafeHeaders:
    """Middleware that sets the headers, and refuses foreign hosts and bodies that are too large.

    A page elsewhere can point a name of its own at 127.0.0.1, and then use a local server as if it
    were its own (DNS rebinding). So the names that a request may use are given.

    Args:
        app: The application behind it.
        hosts: The names that a request may use; None for any.
        secure: Whether browsers reach the server over TLS.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: frozenset[str] | None, secure: bool
    ) -> None:
        self.app = app
        self.hosts = hosts
        self.headers = dict(_HEADERS)
        if secure:
            self.headers["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                if message["status"] == 303 and PART in Headers(scope=scope):
                    # A script cannot read where a redirect leads.
                    message["status"] = 200
                    headers["x-go-to"] = headers["location"]
                    del headers["location"]
                is_static = scope["path"].startswith("/static/")
                kept = "public, max-age=3600" if is_static else "no-store"
                headers.setdefault("cache-control", kept)
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"] != "/health" and (refusal := self._refusal(scope)):
            await refusal(scope, receive, send_safely)
        else:
            await self.app(scope, _limited(receive), send_safely)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        name = re.sub(r":\d*$", "", headers.get("host", "").lower())
        if self.hosts is not None and name not in self.hosts:
            return PlainTextResponse(f"this server is not {name[:200]}", 421)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY:
            return PlainTextResponse(
                f"a request may hold {LARGEST_BODY} bytes at most", 413
            )
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return PlainTextResponse("an address holds no null character", 400)
        return None


def _limited(receive: Receive) -> Receive:
    """Receive up to the largest body, because a request need not say how long it is."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return message if size <= LARGEST_BODY else {"type": "http.disconnect"}

    return receive_some
