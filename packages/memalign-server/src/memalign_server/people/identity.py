"""Who makes a request: by a session's cookie, by an API token, or the one local person of a server without accounts."""

from __future__ import annotations

import hashlib
from types import MappingProxyType

from sqlalchemy import Connection, func, select

from memalign.registry import tables
from memalign_server.people.roles import Person, Role
from memalign_server.store import FIRST_TEAM
from memalign_server.store.people_tables import memberships, team_judges, users

__all__ = ["LOCAL", "digest", "has_accounts", "person_of", "team_of"]

LOCAL = Person(name="local", roles=MappingProxyType({FIRST_TEAM: Role.OWNER}), by="open")
"""Everybody, where nobody has an account and only this machine can reach the server."""


def digest(secret: str) -> str:
    """What the tables keep of a cookie's or token's secret: SHA-256 in hex. The secrets are random and long."""
    return hashlib.sha256(secret.encode()).hexdigest()


def has_accounts(connection: Connection) -> bool:
    """Whether anybody has an account."""
    return bool(connection.execute(select(func.count()).select_from(users)).scalar())


def person_of(connection: Connection, user: str) -> Person | None:
    """The person of a user's id, with the roles they have now; None where the account is gone or disabled."""
    row = connection.execute(select(users.c.name, users.c.disabled_at).where(users.c.id == user)).first()
    if row is None or row.disabled_at is not None:
        return None
    found = connection.execute(select(memberships.c.team, memberships.c.role).where(memberships.c.user == user))
    roles = {team: Role.of(role) for team, role in found}
    return Person(name=row.name, user=user, roles=MappingProxyType(roles), by="session")


def team_of(connection: Connection, judge: str) -> str | None:
    """The id of the team whose a judge is: the first team's where nobody said, and None where no judge has the name."""
    judges = tables.judges
    query = select(judges.c.id, team_judges.c.team).where(judges.c.name == judge)
    row = connection.execute(query.outerjoin(team_judges, team_judges.c.judge == judges.c.id)).first()
    return None if row is None else str(row.team or FIRST_TEAM)
