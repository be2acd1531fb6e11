"""The settings of a server: the registry, the address, who may sign in from elsewhere."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from memalign.errors import ConfigurationError

SECRETS: Final = (
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MEMALIGN_API_TOKEN",
    "MEMALIGN_OPENID_CLIENT_SECRET",
    "MEMALIGN_SERVER_KEYS",
    "MLFLOW_TRACKING_PASSWORD",
    "MLFLOW_TRACKING_TOKEN",
    "OPENAI_API_KEY",
    "PGPASSWORD",
)
"""The variables that may be in files, as containers get them.

`PGPASSWORD_FILE=/run/secrets/…` names the file that holds `PGPASSWORD`.
"""
_SHORTEST_TOKEN = 32
_OPENID = ("ISSUER", "CLIENT", "CLIENT_SECRET", "OWNERS", "REVIEWERS")


@dataclass(frozen=True, kw_only=True)
class OpenIdProvider:
    """An OpenID Connect provider, and which of its people this server lets in.

    Attributes:
        issuer: The provider's URL.
        client_id: The server's name with the provider.
        client_secret: The server's password with the provider.
        owners: Who is an owner: verified e-mail addresses, a whole domain as `@example.org`, or
            subjects.
        reviewers: Who is a reviewer, in the same way.
    """

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    owners: frozenset[str] = frozenset()
    reviewers: frozenset[str] = frozenset()

    @classmethod
    def of_environment(cls) -> OpenIdProvider | None:
        """Read the variables MEMALIGN_OPENID_…; return None if none is set.

        Raises:
            ConfigurationError: Some are set, and one that is needed is missing.
        """
        issuer, client, secret, owners, reviewers = (
            os.environ.get(f"MEMALIGN_OPENID_{name}", "") for name in _OPENID
        )
        if not (issuer or client or secret or owners or reviewers):
            return None
        if not (issuer and client and secret and (owners or reviewers)):
            raise ConfigurationError(
                "OpenID Connect needs MEMALIGN_OPENID_ISSUER, MEMALIGN_OPENID_CLIENT, "
                "MEMALIGN_OPENID_CLIENT_SECRET, and whom to let in: MEMALIGN_OPENID_OWNERS or "
                "MEMALIGN_OPENID_REVIEWERS, such as ana@example.org"
            )
        return cls(
            issuer=issuer,
            client_id=client,
            client_secret=secret,
            owners=_entries(owners),
            reviewers=_entries(reviewers),
        )


def _entries(text: str) -> frozenset[str]:
    """Return the entries of a list: addresses in small letters, subjects as they are."""
    entries = (entry.strip() for entry in text.split(","))
    return frozenset(
        entry.casefold() if "@" in entry else entry for entry in entries if entry
    )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One server's settings.

    Attributes:
        registry: The URL of the database of judges, people and jobs.
        host: The address to listen on.
        public_url: How browsers reach the server if not by its own address, for example through a
            proxy.
        openid: Who vouches for people, beside personal links.
        api_token: The token of programs; without one, programs cannot get in.
        mlflow: The tracking URI that cases are pulled from.
    """

    registry: str = "sqlite:///memalign.db"
    host: str = "127.0.0.1"
    public_url: str | None = None
    openid: OpenIdProvider | None = None
    api_token: str | None = field(default=None, repr=False)
    mlflow: str | None = None

    def __post_init__(self) -> None:
        if self.public_url is not None and not self.public_url.startswith(
            ("http://", "https://")
        ):
            raise ConfigurationError(
                f"the public URL {self.public_url!r} must start with https:// or http://"
            )
        if self.api_token is not None and len(self.api_token) < _SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the API token has fewer than {_SHORTEST_TOKEN} characters: "
                "take a random one, as of `openssl rand -hex 32`"
            )

    @property
    def local(self) -> bool:
        """Return whether only programs of this machine can reach the server."""
        if self.public_url is not None:
            return False
        try:
            return (
                self.host.lower() == "localhost"
                or ipaddress.ip_address(self.host.strip("[]")).is_loopback
            )
        except ValueError:
            return False

    @property
    def secure(self) -> bool:
        """Return whether browsers reach the server over TLS."""
        return (self.public_url or "").startswith("https://")


def read_secret_files() -> None:
    """Set each of the SECRETS whose file is named to what the file holds.

    Raises:
        ConfigurationError: A file cannot be read or is empty, or its variable is set too.
    """
    for name in SECRETS:
        if path := os.environ.get(f"{name}_FILE"):
            try:
                secret = Path(path).read_text("utf-8").strip()
            except (OSError, UnicodeError) as error:
                raise ConfigurationError(
                    f"{name}_FILE names {path}, which cannot be read: {error}"
                ) from None
            if not secret or os.environ.get(name):
                raise ConfigurationError(
                    f"{name}_FILE names {path}, which is empty, or {name} is set too"
                )
            os.environ[name] = secret
