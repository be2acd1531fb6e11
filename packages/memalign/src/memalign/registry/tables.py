"""The registry's tables: judges, their versions, and rows that hold for a range of versions.

A row of memory is one case's content, one annotation, one guideline, …; it belongs to every version
from `since` up to, not including, `until` (NULL: still). So a version costs as much as it changed,
no version is ever rewritten by a later one, and erasing is deleting rows. See
docs/decisions/0003-registry-rows.md.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Integer, LargeBinary, String, Table, Text

SCHEMA_VERSION = 1
"""The first format, and so far the only one."""

metadata = sa.MetaData()

# In the order of its bytes everywhere: a copy is compared row by row, and databases sort words
# differently.
_Text = Text().with_variant(Text(collation="C"), "postgresql")
_Kind = String(16).with_variant(String(16, collation="C"), "postgresql")

meta = Table(
    "memalign_meta",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""`schema_version`, the number of this format."""

judges = Table(
    "memalign_judges",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", _Text, nullable=False),
    Column("latest", Integer, nullable=False),
    # The random key under which what is erased is hashed.
    Column("secret", String(64), nullable=False),
    # An align that began before one keeps no answer after it.
    Column("forgettings", Integer, nullable=False, default=0),
    sa.UniqueConstraint("name", name="memalign_judges_name"),
    sqlite_autoincrement=True,  # a deleted judge's number is never another's
)

versions = Table(
    "memalign_versions",
    metadata,
    Column("judge", Integer, ForeignKey("memalign_judges.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("action", String(32), nullable=False),
    Column("created_at", String(40), nullable=False),
    # Counts and guideline ids only: never a word of feedback, never a key.
    Column("summary", Text, nullable=False),
    Column("note", Text),
    Column("redacted", sa.Boolean, nullable=False, default=False),
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
    Column("kind", _Kind, primary_key=True),
    Column("key", _Text, primary_key=True),
    Column("since", Integer, primary_key=True, autoincrement=False),
    Column("until", Integer),
    # JSON in UTF-8; a vector is raw float32, little-endian.
    Column("body", LargeBinary, nullable=False),
    sa.Index("memalign_rows_until", "judge", "until"),
)

erasures = Table(
    "memalign_erasures",
    metadata,
    Column("judge", Integer, ForeignKey("memalign_judges.id"), primary_key=True),
    Column("kind", String(16), primary_key=True),  # key, or case (its content)
    Column("digest", String(64), primary_key=True),  # HMAC-SHA256, hex
    Column("erased_at", String(40), nullable=False),
)

answers = Table(
    "memalign_answers",
    metadata,
    Column("judge", Integer, ForeignKey("memalign_judges.id"), primary_key=True),
    Column("key", String(64), primary_key=True),  # the hash of a model and a request
    Column("answer", LargeBinary, nullable=False),
)
"""What models answered aligns that are under way or were stopped; see `paid_answers`."""


JUDGE = judges.c
VERSION = versions.c
ROW = rows.c
ERASURE = erasures.c
ANSWER = answers.c
"""The columns of a judge, a version, a row, and so on."""


def our_tables(connection: sa.Connection) -> list[str]:
    """Return the names of memalign's tables in a database, other packages' included."""
    names = sa.inspect(connection).get_table_names()
    return [name for name in names if name.startswith("memalign_")]


def without_statistics(*columns: Column[Any]) -> None:
    """Keep people's words in these columns out of PostgreSQL's statistics.

    These quote frequent values in a table of the server's own, out of which no erasure takes them.
    """
    for column in columns:
        statement = f"ALTER TABLE {column.table.name} ALTER COLUMN {column.name} SET STATISTICS 0"
        off = sa.DDL(statement)  # type: ignore[no-untyped-call]
        sa.event.listen(
            column.table, "after_create", off.execute_if(dialect="postgresql")
        )


without_statistics(ROW.key, ROW.body, VERSION.summary, VERSION.note, ANSWER.answer)
