"""Signing in by an OpenID Connect provider.

Authlib does the protocol: state, nonce, PKCE, keys and signatures.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth
from joserfc.errors import JoseError
from starlette.requests import Request
from starlette.responses import Response

from memalign_server.people.service import Role, add_person, name_taken
from memalign_server.problems import Problem
from memalign_server.settings import OpenIdProvider
from memalign_server.store import Transaction, team

_FAULTS = (httpx2.HTTPError, AuthlibBaseError, JoseError, ValueError, KeyError)


def _client(provider: OpenIdProvider) -> Any:
    return OAuth().register(
        "provider",
        client_id=provider.client_id,
        client_secret=provider.client_secret,
        server_metadata_url=f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid profile email",
            "code_challenge_method": "S256",
            "timeout": 10.0,
        },
    )


async def send_away(
    provider: OpenIdProvider, request: Request, callback: str
) -> Response:
    """Send a browser to the provider; what must come back lies in the signed session.

    Raises:
        Problem: 502 if the provider cannot be asked.
    """
    try:
        answer: Response = await _client(provider).authorize_redirect(request, callback)
    except _FAULTS as error:
        raise _fault(error) from error
    return answer


async def take_back(provider: OpenIdProvider, request: Request) -> dict[str, Any]:
    """Return what the provider says of the person whom it sent back.

    Raises:
        Problem: 502 for an answer that is not to our question.
    """
    try:
        return dict(
            (await _client(provider).authorize_access_token(request))["userinfo"]
        )
    except _FAULTS as error:
        raise _fault(error) from error


def person_of(
    provider: OpenIdProvider, connection: Transaction, claims: dict[str, Any]
) -> str:
    """Return the id of a provider's person, with the role that the list gives them today.

    They are added at their first sign-in.

    Raises:
        Problem: 403 for somebody who is not on the list: the provider may know more people than
            should be here.
    """
    name = _name_of(claims)
    entries = _entries_of(claims)
    if not provider.owners.isdisjoint(entries):
        role = Role.OWNER
    elif not provider.reviewers.isdisjoint(entries):
        role = Role.REVIEWER
    else:
        raise Problem(
            403,
            "{name} is not on this server's list; "
            "whoever runs it can add the address or the subject {subject}",
            parts={"name": name, "subject": claims["sub"]},
        )
    subject = f"{claims['iss']} {claims['sub']}"
    member = team.member_of_subject(connection, subject)
    if member is None:
        person = add_person(connection, _free_name(connection, name), role)
    else:
        person = member.id
    team.change_member(connection, person, role=role.value, subject=subject)
    return person


def _name_of(claims: dict[str, Any]) -> str:
    for field in ("name", "preferred_username", "email"):
        if claims.get(field):
            return str(claims[field]).strip()[:190] or "somebody"
    return "somebody"


def _entries_of(claims: dict[str, Any]) -> set[str]:
    """Return the entries of the list that let a person in: subject, address and its domain."""
    entries = {str(claims["sub"])}
    # An address that the provider has not verified may be anybody's.
    if claims.get("email") and claims.get("email_verified") is True:
        email = str(claims["email"]).casefold()
        _, _, domain = email.rpartition("@")
        entries |= {email, f"@{domain}"}
    return entries - {"", "@"}


def _free_name(connection: Transaction, name: str) -> str:
    """Return the name, with a number behind it if somebody else has it."""
    free = name
    for number in count(2):
        if not name_taken(connection, free):
            break
        free = f"{name} {number}"
    return free


def _fault(error: Exception) -> Problem:
    return Problem(
        502,
        "signing in by the OpenID provider failed: {error}; try again",
        parts={"error": error},
    )
