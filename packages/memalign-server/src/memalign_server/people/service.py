"""The people of the one team: made by an owner or known to an OpenID provider, signed in by a personal link or by it.

Every secret is 256 random bits. The tables keep its hash alone, so a copy of the database opens no door.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, update

from memalign.keys import name_key, same_person
from memalign_server.problems import Refused
from memalign_server.store.erasing import check_team_keeps_owner
from memalign_server.store.tables import later, new_id, now, people, reviews, sessions

SESSION_SECONDS = 90 * 86400
OPENID_SECONDS = 12 * 3600
"""After so long the provider and the list are asked again."""
_LINK_SECONDS = 7 * 86400


class Role(StrEnum):
    """What somebody may do: a reviewer judges cases and teaches in their own name, an owner does everything."""

    OWNER = "owner"
    REVIEWER = "reviewer"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who makes a request; their name is the source of their feedback.

    `by` says how they are known: by a `session`, by the `token` of programs, or not at all, on an `open` server without
    people. The local person and programs have no `id`.
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


def has_people(connection: Connection) -> bool:
    """Whether the team has anybody."""
    return connection.execute(select(people.c.id).limit(1)).first() is not None


def list_people(connection: Connection) -> list[Row[Any]]:
    """List everybody by name, as rows of the table."""
    return list(connection.execute(select(people).order_by(people.c.name_key)))


def name_taken(connection: Connection, name: str) -> bool:
    """Whether somebody, or a name of the server's own, reads the same."""
    key = name_key(name)
    same = select(people.c.id).where(people.c.name_key == key)
    return key in (LOCAL.name, PROGRAM.name) or connection.execute(same).first() is not None


def spelled(connection: Connection, name: str) -> str:
    """Return a person's name as the team has it, else as they answered under it, else as it is given."""
    member = connection.execute(
        select(people.c.name).where(people.c.name_key == name_key(name))
    ).scalar()
    if member is not None:
        return str(member)
    answered = connection.execute(select(reviews.c.person).distinct()).scalars()
    return next((other for other in answered if same_person(other, name)), name)


def add_person(connection: Connection, name: str, role: Role) -> str:
    """Add somebody to the team; returns the id of their row.

    Raises InputError for a text that is no name, and for a name that is taken.
    """
    name = name.strip()
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise Refused("a name is one line of 1 to 200 letters", field="name")
    if name_taken(connection, name):
        raise Refused("the name '{name}' is taken; choose another one", field="name", name=name)
    name = spelled(
        connection, name
    )  # somebody who was here before is the same source, as it was spelled then
    person = new_id()
    values = {
        "id": person,
        "name": name,
        "name_key": name_key(name),
        "role": role.value,
        "created_at": now(),
    }
    connection.execute(insert(people).values(**values))
    return person


def remove_person(connection: Connection, person: str) -> None:
    """Take somebody out of the team, with their link and sessions. What they said stays, under their name.

    Raises InputError if nobody has this id, or no owner would be left.
    """
    row = connection.execute(select(people.c.role).where(people.c.id == person)).first()
    if row is None:
        raise Refused("this person is not in the team any more")
    if row.role == Role.OWNER.value:
        check_team_keeps_owner(connection, [person])
    connection.execute(delete(people).where(people.c.id == person))  # their sessions go with them


def make_link(connection: Connection, person: str) -> str:
    """Make a link for somebody, good once and for a week, in the place of the one before; returns the secret in it.

    Raises InputError if nobody has this id.
    """
    secret = secrets.token_urlsafe(32)
    values = {"link": digest(secret), "link_until": later(_LINK_SECONDS)}
    if not connection.execute(update(people).where(people.c.id == person).values(values)).rowcount:
        raise Refused("this person is not in the team any more")
    return secret


def owner_link(connection: Connection, name: str) -> str:
    """Make a link for an owner of this name, who is added or made an owner if needed; returns the secret in it.

    This is how the first owner comes in, and how an owner who lost everything comes back.
    """
    person = connection.execute(
        select(people.c.id).where(people.c.name_key == name_key(name))
    ).scalar()
    if person is None:
        person = add_person(connection, name, Role.OWNER)
    connection.execute(update(people).where(people.c.id == person).values(role=Role.OWNER.value))
    return make_link(connection, str(person))


def person_of_link(connection: Connection, secret: str) -> Person | None:
    """Whom a link is for, while it is good."""
    good = (people.c.link == digest(secret), people.c.link_until >= now())
    row = connection.execute(select(people).where(*good)).first()
    return None if row is None else _person(row)


def take_link(connection: Connection, secret: str) -> str | None:
    """Use a link up; returns the secret of a session, None if the link is not good or somebody was quicker."""
    person = person_of_link(connection, secret)
    taking = (
        update(people).where(people.c.link == digest(secret)).values(link=None, link_until=None)
    )
    if person is None or person.id is None or connection.execute(taking).rowcount != 1:
        return None
    return start_session(connection, person.id)


def start_session(connection: Connection, person: str, *, seconds: int = SESSION_SECONDS) -> str:
    """Start a session for somebody; returns its secret."""
    secret = secrets.token_urlsafe(32)
    connection.execute(delete(sessions).where(sessions.c.expires_at < now()))
    values = {"digest": digest(secret), "person": person, "expires_at": later(seconds)}
    connection.execute(insert(sessions).values(**values))
    return secret


def end_session(connection: Connection, secret: str) -> None:
    """End a session, also for whoever copied its cookie."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest(secret)))


def person_of_session(connection: Connection, secret: str) -> Person | None:
    """Whose session it is, None if it has ended."""
    joined = people.join(sessions, sessions.c.person == people.c.id)
    good = (sessions.c.digest == digest(secret), sessions.c.expires_at >= now())
    row = connection.execute(select(people).select_from(joined).where(*good)).first()
    return None if row is None else _person(row)


def _person(row: Row[Any]) -> Person:
    return Person(name=row.name, role=Role(row.role), by="session", id=row.id)
