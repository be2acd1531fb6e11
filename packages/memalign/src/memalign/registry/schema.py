"""The registry's tables: judges, their versions, and rows of memory that are valid for a range of versions.

A row of memory is one case's content, one annotation, one guideline, …; it belongs to every version from `since` up to, not
including, `until` (NULL: still). So a version costs as much as it changed, no version is ever rewritten by a later one,
and erasing is deleting rows. See docs/decisions/0003-registry-rows.md.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

__all__ = ["SCHEMA_VERSION", "erasures", "judges", "meta", "metadata", "rows", "versions"]

SCHEMA_VERSION = 2

metadata = MetaData()

meta = Table(
    "memalign_meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""`schema_version`, and `secret`: the random key of the erasure hashes."""

judges = Table(
    "memalign_judges",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("latest", Integer, nullable=False),
    UniqueConstraint("name", name="memalign_judges_name"),
)

versions = Table(
    "memalign_versions",
    metadata,
    Column("judge", Integer, ForeignKey("memalign_judges.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("parent", Integer),
    Column("action", String(32), nullable=False),
    Column("created_at", String(40), nullable=False),
    Column("summary", Text, nullable=False),  # counts and guideline ids only: never a word of feedback, never a key
    Column("note", Text),
    Column("redacted", Boolean, nullable=False, default=False),
    Column("memory_hash", String(64), nullable=False),
    Column("cases", Integer, nullable=False),
    Column("feedback", Integer, nullable=False),
    Column("guidelines", Integer, nullable=False),
    Column("pending", Integer, nullable=False),
)

rows = Table(
    "memalign_rows",
    metadata,
    Column("judge", Integer, ForeignKey("memalign_judges.id"), primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("since", Integer, primary_key=True, autoincrement=False),
    Column("until", Integer),
    Column("body", LargeBinary, nullable=False),  # JSON in UTF-8; a vector is raw float32, little-endian
    Index("memalign_rows_until", "judge", "until"),
)

erasures = Table(
    "memalign_erasures",
    metadata,
    Column("judge", Integer, ForeignKey("memalign_judges.id"), primary_key=True),
    Column("kind", String(16), primary_key=True),  # key, case (its content) or words (what was said of which content)
    Column("digest", String(64), primary_key=True),  # HMAC-SHA256, hex
    Column("erased_at", String(40), nullable=False),
)
