"""Tables of people: users, teams, memberships, sessions, tokens, invitations, what was tried."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, String, Table, Text

from memalign_server.store.columns import SEARCHED, judge_column, metadata

__all__ = [
    "attempts",
    "invitations",
    "memberships",
    "server_settings",
    "sessions",
    "team_judges",
    "teams",
    "tokens",
    "users",
]

_TIME = String(40)
_ID = String(32)

server_settings = Table(
    "memalign_server_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""`schema_version`, and `secret`: the random key of signed tokens."""

users = Table(
    "memalign_server_users",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(200), nullable=False, info=SEARCHED),  # also the source of this person's feedback
    Column(
        "name_key", Text, nullable=False, unique=True, info=SEARCHED
    ),  # the name as it is compared; see accounts.name_key
    Column("password", Text),  # an argon2 hash; NULL where only OpenID Connect signs in
    Column("issuer", Text),
    Column("subject", Text),
    Column("created_at", _TIME, nullable=False),
    Column("disabled_at", _TIME),
    Index("memalign_server_users_openid", "issuer", "subject", unique=True),
)

teams = Table(
    "memalign_server_teams",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(200), nullable=False, unique=True, info=SEARCHED),
    Column("created_at", _TIME, nullable=False),
)

memberships = Table(
    "memalign_server_memberships",
    metadata,
    Column("user", _ID, ForeignKey("memalign_server_users.id"), primary_key=True),
    Column("team", _ID, ForeignKey("memalign_server_teams.id"), primary_key=True),
    Column("role", String(16), nullable=False),
)

team_judges = Table(
    "memalign_server_team_judges",
    metadata,
    judge_column(primary_key=True),
    Column("team", _ID, ForeignKey("memalign_server_teams.id"), nullable=False),
)
"""Whose a judge is. One that is not here was made on the command line, and is the first team's."""

sessions = Table(
    "memalign_server_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),  # SHA-256 of what the cookie holds
    Column("user", _ID, ForeignKey("memalign_server_users.id"), nullable=False),
    Column("created_at", _TIME, nullable=False),
    Column("seen_at", _TIME, nullable=False),
    Column("expires_at", _TIME, nullable=False),
    Index("memalign_server_sessions_user", "user"),
)

tokens = Table(
    "memalign_server_tokens",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("user", _ID, ForeignKey("memalign_server_users.id"), nullable=False),
    Column("name", String(200), nullable=False, info=SEARCHED),
    Column("digest", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),  # it can do no more than this, whatever its person may
    Column("created_at", _TIME, nullable=False),
    Column("expires_at", _TIME),
    Column("used_at", _TIME),
)

invitations = Table(
    "memalign_server_invitations",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("team", _ID, ForeignKey("memalign_server_teams.id"), nullable=False),
    Column("role", String(16), nullable=False),
    Column("invited_by", _ID, ForeignKey("memalign_server_users.id")),
    Column("created_at", _TIME, nullable=False),
    Column("expires_at", _TIME, nullable=False),
    Column("accepted_at", _TIME),
    Column("accepted_by", _ID, ForeignKey("memalign_server_users.id")),
)

attempts = Table(
    "memalign_server_attempts",
    metadata,
    Column("key", String(64), primary_key=True),  # a hash of the name or the address that signs in
    Column("failures", Integer, nullable=False),
    Column("since", Float, nullable=False),  # seconds since 1970
)
