"""Accounts: made by the first owner's command or by an invitation, never by anybody alone."""

from __future__ import annotations

import secrets
import unicodedata
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, update

from memalign_server.people.identity import digest
from memalign_server.people.passwords import check_password, hashed, matches, outdated
from memalign_server.people.roles import Role
from memalign_server.people.sessions import end_sessions_of
from memalign_server.problems import Refused
from memalign_server.store import FIRST_TEAM, Store
from memalign_server.store.columns import later, new_id, now
from memalign_server.store.people_tables import invitations, memberships, users

__all__ = [
    "Invitation",
    "accept",
    "add_owner",
    "add_user",
    "change_password",
    "find_invitation",
    "invite",
    "is_name",
    "name_key",
    "set_role",
    "user_by_password",
]

_INVITED = 7 * 86400
"""Seconds that an invitation is good for."""


@dataclass(frozen=True, kw_only=True)
class Invitation:
    """An invitation that is still good: to which team, as what, until when."""

    id: str
    team: str
    role: Role
    expires_at: str


def add_owner(store: Store, name: str, password: str) -> str:
    """An owner of the first team, made by whoever runs the server; the id. Raises InputError."""
    check_password(password, name)
    known = hashed(password)  # before the transaction: it takes its time on purpose
    with store.write() as connection:
        user = add_user(connection, name, password_hash=known)
        set_role(connection, user, FIRST_TEAM, Role.OWNER)
    return user


def add_user(
    connection: Connection,
    name: str,
    *,
    password_hash: str | None = None,
    issuer: str | None = None,
    subject: str | None = None,
) -> str:
    """An account without a role yet; the id. Raises InputError for a name that is taken or no name."""
    name = name.strip()
    if not 0 < len(name) <= 200 or not name.isprintable():
        raise Refused("a name is one line of 1 to 200 letters")
    # Names are the sources of feedback: two that look the same would be one person to every reader.
    if is_name(connection, name):
        raise Refused("the name '{name}' is taken; choose another one", name=name)
    user, key = new_id(), name_key(name)
    known = {"issuer": issuer, "subject": subject, "password": password_hash}
    connection.execute(insert(users).values(id=user, name=name, name_key=key, created_at=now(), **known))
    return user


def name_key(name: str) -> str:
    """What two spellings of one name share: letters in whatever case, composed or not, wide or narrow (NFKC, casefold)."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name.strip()).casefold())


def is_name(connection: Connection, name: str) -> bool:
    """Whether somebody has this name, however it is spelled."""
    query = select(users.c.id).where(users.c.name_key == name_key(name))
    return connection.execute(query).first() is not None


def set_role(connection: Connection, user: str, team: str, role: Role | None) -> None:
    """Give somebody a role in a team, or take them out of it. Raises InputError where no owner would be left."""
    mine = (memberships.c.user == user, memberships.c.team == team)
    before = connection.execute(select(memberships.c.role).where(*mine)).scalar()
    connection.execute(delete(memberships).where(*mine))
    if role is not None:
        connection.execute(insert(memberships).values(user=user, team=team, role=role.word))
    owners = select(func.count()).where(memberships.c.team == team, memberships.c.role == Role.OWNER.word)
    if before == Role.OWNER.word and not connection.execute(owners).scalar():
        raise Refused("a team needs an owner: make somebody else one first")


def user_by_password(store: Store, name: str, password: str) -> str | None:
    """The id of the user who has this name and password; None for anybody else. As slow for one as for the other."""
    with store.read() as connection:
        row = connection.execute(select(users).where(users.c.name_key == name_key(name))).first()
    known = None if row is None or row.disabled_at is not None else row.password
    if not matches(password, known) or row is None:
        return None
    if outdated(row.password):
        again = hashed(password)
        with store.write() as connection:
            connection.execute(update(users).where(users.c.id == row.id).values(password=again))
    return str(row.id)


def change_password(store: Store, user: str, name: str, *, old: str, new: str) -> None:
    """Change a password, and sign everybody out who knew the old one. Raises InputError."""
    if user_by_password(store, name, old) != user:
        raise Refused("the old password is wrong")
    check_password(new, name)
    known = hashed(new)
    with store.write() as connection:
        connection.execute(update(users).where(users.c.id == user).values(password=known))
        end_sessions_of(connection, user)


def invite(connection: Connection, *, team: str, role: Role, by: str | None) -> tuple[Invitation, str]:
    """An invitation to a team, and the secret of its link, which is kept nowhere."""
    secret = secrets.token_urlsafe(32)
    made = Invitation(id=new_id(), team=team, role=role, expires_at=later(_INVITED))
    row = {"id": made.id, "team": team, "role": role.word, "expires_at": made.expires_at}
    connection.execute(insert(invitations).values(**row, digest=digest(secret), invited_by=by, created_at=now()))
    return made, secret


def find_invitation(connection: Connection, secret: str) -> Invitation | None:
    """The invitation of a link, while it is good: not accepted, not too old."""
    row = connection.execute(select(invitations).where(invitations.c.digest == digest(secret))).first()
    if row is None or row.accepted_at is not None or row.expires_at < now():
        return None
    return Invitation(id=row.id, team=row.team, role=Role.of(row.role), expires_at=row.expires_at)


def accept(connection: Connection, secret: str, user: str) -> None:
    """Take an invitation up. Raises InputError where it is no longer good, as when it is taken up twice at once."""
    found = find_invitation(connection, secret)
    if found is None:
        raise Refused("this invitation is used or too old; ask for a new one")
    mine = update(invitations).where(invitations.c.id == found.id, invitations.c.accepted_at.is_(None))
    if connection.execute(mine.values(accepted_at=now(), accepted_by=user)).rowcount != 1:
        raise Refused("this invitation is used; ask for a new one")
    there = select(memberships.c.role).where(memberships.c.user == user, memberships.c.team == found.team)
    before = connection.execute(there).scalar()
    if before is None or Role.of(before) < found.role:
        set_role(connection, user, found.team, found.role)
