"""Sending webhooks: signed as Standard Webhooks says, to public addresses alone unless others are allowed.

A proxy is asked for the address that was checked here, not for a name: by a name it could be led into a private network.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

import httpx2

from memalign.errors import InputError
from memalign_server.store import Store
from memalign_server.work.webhooks import Due, claim_due, settle

__all__ = ["Post", "UnknownHost", "check_url", "deliver_due", "signature"]

_PATIENCE = 10.0  # seconds


class UnknownHost(InputError):
    """Nobody here knows an address of a name."""


def check_url(url: str, *, private: bool, proxied: bool = False) -> None:
    """Raise InputError for a URL that no webhook may have. Its name is looked up again at every delivery."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InputError(f"{url[:200]!r} is no URL: {error}") from None
    if not url.isascii() or not url.isprintable():
        raise InputError(f"a webhook's URL is in plain ASCII, a name as xn--…, a path with %…; not {url[:200]!r}")
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.username or parts.password:
        raise InputError(f"a webhook's URL looks like https://example.org/hook, without a password; not {url[:200]!r}")
    if parts.scheme == "http" and not private:
        raise InputError("a webhook's URL starts with https://; http:// is for private networks (--private-webhooks)")
    _address(parts.hostname, _port(url), private=private, proxied=proxied)


def signature(secret: str, delivery: str, timestamp: str, body: str) -> str:
    """The value of the header `webhook-signature` (standardwebhooks.com, version 1)."""
    key = secret.removeprefix("whsec_").encode()
    mac = hmac.new(key, f"{delivery}.{timestamp}.{body}".encode(), hashlib.sha256)
    return f"v1,{base64.b64encode(mac.digest()).decode()}"


@dataclass(frozen=True, kw_only=True)
class Post:
    """How webhooks go out: whether `private` networks are allowed, and by which `proxy`, unless NO_PROXY names the host."""

    private: bool = False
    proxy: str | None = field(default=None, repr=False)

    def proxy_to(self, name: str) -> str | None:
        """The proxy on the way to a host."""
        return None if self.proxy is None or proxy_bypass(name) else self.proxy


async def deliver_due(store: Store, post: Post) -> int:
    """Make the deliveries whose time has come; how many."""
    due = await asyncio.to_thread(claim_due, store)
    if due:
        await asyncio.gather(*(_deliver(store, each, post) for each in due))
    return len(due)


async def _deliver(store: Store, due: Due, post: Post) -> None:
    try:
        answer = await _sent(due, post)
        said, delivered = f"{answer.status_code} {answer.reason_phrase}", answer.is_success
    except (httpx2.HTTPError, httpx2.InvalidURL, InputError, OSError, ValueError) as error:
        said, delivered = f"{type(error).__name__}: {error}", False
    await asyncio.to_thread(settle, store, due, said, delivered=delivered)


async def _sent(due: Due, post: Post) -> httpx2.Response:
    """Sent to the very address that was checked: a name may mean another one a moment later."""
    parts = urlsplit(due.url)
    name = parts.hostname or ""
    proxy = post.proxy_to(name)
    address = await asyncio.to_thread(_address, name, _port(due.url), private=post.private, proxied=proxy is not None)
    shown = f"[{address}]" if ":" in address else address
    timestamp = str(int(time.time()))
    headers = {
        "host": parts.netloc,
        "content-type": "application/json",
        "user-agent": "memalign",
        "webhook-id": due.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signature(due.secret, due.id, timestamp, due.body),
    }
    url = parts._replace(netloc=f"{shown}:{_port(due.url)}").geturl()
    # trust_env: nothing but the settings decides where this goes.
    async with httpx2.AsyncClient(timeout=_PATIENCE, follow_redirects=False, trust_env=False, proxy=proxy) as client:
        request = client.build_request(
            "POST", url, content=due.body, headers=headers, extensions={"sni_hostname": name}
        )
        answer = await client.send(request, stream=True)  # of the answer the status is all that counts
        await answer.aclose()
    return answer


def _port(url: str) -> int:
    parts = urlsplit(url)
    try:
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InputError(f"{url[:200]!r} has no port that there is") from None


def _address(name: str, port: int, *, private: bool, proxied: bool) -> str:
    """Where to send it. A name that only the proxy knows is left to the proxy where private networks are allowed."""
    try:
        return _addresses(name, port, private=private)[0]
    except UnknownHost:
        if private and proxied:
            return name
        raise


def _addresses(name: str, port: int, *, private: bool) -> list[str]:
    """The addresses of a name. Raises InputError where one of them is not public, or there is none."""
    try:
        found = [str(place[0]) for *_, place in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise UnknownHost(f"no address is known of {name!r}") from None
    for each in found:
        address = ipaddress.ip_address(each.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None) or address
        if not private and (not mapped.is_global or mapped.is_multicast):
            raise InputError(
                f"{name} is at {each}, an address of a private network; whoever runs the server can allow those "
                "with --private-webhooks"
            )
    return found
