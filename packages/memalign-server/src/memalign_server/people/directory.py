"""Who is in which team, and what invitations are out."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from memalign_server.store.columns import now
from memalign_server.store.people_tables import invitations, memberships, teams, users

__all__ = ["Member", "Open", "members_of", "open_invitations", "teams_named", "withdraw_invitation"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """Somebody in a team."""

    user: str
    name: str
    role: str


@dataclass(frozen=True, kw_only=True)
class Open:
    """An invitation that nobody has taken up, without its secret."""

    id: str
    role: str
    created_at: str
    expires_at: str


def teams_named(connection: Connection, ids: tuple[str, ...]) -> dict[str, str]:
    """Names of teams by their ids."""
    found = connection.execute(select(teams.c.id, teams.c.name).where(teams.c.id.in_(ids)).order_by(teams.c.name))
    return {team: name for team, name in found}  # noqa: C416  # rows are no pairs to a type checker


def members_of(connection: Connection, team: str) -> list[Member]:
    """Everybody in a team, by name."""
    joined = select(users.c.id, users.c.name, memberships.c.role).join(memberships, memberships.c.user == users.c.id)
    found = connection.execute(joined.where(memberships.c.team == team).order_by(users.c.name))
    return [Member(user=row.id, name=row.name, role=row.role) for row in found]


def open_invitations(connection: Connection, team: str) -> list[Open]:
    """Invitations to a team that can still be taken up, the newest first."""
    mine = select(invitations).where(invitations.c.team == team, invitations.c.accepted_at.is_(None))
    found = connection.execute(mine.where(invitations.c.expires_at >= now()).order_by(invitations.c.created_at.desc()))
    return [Open(id=row.id, role=row.role, created_at=row.created_at, expires_at=row.expires_at) for row in found]


def withdraw_invitation(connection: Connection, team: str, invitation: str) -> bool:
    """Take an invitation back; whether there was one that nobody had taken up."""
    mine = delete(invitations).where(invitations.c.id == invitation, invitations.c.team == team)
    return bool(connection.execute(mine.where(invitations.c.accepted_at.is_(None))).rowcount)
