"""What a server is told before it starts: the registry, the address, who may sign in from elsewhere, where files go."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from memalign.errors import ConfigurationError

__all__ = ["OpenIdProvider", "Settings", "is_loopback"]


@dataclass(frozen=True, kw_only=True)
class OpenIdProvider:
    """An OpenID Connect provider: its issuer's URL, and what it knows this server by.

    People whom it vouches for sign in without a password. Nobody gets an account by it alone: somebody invites them.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    name: str = "single sign-on"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One server's settings.

    `registry` is the URL of the database of judges, people and jobs. `public_url` is how browsers reach the server,
    where that is not `host` and `port`: behind a proxy, for example. `mlflow` is the tracking URI that cases are pulled
    from.
    """

    registry: str = "sqlite:///memalign.db"
    host: str = "127.0.0.1"
    port: int = 8321
    title: str = "memalign"
    public_url: str | None = None
    openid: OpenIdProvider | None = None
    mlflow: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port {self.port} is none: give a number from 0 to 65535")
        if self.public_url is not None and not self.public_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"the public URL {self.public_url!r} must start with https:// or http://, such as https://judges.example.org"
            )

    @property
    def local(self) -> bool:
        """Whether only programs of this machine can reach the server."""
        return is_loopback(self.host) and self.public_url is None


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's own and nobody else's."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
