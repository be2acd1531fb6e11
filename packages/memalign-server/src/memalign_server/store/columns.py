"""The server's own tables: one description of them all, and how a column says what an erasure does to it.

The tables lie in the registry's database. `registry.erase` must reach every text in them. A column that may hold
words of people or of judged systems says so by its `info`:

    Column("example", Text, info=TEXT)        # holds such words: what repeats erased ones is blanked
    Column("judgment", Text, info=TEXT_ROW)   # the same, and without them the row is worth nothing: it goes
    Column("case_id", Text, info=CASE_ID)     # the id of a case; the row goes with the case, or with its key
    Column("source", Text, info=SOURCE)       # who spoke of the case; beside a CASE_ID it makes a feedback's key
    Column("judgment", Text, info=MODEL_TEXT) # a model wrote it: blanked where it repeats erased words, whoever's row it is
    Column("judge", Text, info=JUDGE)         # the judge's name; rows of other judges stay

A column that may be empty is emptied where it is blanked, another one says "(erased)".

store/erasing.py reads nothing else, so a new table needs no code there.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import MetaData

__all__ = [
    "CASE_ID",
    "JUDGE",
    "MODEL_TEXT",
    "SOURCE",
    "TEXT",
    "TEXT_ROW",
    "from_json",
    "later",
    "metadata",
    "new_id",
    "now",
    "to_json",
]

metadata = MetaData()

TEXT = {"memalign": "text"}
TEXT_ROW = {"memalign": "text row"}
MODEL_TEXT = {"memalign": "model text"}
CASE_ID = {"memalign": "case id"}
SOURCE = {"memalign": "source"}
JUDGE = {"memalign": "judge"}


def new_id() -> str:
    """A random id of 16 hex digits, unguessable enough for rows and not for secrets."""
    return secrets.token_hex(8)


def now() -> str:
    """The time as the tables keep it: ISO 8601 in UTC with microseconds, so that texts sort as times do."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def later(seconds: float) -> str:
    """The time so many seconds from now; before now when negative."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def to_json(value: object) -> str:
    """`value` as the tables keep it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str | None) -> Any:
    """The value of a column; None for an empty one."""
    return None if text is None or text == "" else json.loads(text)
