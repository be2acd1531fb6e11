"""Signing in by an OpenID Connect provider. Authlib does the protocol: state, nonce, PKCE, keys and signatures.

What it must remember between the two requests lies in a signed cookie of the browser, for ten minutes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from sqlalchemy import Connection, select
from starlette.requests import Request
from starlette.responses import Response

from memalign_server.people import accounts
from memalign_server.problems import Problem
from memalign_server.settings import OpenIdProvider
from memalign_server.store.people_tables import users

__all__ = ["COOKIE", "Claims", "OpenId", "opened", "sealed", "user_of"]

COOKIE = "memalign_openid"
_PATIENCE = 600  # seconds between the two requests
_TIMEOUT = 10.0


@dataclass(frozen=True, kw_only=True)
class Claims:
    """Whom a provider vouches for: `issuer` and `subject` are who it is, `name` what they are called there."""

    issuer: str
    subject: str
    name: str


class OpenId:
    """One provider, as this server is known to it. Its metadata and keys are read when somebody signs in."""

    def __init__(self, provider: OpenIdProvider) -> None:
        self._client = OAuth().register(
            "provider",
            client_id=provider.client_id,
            client_secret=provider.client_secret,
            server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256", "timeout": _TIMEOUT},
        )

    async def send_away(self, request: Request, callback: str, kept: dict[str, Any]) -> tuple[Response, dict[str, Any]]:
        """The answer that sends a browser to the provider, and what the browser must bring back beside `kept`."""
        request.scope["session"] = dict(kept)
        try:
            answer: Response = await self._client.authorize_redirect(request, callback)
        except (httpx2.HTTPError, AuthlibBaseError, ValueError, KeyError) as error:
            raise Problem(
                502, "the OpenID provider does not answer as it should: {error}", parts={"error": error}
            ) from error
        return answer, dict(request.scope["session"])

    async def take_back(self, request: Request, brought: dict[str, Any]) -> Claims:
        """Whom the provider sent back. Raises Problem: 400 for an answer that is not to our question, 502 for a fault."""
        request.scope["session"] = brought
        try:
            token = await self._client.authorize_access_token(request)
            claims = token["userinfo"]
            found = {"issuer": str(claims["iss"]), "subject": str(claims["sub"])}
        except (AuthlibBaseError, JoseError) as error:
            raise Problem(
                400, "the sign-in did not come back as it was sent ({error}); try again", parts={"error": error}
            ) from error
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            raise Problem(
                502, "the OpenID provider does not answer as it should: {error}", parts={"error": error}
            ) from error
        names = (claims.get(name) for name in ("name", "preferred_username", "email"))
        return Claims(**found, name=next((str(name) for name in names if name), found["subject"]))


def user_of(connection: Connection, claims: Claims, invitation: str | None) -> str:
    """The id of the account of a provider's person; made, where an invitation was brought.

    Raises Problem 403 for somebody whom nobody invited: the provider may know more people than should be here.
    """
    known = select(users.c.id, users.c.disabled_at)
    mine = known.where(users.c.issuer == claims.issuer, users.c.subject == claims.subject)
    row = connection.execute(mine).first()
    if row is not None and row.disabled_at is not None:
        raise Problem(403, "this account is disabled")
    if row is None and invitation is None:
        raise Problem(
            403, "{name} has no account here; ask an owner of a team for an invitation", parts={"name": claims.name}
        )
    user = row.id if row is not None else _made(connection, claims)
    if invitation is not None:
        accounts.accept(connection, invitation, user)
    return str(user)


def _made(connection: Connection, claims: Claims) -> str:
    name, number = claims.name.strip()[:190] or "somebody", 2
    while accounts.is_name(connection, name):  # of two people of one name the second one is "Ana 2"
        name, number = f"{claims.name.strip()[:190]} {number}", number + 1
    return accounts.add_user(connection, name, issuer=claims.issuer, subject=claims.subject)


def sealed(secret: bytes, kept: dict[str, Any]) -> str:
    """`kept` as a cookie that nobody can change."""
    text = base64.urlsafe_b64encode(json.dumps([int(time.time()), kept]).encode()).decode()
    return f"{text}.{_mac(secret, text)}"


def opened(secret: bytes, cookie: str | None) -> dict[str, Any]:
    """What a cookie holds. Raises Problem 400 for one that is missing, changed or too old."""
    text, _, mac = (cookie or "").partition(".")
    if hmac.compare_digest(_mac(secret, text).encode(), mac.encode()):
        try:
            at, kept = json.loads(base64.urlsafe_b64decode(text))
        except (ValueError, binascii.Error):
            at, kept = 0, {}
        if at > time.time() - _PATIENCE:
            return dict(kept)
    raise Problem(400, "this sign-in was not begun in this browser, or more than ten minutes ago; try again")


def _mac(secret: bytes, text: str) -> str:
    return hmac.new(secret, f"openid {text}".encode(), hashlib.sha256).hexdigest()
