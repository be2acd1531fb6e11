"""The people of the team with their links and sessions, as rows. A secret is kept as its SHA-256 alone."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from memalign.keys import name_key
from memalign_server.problems import Refused
from memalign_server.store.rows import Member, read_row
from memalign_server.store.tables import later, new_id, now, people, sessions


def has_people(connection: Connection) -> bool:
    """Return whether the team has anybody."""
    return connection.execute(select(people.c.id).limit(1)).first() is not None


def list_people(connection: Connection) -> list[Member]:
    """Return everybody, by name."""
    rows = connection.execute(select(people).order_by(people.c.name_key))
    return [read_row(Member, people, row) for row in rows]


def _member(connection: Connection, *conditions: ColumnElement[bool]) -> Member | None:
    row = connection.execute(select(people).where(*conditions)).first()
    return None if row is None else read_row(Member, people, row)


def member_of_name(connection: Connection, name: str) -> Member | None:
    """Return who has a name that reads the same, or None."""
    return _member(connection, people.c.name_key == name_key(name))


def member_of_subject(connection: Connection, subject: str) -> Member | None:
    """Return whom an OpenID provider knows by this subject, or None."""
    return _member(connection, people.c.subject == subject)


def member_of_link(connection: Connection, digest: str) -> Member | None:
    """Return whom a link is for, while it is good."""
    return _member(connection, people.c.link == digest, people.c.link_until >= now())


def member_of_session(connection: Connection, digest: str) -> Member | None:
    """Return whose session it is, or None if it has ended."""
    good = (sessions.c.digest == digest, sessions.c.expires_at >= now())
    query = select(people).join(sessions, sessions.c.person == people.c.id).where(*good)
    row = connection.execute(query).first()
    return None if row is None else read_row(Member, people, row)


def insert_member(connection: Connection, name: str, role: str) -> str:
    """Add somebody; return the id of their row."""
    person = new_id()
    row = {"id": person, "name": name, "name_key": name_key(name), "role": role}
    connection.execute(insert(people).values(**row, created_at=now()))
    return person


def change_member(connection: Connection, person: str, **values: str | None) -> bool:
    """Change somebody's row; return whether it is there."""
    own = update(people).where(people.c.id == person)
    return bool(connection.execute(own.values(**values)).rowcount)


def delete_members(connection: Connection, ids: Collection[str]) -> int:
    """Take people out of the team, with their links and sessions; return how many there were.

    Raises:
        InputError: The team has an owner, and none would be left.
    """
    check_team_keeps_owner(connection, ids)
    # Their sessions go with them.
    return connection.execute(delete(people).where(people.c.id.in_(ids))).rowcount


def check_team_keeps_owner(connection: Connection, leaving: Collection[str]) -> None:
    """Raise InputError if the team has an owner, and none would be left without these people, by id."""
    owners = set(
        connection.execute(
            select(people.c.id).where(people.c.role == "owner")
        ).scalars()
    )
    if owners and owners.issubset(leaving):
        raise Refused("the team needs an owner: add another one first")


def use_link(connection: Connection, digest: str) -> bool:
    """Use a link up; return whether it was there, and nobody was quicker."""
    taking = (
        update(people).where(people.c.link == digest).values(link=None, link_until=None)
    )
    return connection.execute(taking).rowcount == 1


def insert_session(
    connection: Connection, digest: str, person: str, *, seconds: int
) -> None:
    """Keep a session for somebody, and no session that has ended."""
    connection.execute(delete(sessions).where(sessions.c.expires_at < now()))
    row: dict[str, Any] = {
        "digest": digest,
        "person": person,
        "expires_at": later(seconds),
    }
    connection.execute(insert(sessions).values(**row))


def delete_session(connection: Connection, digest: str) -> None:
    """End a session, also for whoever copied its cookie."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest))
