"""Sessions: a random secret in a cookie, its hash in the database, a new one at every sign-in."""

from __future__ import annotations

import secrets

from sqlalchemy import Connection, delete, insert, select, update

from memalign_server.people.identity import digest, person_of
from memalign_server.people.roles import Person
from memalign_server.store.columns import later, now
from memalign_server.store.people_tables import sessions

__all__ = ["COOKIE", "LONGEST", "end_session", "end_sessions_of", "note_use", "person_of_session", "start_session"]

COOKIE = "memalign_session"
LONGEST = 14 * 86400
"""Seconds that a session lasts at most."""
_IDLE = 3 * 86400
_NOTE = 300  # seconds between notes of when a session was last used: not every look at a page is a write


def start_session(connection: Connection, user: str, *, instead_of: str | None = None) -> str:
    """The secret of a new session; the one that the browser had before ends."""
    connection.execute(delete(sessions).where(sessions.c.expires_at < now()))
    if instead_of is not None:
        end_session(connection, instead_of)
    secret = secrets.token_urlsafe(32)
    times = {"created_at": now(), "seen_at": now(), "expires_at": later(LONGEST)}
    connection.execute(insert(sessions).values(digest=digest(secret), user=user, **times))
    return secret


def person_of_session(connection: Connection, secret: str) -> tuple[Person | None, bool]:
    """Who has a session; None when it has ended. And whether its last use should be noted."""
    row = connection.execute(select(sessions).where(sessions.c.digest == digest(secret))).first()
    if row is None or row.expires_at < now() or row.seen_at < later(-_IDLE):
        return None, False
    return person_of(connection, row.user), row.seen_at < later(-_NOTE)


def note_use(connection: Connection, secret: str) -> None:
    """A session was used now."""
    connection.execute(update(sessions).where(sessions.c.digest == digest(secret)).values(seen_at=now()))


def end_session(connection: Connection, secret: str) -> None:
    """Sign out."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest(secret)))


def end_sessions_of(connection: Connection, user: str) -> None:
    """Sign somebody out everywhere, as after a change of password."""
    connection.execute(delete(sessions).where(sessions.c.user == user))
