"""The people of the one team, who sign in by a personal link or by an OpenID provider.

An owner adds them, or the provider knows them. Every secret is 256 random bits. The tables keep its
hash alone, so a copy of the database opens no door.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from memalign.content import printable
from memalign.keys import name_key, same_person
from memalign_server.problems import Refused
from memalign_server.store import Transaction, team
from memalign_server.store.answers import people_who_answered
from memalign_server.store.rows import Member
from memalign_server.store.tables import later
from memalign_server.store.team import list_people

__all__ = [
    "LOCAL",
    "OPENID_SECONDS",
    "PROGRAM",
    "SESSION_SECONDS",
    "Person",
    "Role",
    "add_person",
    "digest",
    "list_people",
    "make_link",
    "name_taken",
    "owner_link",
    "person_of_link",
    "person_of_session",
    "remove_person",
    "spelled",
    "start_session",
    "take_link",
]

SESSION_SECONDS = 90 * 86400
OPENID_SECONDS = 12 * 3600
"""After so long the provider and the list are asked again."""
_LINK_SECONDS = 7 * 86400


class Role(StrEnum):
    """What somebody may do.

    A reviewer judges cases and teaches in their own name; an owner does everything.
    """

    OWNER = "owner"
    REVIEWER = "reviewer"


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who makes a request; their name is the source of their feedback.

    `by` says how they are known: by a `session`, by the `token` of programs, or not at all, on an
    `open` server without people. The local person and programs have no `id`.
    """

    name: str
    role: Role
    by: Literal["open", "session", "token"]
    id: str | None = None

    @property
    def owner(self) -> bool:
        """Return whether they are an owner."""
        return self.role is Role.OWNER


LOCAL = Person(name="local", role=Role.OWNER, by="open")
"""Everybody, where there are no people and only this machine can reach the server."""
PROGRAM = Person(name="api", role=Role.OWNER, by="token")
"""Every program that has the API token."""


def digest(secret: str) -> str:
    """Return what the tables keep of a secret: its SHA-256 in hex."""
    return hashlib.sha256(secret.encode()).hexdigest()


def name_taken(connection: Transaction, name: str) -> bool:
    """Return whether somebody, or a name of the server's own, reads the same."""
    if name_key(name) in (LOCAL.name, PROGRAM.name):
        return True
    return team.member_of_name(connection, name) is not None


def spelled(connection: Transaction, name: str) -> str:
    """Return a person's name as the team spells it, else as their answers do, else as given."""
    member = team.member_of_name(connection, name)
    if member is not None:
        return member.name
    answered = people_who_answered(connection)
    return next((other for other in answered if same_person(other, name)), name)


def add_person(connection: Transaction, name: str, role: Role) -> str:
    """Add somebody to the team; return the id of their row.

    Raises:
        InputError: The text is no name, or the name is taken.
    """
    name = name.strip()
    is_line = printable(name) == name and {"\n", "\t"}.isdisjoint(name)
    if not 0 < len(name) <= 200 or not is_line:
        raise Refused("a name is one line of 1 to 200 letters", field="name")
    if name_taken(connection, name):
        raise Refused(
            "the name '{name}' is taken; choose another one", field="name", name=name
        )
    # Somebody who was here before is the same source, as it was spelled then.
    return team.insert_member(connection, spelled(connection, name), role.value)


def remove_person(connection: Transaction, person: str) -> None:
    """Take somebody out of the team, with their link and sessions.

    What they said stays, under their name.

    Raises:
        InputError: Nobody has this id, or no owner would be left.
    """
    if not team.delete_members(connection, [person]):
        raise Refused("this person is not in the team any more")


def make_link(connection: Transaction, person: str) -> str:
    """Make a link for somebody, good once and for a week, in the place of the one before.

    Returns:
        The secret in it.

    Raises:
        InputError: Nobody has this id.
    """
    secret = secrets.token_urlsafe(32)
    until = later(_LINK_SECONDS)
    if not team.change_member(
        connection, person, link=digest(secret), link_until=until
    ):
        raise Refused("this person is not in the team any more")
    return secret


def owner_link(connection: Transaction, name: str) -> str:
    """Make a link for an owner of this name, and return the secret in it.

    They are added or made an owner if needed. This is how the first owner comes in, and how an
    owner who lost everything comes back.
    """
    member = team.member_of_name(connection, name)
    person = add_person(connection, name, Role.OWNER) if member is None else member.id
    team.change_member(connection, person, role=Role.OWNER.value)
    return make_link(connection, person)


def person_of_link(connection: Transaction, secret: str) -> Person | None:
    """Return whom a link is for, while it is good."""
    return _person(team.member_of_link(connection, digest(secret)))


def take_link(connection: Transaction, secret: str) -> str | None:
    """Use a link up and return the secret of a session.

    Returns:
        The secret, or None if the link is not good or somebody was quicker.
    """
    person = team.use_link(connection, digest(secret))
    return None if person is None else start_session(connection, person)


def start_session(
    connection: Transaction, person: str, *, seconds: int = SESSION_SECONDS
) -> str:
    """Start a session for somebody; return its secret."""
    secret = secrets.token_urlsafe(32)
    team.insert_session(connection, digest(secret), person, seconds=seconds)
    return secret


def person_of_session(connection: Transaction, secret: str) -> Person | None:
    """Return whose session it is, or None if it has ended."""
    return _person(team.member_of_session(connection, digest(secret)))


def _person(member: Member | None) -> Person | None:
    if member is None:
        return None
    return Person(name=member.name, role=Role(member.role), by="session", id=member.id)
