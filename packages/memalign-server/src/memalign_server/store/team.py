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
_MEMBER = people.c
_SESSION = sessions.c


def list_people(connection: Connection) -> list[Member]:
    """Return everybody, by name."""
    by_name = _MEMBERS.order_by(_MEMBER.name_key)
    rows = connection.execute(by_name)
    return [read_row(Member, people, row) for row in rows]


def _member(connection: Connection, query: Select[Any]) -> Member | None:
    row = connection.execute(query).first()
    return None if row is None else read_row(Member, people, row)


def member_of_name(connection: Connection, name: str) -> Member | None:
    """Return who has a name that reads the same, or None."""
    key = name_key(name)
    return _member(connection, _MEMBERS.where(_MEMBER.name_key == key))


def member_of_subject(connection: Connection, subject: str) -> Member | None:
    """Return whom an OpenID provider knows by this subject, or None."""
    return _member(connection, _MEMBERS.where(_MEMBER.subject == subject))


def member_of_link(connection: Connection, digest: str) -> Member | None:
    """Return whom a link is for, while it is good."""
    query = _MEMBERS.where(_MEMBER.link == digest, _MEMBER.link_until >= now())
    return _member(connection, query)


def member_of_session(connection: Connection, digest: str) -> Member | None:
    """Return whose session it is, or None if it has ended."""
    query = _MEMBERS.join(sessions, _SESSION.person == _MEMBER.id).where(
        _SESSION.digest == digest, _SESSION.expires_at >= now()
    )
    return _member(connection, query)


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
    own = update(people).where(_MEMBER.id == person)
    changed = connection.execute(own.values(**values))
    return changed.rowcount > 0


def delete_members(connection: Connection, ids: Collection[str]) -> int:
    """Take people out of the team, with their links and sessions.

    Returns:
        How many there were.

    Raises:
        InputError: The team has an owner, and none would be left.
    """
    check_team_keeps_owner(connection, ids)
    leaving = delete(people).where(_MEMBER.id.in_(ids))
    gone = connection.execute(leaving)  # their sessions go with them
    return gone.rowcount


def check_team_keeps_owner(connection: Connection, leaving: Collection[str]) -> None:
    """Check that the team would have an owner without these people, by their ids.

    Raises:
        InputError: The team has an owner, and none would be left.
    """
    query = select(_MEMBER.id).where(_MEMBER.role == "owner")
    owners = set(connection.scalars(query))
    if owners and owners.issubset(leaving):
        raise Refused("the team needs an owner: add another one first")


def use_link(connection: Connection, digest: str) -> str | None:
    """Use a link up while it is good; return the id of whom it is for, or None."""
    own = update(people).where(_MEMBER.link == digest, _MEMBER.link_until >= now())
    used = own.values(link=None, link_until=None).returning(_MEMBER.id)
    person: str | None = connection.scalar(used)
    return person


def insert_session(
    connection: Connection, digest: str, person: str, *, seconds: int
) -> None:
    """Keep a session for somebody, and no session that has ended."""
    has_ended = _SESSION.expires_at < now()
    connection.execute(delete(sessions).where(has_ended))
    row = {"digest": digest, "person": person, "expires_at": later(seconds)}
    connection.execute(insert(sessions).values(row))


def delete_session(connection: Connection, digest: str) -> None:
    """End a session, also for whoever copied its cookie."""
    own = delete(sessions).where(_SESSION.digest == digest)
    connection.execute(own)
