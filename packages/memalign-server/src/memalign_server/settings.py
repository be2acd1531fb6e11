"""The settings of a server: the registry, the address, who may sign in from elsewhere."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Literal

from memalign.errors import ConfigurationError

__all__ = ["OpenIdProvider", "Settings", "is_loopback"]

_SHORTEST_TOKEN = 32


@dataclass(frozen=True, kw_only=True)
class OpenIdProvider:
    """An OpenID Connect provider, and which of its people this server lets in.

    Attributes:
        issuer: Its URL.
        client_id: What it knows this server by.
        client_secret: The secret between the two.
        owners: Who signs in as an owner: verified e-mail addresses, all of a domain as `@example.org`, or subjects.
        reviewers: Who signs in as a reviewer.
        name: What the button calls it.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    owners: frozenset[str] = frozenset()
    reviewers: frozenset[str] = frozenset()
    name: str = "single sign-on"

    def __post_init__(self) -> None:
        if not (self.owners or self.reviewers):
            raise ConfigurationError(
                "OpenID Connect needs a list of whom to let in: --openid-owners and --openid-reviewers take addresses "
                "such as ana@example.org, and @example.org for all of a domain"
            )

    def role_of(self, subject: str, email: str | None) -> Literal["owner", "reviewer"] | None:
        """Look up the role of somebody by their subject or verified e-mail address; None if they are not on the list."""
        address = (email or "").casefold()
        entries = {subject, address, f"@{address.rpartition('@')[2]}"} - {"", "@"}
        if entries & self.owners:
            return "owner"
        return "reviewer" if entries & self.reviewers else None


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One server's settings.

    Attributes:
        registry: The URL of the database of judges, people and jobs.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        title: What the pages are called.
        public_url: How browsers reach the server, where that is not `host` and `port`: behind a proxy, for example.
        openid: Who vouches for people, beside personal links.
        api_token: The token of programs, beside the one that an owner may make.
        mlflow: The tracking URI that cases are pulled from.
    """

    registry: str = "sqlite:///memalign.db"
    host: str = "127.0.0.1"
    port: int = 8321
    title: str = "memalign"
    public_url: str | None = None
    openid: OpenIdProvider | None = None
    api_token: str | None = field(default=None, repr=False)
    mlflow: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"there is no port {self.port}: give a number from 0 to 65535")
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"the public URL {self.public_url!r} must start with https:// or http://, such as https://judges.example.org"
            )
        if self.api_token is not None and len(self.api_token) < _SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the API token has fewer than {_SHORTEST_TOKEN} characters: take a random one, as of `openssl rand -hex 32`"
            )

    @property
    def local(self) -> bool:
        """Whether only programs of this machine can reach the server."""
        return is_loopback(self.host) and self.public_url is None

    @property
    def secure(self) -> bool:
        """Whether browsers reach the server over TLS."""
        return (self.public_url or "").startswith("https://")


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own and nobody else's."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
