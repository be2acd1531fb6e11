"""Who makes a request: an API token's person, a session's, or the one local person of a server without accounts."""

from __future__ import annotations

from collections.abc import Mapping

from memalign_server.people.identity import LOCAL, has_accounts
from memalign_server.people.roles import Person
from memalign_server.people.sessions import COOKIE, note_use, person_of_session
from memalign_server.people.tokens import note_token_use, person_of_token
from memalign_server.problems import Problem
from memalign_server.settings import Settings
from memalign_server.store import Store

__all__ = ["who_asks"]


def who_asks(store: Store, settings: Settings, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Person | None:
    """The person; None for nobody known. Raises Problem 401 for a token that is none, whatever else comes with it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme:
        with store.read() as connection:
            person, worth_noting = person_of_token(connection, token.strip())
        if person is None or scheme.lower() != "bearer":
            raise Problem(401, "this API token is unknown, revoked or too old", headers={"www-authenticate": "Bearer"})
        if worth_noting:
            with store.write() as connection:
                note_token_use(connection, token.strip())
        return person
    session = cookies.get(COOKIE)
    with store.read() as connection:
        person, worth_noting = person_of_session(connection, session) if session else (None, False)
        if person is None and settings.local and not has_accounts(connection):
            return LOCAL
    if person is not None and session and worth_noting:
        with store.write() as connection:
            note_use(connection, session)
    return person
