"""Signing in by an OpenID Connect provider. Authlib does the protocol: state, nonce, PKCE, keys and signatures."""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from sqlalchemy import Connection, select, update
from starlette.requests import Request
from starlette.responses import Response

from memalign_server.people.people import Role, add_person, name_taken
from memalign_server.problems import Problem
from memalign_server.settings import OpenIdProvider
from memalign_server.store.tables import people

_TIMEOUT = 10.0  # seconds


class OpenId:
    """One provider, as this server is known to it. Its metadata and keys are read when somebody signs in."""

    def __init__(self, provider: OpenIdProvider) -> None:
        self._provider = provider
        self._client = OAuth().register(
            "provider",
            client_id=provider.client_id,
            client_secret=provider.client_secret,
            server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256", "timeout": _TIMEOUT},
        )

    async def send_away(self, request: Request, callback: str) -> Response:
        """Send a browser to the provider; what must come back lies in the signed `request.session`.

        Raises Problem, 502, for a fault of the provider's.
        """
        try:
            answer: Response = await self._client.authorize_redirect(request, callback)
        except (httpx2.HTTPError, AuthlibBaseError, ValueError, KeyError) as error:
            raise _fault(error) from error
        return answer

    async def take_back(self, request: Request) -> dict[str, Any]:
        """Read what the provider says of whom it sent back.

        Raises Problem: 400 for an answer that is not to our question, 502 for a fault of the provider's.
        """
        try:
            token = await self._client.authorize_access_token(request)
            claims = dict(token["userinfo"])
            claims["iss"], claims["sub"] = str(claims["iss"]), str(claims["sub"])
        except (AuthlibBaseError, JoseError) as error:
            raise Problem(
                400, "the sign-in did not come back as it was sent ({error}); try again", parts={"error": error}
            ) from error
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            raise _fault(error) from error
        return claims

    def person(self, connection: Connection, claims: dict[str, Any]) -> str:
        """Look a provider's person up, who is added at the first sign-in; returns the id of their row.

        Raises Problem, 403, for somebody who is not on the list: the provider may know more people than should be here.
        """
        names = (claims.get(field) for field in ("name", "preferred_username", "email"))
        name = next((str(name).strip()[:190] for name in names if name), "") or "somebody"
        # An address that the provider has not verified may be anybody's.
        email = str(claims["email"]) if claims.get("email") and claims.get("email_verified") is True else None
        role = self._provider.role_of(claims["sub"], email)
        if role is None:
            raise Problem(
                403,
                "{name} is not on this server's list; whoever runs it can add the address or the subject {subject}",
                parts={"name": name, "subject": claims["sub"]},
            )
        identity = {"issuer": claims["iss"], "subject": claims["sub"]}
        person = connection.execute(select(people.c.id).filter_by(**identity)).scalar()
        if person is None:
            numbered = (name if number == 1 else f"{name} {number}" for number in count(1))
            free = next(spelling for spelling in numbered if not name_taken(connection, spelling))
            return add_person(connection, free, Role(role), **identity, email=email)
        connection.execute(update(people).where(people.c.id == person).values(role=role, email=email))
        return str(person)


def _fault(error: Exception) -> Problem:
    return Problem(502, "the OpenID provider does not answer as it should: {error}", parts={"error": error})
