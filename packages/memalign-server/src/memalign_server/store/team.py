"""The people of the team with their links and sessions, as rows.

A secret is kept as its SHA-256 alone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from memalign.keys import name_key
from memalign_server.problems import Refused
from memalign_server.store.rows import Member, read_row
from memalign_server.store.tables import later, new_id, now, people, sessions

_MEMBERS = select(people)


def list_people(connection: Connection) -> list[Member]:
    """Return everybody, by name."""
    rows = connection.execute(_MEMBERS.order_by(people.c.name_key))
    return [read_row(Member, people, row) for row in rows]


def _member(connection: Connection, query: Select[Any]) -> Member | None:
    row = connection.execute(query).first()
    return None if row is None else read_row(Member, people, row)


def member_of_name(connection: Connection, name: str) -> Member | None:
    """Return who has a name that reads the same, or None."""
    key = name_key(name)
    return _member(connection, _MEMBERS.where(people.c.name_key == key))


def member_of_subject(connection: Connection, subject: str) -> Member | None:
    """Return whom an OpenID provider knows by this subject, or None."""
    return _member(connection, _MEMBERS.where(people.c.subject == subject))


def member_of_link(connection: Connection, digest: str) -> Member | None:
    """Return whom a link is for, while it is good."""
    is_good = people.c.link_until >= now()
    return _member(connection, _MEMBERS.where(people.c.link == digest, is_good))


def member_of_session(connection: Connection, digest: str) -> Member | None:
    """Return whose session it is, or None if it has ended."""
    is_good = sessions.c.expires_at >= now()
    query = _MEMBERS.join(sessions, sessions.c.person == people.c.id)
    return _member(connection, query.where(sessions.c.digest == digest, is_good))


def insert_member(connection: Connection, name: str, role: str) -> str:
    """Add somebody; return the id of their row."""
    row = {
        "id": new_id(),
        "name": name,
        "name_key": name_key(name),
        "role": role,
        "created_at": now(),
    }
    connection.execute(insert(people).values(row))
    return row["id"]


def change_member(connection: Connection, person: str, **values: str | None) -> bool:
    """Change somebody's row; return whether it is there."""
    own = update(people).where(people.c.id == person)
    return connection.execute(own.values(**values)).rowcount > 0


def delete_members(connection: Connection, ids: Collection[str]) -> int:
    """Take people out of the team, with their links and sessions.

    Returns:
        How many there were.

    Raises:
        InputError: The team has an owner, and none would be left.
    """
    check_team_keeps_owner(connection, ids)
    # Their sessions go with them.
    return connection.execute(delete(people).where(people.c.id.in_(ids))).rowcount


def check_team_keeps_owner(connection: Connection, leaving: Collection[str]) -> None:
    """Check that the team would have an owner without these people, by their ids.

    Raises:
        InputError: The team has an owner, and none would be left.
    """
    query = select(people.c.id).where(people.c.role == "owner")
    owners = set(connection.scalars(query))
    if owners and owners.issubset(leaving):
        raise Refused("the team needs an owner: add another one first")


def use_link(connection: Connection, digest: str) -> bool:
    """Use a link up; return whether it was there, and nobody was quicker."""
    own = update(people).where(people.c.link == digest)
    taken = connection.execute(own.values(link=None, link_until=None))
    return taken.rowcount == 1


def insert_session(
    connection: Connection, digest: str, person: str, *, seconds: int
) -> None:
    """Keep a session for somebody, and no session that has ended."""
    connection.execute(delete(sessions).where(sessions.c.expires_at < now()))
    row = {"digest": digest, "person": person, "expires_at": later(seconds)}
    connection.execute(insert(sessions).values(row))


def delete_session(connection: Connection, digest: str) -> None:
    """End a session, also for whoever copied its cookie."""
    connection.execute(delete(sessions).where(sessions.c.digest == digest))
