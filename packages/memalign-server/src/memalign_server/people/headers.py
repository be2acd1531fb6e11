"""Headers of every answer, which say what a browser may do with it; and requests that are refused by their headers."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY: Final = (  # no script or style but files of ours, nothing from another host: judged text stays text
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LARGEST_BODY: Final = 64 << 20  # bytes: a sheet of some ten thousand cases
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
    """Middleware that sets the headers, and refuses hosts that are not this server's and bodies that are too large.

    `hosts` are the names that a request may use, None for any: a page elsewhere can point a name of its own at
    127.0.0.1, and then use a local server as if it were its own (DNS rebinding). `secure` says that browsers reach the
    server over TLS.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str] | None, secure: bool) -> None:
        self.app, self.hosts = app, hosts
        self.headers = _HEADERS | ({"strict-transport-security": "max-age=31536000"} if secure else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self.headers)
                static = scope["path"].startswith("/static/")
                headers.setdefault("cache-control", "public, max-age=3600" if static else "no-store")
            await send(message)

        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope["path"] != "/health" and (refusal := self._refusal(scope)):
            await refusal(scope, receive, send_safely)
        else:
            await self.app(scope, _limited(receive), send_safely)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "").lower()
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if self.hosts is not None and name not in self.hosts:
            return PlainTextResponse(f"this server is not {name[:200]}", 421)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > _LARGEST_BODY:
            return PlainTextResponse(f"a request may hold {_LARGEST_BODY} bytes at most", 413)
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return PlainTextResponse("an address holds no null character", 400)
        return None


def _limited(receive: Receive) -> Receive:
    """What is received, up to the largest body, where the request did not say how long it is."""
    size = 0

    async def receive_some() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        return message if size <= _LARGEST_BODY else {"type": "http.disconnect"}

    return receive_some
