"""Headers of every answer: what a browser may do with it, and what it may not."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "SafeHeaders"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""No script or style but files of ours, nothing from another host: judged text that gets into a page stays text."""

_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
_STATIC = "/static/"


class SafeHeaders:
    """Middleware: sets the headers, and refuses hosts that are not this server's and bodies that are too large.

    A page elsewhere can point a name of its own at 127.0.0.1 and then talk to a local server as if it were its own
    (DNS rebinding). So `hosts` are the names that a request may use; None for any.
    """

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str] | None, secure: bool, largest_body: int) -> None:
        self.app = app
        self.hosts = hosts
        self.largest_body = largest_body
        self.fixed = dict(_HEADERS)
        if secure:
            self.fixed["strict-transport-security"] = "max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope)
        # Whatever watches the server asks by any name; the answer holds nothing.
        refused = None if scope["path"] == "/health" else self._refused(given)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._set(message, static=scope["path"].startswith(_STATIC))
            await send(message)

        if refused is not None:
            await refused(scope, receive, send_with_headers)
            return
        await self.app(scope, self._limited(receive), send_with_headers)

    def _set(self, message: MutableMapping[str, Any], *, static: bool) -> None:
        headers = MutableHeaders(scope=message)
        for name, value in self.fixed.items():
            headers[name] = value
        headers.setdefault("cache-control", "public, max-age=3600" if static else "no-store")

    def _refused(self, headers: Headers) -> PlainTextResponse | None:
        host = headers.get("host", "")
        if self.hosts is not None and _name(host) not in self.hosts:
            return PlainTextResponse(f"this server is not {_name(host)[:200]}", 421)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.largest_body:
            return PlainTextResponse(f"a request may hold {self.largest_body} bytes at most", 413)
        return None

    def _limited(self, receive: Receive) -> Receive:
        taken = 0

        async def limited() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.largest_body:  # sent without a length
                return {"type": "http.disconnect"}
            return message

        return limited


def _name(host: str) -> str:
    """The host's name without its port."""
    return (host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]).lower()
