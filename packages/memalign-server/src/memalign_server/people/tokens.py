"""API tokens: for programs, each with a name, a role that it does not exceed, and an end."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from types import MappingProxyType

from sqlalchemy import Connection, delete, insert, select, update

from memalign_server.people.identity import digest, person_of
from memalign_server.people.roles import Person, Role
from memalign_server.store.columns import later, new_id, now
from memalign_server.store.people_tables import tokens

__all__ = ["PREFIX", "Token", "make_token", "note_token_use", "person_of_token", "revoke_token", "tokens_of"]

PREFIX = "memalign_"
"""What every token begins with, so that scanners of published code know one."""
_NOTE = 300


@dataclass(frozen=True, kw_only=True)
class Token:
    """One token as its person sees it again: never the secret."""

    id: str
    name: str
    role: str
    created_at: str
    expires_at: str | None
    used_at: str | None


def make_token(connection: Connection, user: str, *, name: str, role: Role, days: float | None) -> tuple[Token, str]:
    """A new token and its secret, which is kept nowhere."""
    secret = f"{PREFIX}{secrets.token_urlsafe(32)}"
    ends = None if days is None else later(days * 86400)
    token = Token(id=new_id(), name=name, role=role.word, created_at=now(), expires_at=ends, used_at=None)
    connection.execute(insert(tokens).values(**token.__dict__, user=user, digest=digest(secret)))
    return token, secret


def person_of_token(connection: Connection, secret: str) -> tuple[Person | None, bool]:
    """Who a token stands for, with no more than its role; None when there is none. And whether to note its use."""
    row = connection.execute(select(tokens).where(tokens.c.digest == digest(secret))).first()
    if row is None or (row.expires_at is not None and row.expires_at < now()):
        return None, False
    person = person_of(connection, row.user)
    if person is None:
        return None, False
    most = Role.of(row.role)
    roles = MappingProxyType({team: min(role, most) for team, role in person.roles.items()})
    return replace(person, roles=roles, by="token"), row.used_at is None or row.used_at < later(-_NOTE)


def note_token_use(connection: Connection, secret: str) -> None:
    """A token was used now."""
    connection.execute(update(tokens).where(tokens.c.digest == digest(secret)).values(used_at=now()))


def tokens_of(connection: Connection, user: str) -> list[Token]:
    """Somebody's tokens, the newest first."""
    columns = [tokens.c[name] for name in Token.__dataclass_fields__]
    found = connection.execute(select(*columns).where(tokens.c.user == user).order_by(tokens.c.created_at.desc()))
    return [Token(**row._mapping) for row in found]  # SQLAlchemy's public name for it


def revoke_token(connection: Connection, user: str, token: str) -> bool:
    """Take a token away from programs, at once; whether there was one."""
    gone = connection.execute(delete(tokens).where(tokens.c.id == token, tokens.c.user == user))
    return bool(gone.rowcount)
