"""Tables of people: who may come in, what they are known by, and the server's own settings."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, String, Table, Text

from memalign_server.store.columns import SEARCHED, metadata

__all__ = ["people", "server_settings", "sessions"]

_TIME = String(40)
_ID = String(32)
_DIGEST = String(64)  # SHA-256 of a random secret that is kept nowhere

server_settings = Table(
    "memalign_server_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""`schema_version`; `secret`, the random key of signed cookies; `api_token`, the hash of the token that an owner made."""

people = Table(
    "memalign_server_people",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(200), nullable=False, info=SEARCHED),  # also the source of this person's feedback
    Column("name_key", Text, nullable=False, unique=True, info=SEARCHED),  # the name as it is compared
    Column("role", String(16), nullable=False),  # owner, reviewer
    Column("link", _DIGEST, unique=True),  # of the personal link that waits to be used; NULL for none
    Column("link_until", _TIME),
    Column("issuer", Text),  # these three only of somebody whom an OpenID provider vouches for
    Column("subject", Text),
    Column("email", Text, info=SEARCHED),
    Column("created_at", _TIME, nullable=False),
    Index("memalign_server_people_openid", "issuer", "subject", unique=True),
)

sessions = Table(
    "memalign_server_sessions",
    metadata,
    Column("digest", _DIGEST, primary_key=True),
    Column("person", _ID, ForeignKey("memalign_server_people.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", _TIME, nullable=False),
    Index("memalign_server_sessions_person", "person"),
)
