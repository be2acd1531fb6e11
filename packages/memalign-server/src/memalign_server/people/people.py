"""The people of the one team: made by an owner or known to an OpenID provider, signed in by a personal link or by it.

Every secret is 256 random bits. The tables keep its hash alone, so a copy of the database opens no door.
"""

from __future__ import annotations

import hashlib
import secrets
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from memalign_server.problems import Refused
from memalign_server.store.columns import later, new_id, now
from memalign_server.store.tables import people, reviews, server_settings, sessions

__all__ = [
    "LOCAL",
    "PROGRAM",
    "SESSION_SECONDS",
    "Person",
    "Role",
    "add_person",
    "digest",
    "end_session",
    "has_people",
    "is_token",
    "list_people",
    "make_link",
    "make_token",
    "name_key",
    "owner_link",
    "person_of_link",
    "person_of_session",
    "remove_person",
    "start_session",
    "take_link",
]

SESSION_SECONDS = 90 * 86400
_LINK_SECONDS = 7 * 86400
_TOKEN_PREFIX = "memalign_"  # what a token begins with, so that scanners of published code know one
_TOKEN_SETTING = "api_token"


class Role(StrEnum):
    """What somebody may do: a reviewer judges cases and teaches in their own name, an owner does everything."""

    OWNER = "owner"
    REVIEWER = "reviewer"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who makes a request.

    Attributes:
        name: The name, which is the source of their feedback.
        role: What they may do.
        by: How they are known: `open` on a server without people, by a `session`, or by the `token` of programs.
        id: Their row's id; None for the local person and for programs.
    """

    name: str
    role: Role
    by: Literal["open", "session", "token"]
    id: str | None = None

    @property
    def owner(self) -> bool:
        """Whether they are an owner."""
        return self.role is Role.OWNER


LOCAL = Person(name="local", role=Role.OWNER, by="open")
"""Everybody, where there are no people and only this machine can reach the server."""
PROGRAM = Person(name="api", role=Role.OWNER, by="token")
"""Every program that has the API token."""


def digest(secret: str) -> str:
    """What the tables keep of a secret: SHA-256 in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def name_key(name: str) -> str:
    """What two spellings of one name share: letters of either case, composed or not, wide or narrow (NFKC, casefold)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name.strip()).casefold())


def has_people(connection: Connection) -> bool:
    """Whether the team has anybody."""
    return bool(connection.execute(select(func.count()).select_from(people)).scalar())


def list_people(connection: Connection) -> list[Row[tuple[str, str, str, str | None, str | None]]]:
    """Everybody by name: `id`, `name`, `role`, `link_until` of a link that waits, `email` of a provider's person."""
    query = select(people.c.id, people.c.name, people.c.role, people.c.link_until, people.c.email)
    return list(connection.execute(query.order_by(people.c.name_key)))


def add_person(
    connection: Connection,
    name: str,
    role: Role,
    *,
    issuer: str | None = None,
    subject: str | None = None,
    email: str | None = None,
) -> str:
    """Add somebody to the team; gives their id.

    Raises:
        InputError: The text is no name, or somebody has a name that reads the same.
    """
    name = name.strip()
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise Refused("a name is one line of 1 to 200 letters")
    # Names are the sources of feedback: two that look the same would be one person to every reader.
    key = name_key(name)
    spellings = connection.execute(select(reviews.c.person).distinct()).scalars()
    name = next(
        (known for known in spellings if name_key(known) == key), name
    )  # who was here before is the same source
    taken = connection.execute(select(people.c.id).where(people.c.name_key == key)).first() is not None
    if taken or key in (LOCAL.name, PROGRAM.name):
        raise Refused("the name '{name}' is taken; choose another one", name=name)
    person = new_id()
    values = {"id": person, "name": name, "name_key": key, "role": role.value, "created_at": now()}
    connection.execute(insert(people).values(**values, issuer=issuer, subject=subject, email=email))
    return person


def remove_person(connection: Connection, person: str) -> None:
    """Take somebody out of the team, with their link and sessions. What they said stays, under their name.

    Raises:
        InputError: Nobody has this id, or no owner would be left.
    """
    owners = select(func.count()).where(people.c.role == Role.OWNER.value, people.c.id != person)
    row = connection.execute(select(people.c.role).where(people.c.id == person)).first()
    if row is None:
        raise Refused("this person is not in the team any more")
    if row.role == Role.OWNER.value and not connection.execute(owners).scalar():
        raise Refused("the team needs an owner: add another one first")
    connection.execute(delete(sessions).where(sessions.c.person == person))
    connection.execute(delete(people).where(people.c.id == person))


# -- personal links ----------------------------------------------------------------------------------------------------


def make_link(connection: Connection, person: str) -> str:
    """The secret of a new link for somebody, good once and for a week; the one before it opens nothing any more.

    Raises:
        InputError: Nobody has this id.
    """
    secret = secrets.token_urlsafe(32)
    values = {"link": digest(secret), "link_until": later(_LINK_SECONDS)}
    if not connection.execute(update(people).where(people.c.id == person).values(**values)).rowcount:
        raise Refused("this person is not in the team any more")
    return secret


def owner_link(connection: Connection, name: str) -> str:
    """The secret of a link for an owner of this name, who is added or made an owner where that is needed.

    For whoever runs the server: it is how the first owner comes in, and how one who lost everything comes back.
    """
    person = connection.execute(select(people.c.id).where(people.c.name_key == name_key(name))).scalar()
    if person is None:
        person = add_person(connection, name, Role.OWNER)
    connection.execute(update(people).where(people.c.id == person).values(role=Role.OWNER.value))
    return make_link(connection, str(person))


def person_of_link(connection: Connection, secret: str) -> Person | None:
    """Whom a link is for, while it is good."""
    query = select(people).where(people.c.link == digest(secret), people.c.link_until >= now())
    row = connection.execute(query).first()
    return None if row is None else _person(row)


def take_link(connection: Connection, secret: str) -> str | None:
    """Use a link up; gives the secret of a session, None where the link is not good, as when it is used twice at once."""
    person = person_of_link(connection, secret)
    if person is None or person.id is None:
        return None
    same = (people.c.id == person.id, people.c.link == digest(secret))
    if connection.execute(update(people).where(*same).values(link=None, link_until=None)).rowcount != 1:
        return None
    return start_session(connection, person.id)


# -- sessions ----------------------------------------------------------------------------------------------------------


def start_session(connection: Connection, person: str) -> str:
    """The secret of a new session of somebody, good for ninety days."""
    secret = secrets.token_urlsafe(32)
    connection.execute(delete(sessions).where(sessions.c.expires_at < now()))
    values = {"digest": digest(secret), "person": person, "expires_at": later(SESSION_SECONDS)}
    connection.execute(insert(sessions).values(**values))
    return secret


def end_session(connection: Connection, secret: str) -> None:
    """Sign out: the session is gone, also for whoever copied its cookie."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest(secret)))


def person_of_session(connection: Connection, secret: str) -> tuple[Person, str | None, str | None] | None:
    """Who has a session, with the subject and e-mail of a provider's person; None when it has ended."""
    joined = people.join(sessions, sessions.c.person == people.c.id)
    good = (sessions.c.digest == digest(secret), sessions.c.expires_at >= now())
    row = connection.execute(select(people).select_from(joined).where(*good)).first()
    return None if row is None else (_person(row), row.subject, row.email)


# -- the token of programs ---------------------------------------------------------------------------------------------


def make_token(connection: Connection) -> str:
    """A new API token, which takes the place of the one before."""
    secret = f"{_TOKEN_PREFIX}{secrets.token_urlsafe(32)}"
    connection.execute(delete(server_settings).where(server_settings.c.name == _TOKEN_SETTING))
    connection.execute(insert(server_settings).values(name=_TOKEN_SETTING, value=digest(secret)))
    return secret


def is_token(connection: Connection, secret: str) -> bool:
    """Whether this is the API token that an owner made."""
    query = select(server_settings.c.value).where(server_settings.c.name == _TOKEN_SETTING)
    return connection.execute(query).scalar() == digest(secret)


def _person(row: Row[tuple[object, ...]]) -> Person:
    return Person(name=row.name, role=Role(row.role), by="session", id=row.id)
