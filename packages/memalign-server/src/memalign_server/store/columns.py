"""The server's own tables: one description of them all, and how a column says what an erasure does to it.

The tables lie in the registry's database. `registry.erase` must reach every text in them. A column that may hold
words of people or of judged systems says so by its `info`:

    Column("example", Text, info=TEXT)        # holds such words: what repeats erased ones is blanked
    Column("judgment", Text, info=TEXT_ROW)   # the same, and without them the row is worth nothing: it goes
    Column("case_id", Text, info=CASE_ID)     # the id of a case; the row goes with the case, or with its key
    Column("source", Text, info=SOURCE)       # who spoke of the case; beside a CASE_ID it makes a feedback's key
    Column("judgment", Text, info=MODEL_TEXT) # a model wrote it: blanked where it repeats erased words, whoever's row it is
    Column("before", Text, info=MODEL_ROW)    # the same, and without it the row is worth nothing: it goes
    Column("asked_by", Text, info=PERSON)     # who did something: blanked where all that this person said goes
    Column("name", Text, info=SEARCHED)       # no erasure changes it; where it holds erased words, the receipt says so
    judge_column()                            # whose row it is; rows of other judges stay, and it goes with its judge

A column that may be empty is emptied where it is blanked, another one says "(erased)".

store/erasing.py reads nothing else, so a new table needs no code there.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, MetaData, Text, select, type_coerce
from sqlalchemy.types import TypeDecorator

from memalign.registry import tables

__all__ = [
    "CASE_ID",
    "JUDGE",
    "MODEL_ROW",
    "MODEL_TEXT",
    "PERSON",
    "SEARCHED",
    "SOURCE",
    "TEXT",
    "TEXT_ROW",
    "JudgeKey",
    "from_json",
    "judge_column",
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
MODEL_ROW = {"memalign": "model text row"}
PERSON = {"memalign": "person"}
SEARCHED = {"memalign": "searched"}
JUDGE = {"memalign": "judge"}


class JudgeKey(TypeDecorator[str]):
    """A judge: its number in the database, and its name in this package's code.

    A name may be given again after its judge is deleted, and the number never is. A name that no judge has becomes NULL:
    it finds no row, and no row can be written for it.
    """

    impl = Integer
    cache_ok = True

    def bind_expression(self, bindvalue: Any) -> Any:
        """The number of the judge that has the name now."""
        named = tables.judges.alias()
        return select(named.c.id).where(named.c.name == type_coerce(bindvalue, Text())).scalar_subquery()

    def column_expression(self, column: Any) -> Any:
        """The name of the judge that has the number."""
        named = tables.judges.alias()
        return (
            select(named.c.name)
            .where(named.c.id == type_coerce(column, Integer()))
            .correlate_except(named)
            .scalar_subquery()
        )


def judge_column(**options: Any) -> Column[str]:
    """A column that says of which judge a row is. The row goes when its judge is deleted, whoever deletes it."""
    of_judge = ForeignKey(tables.judges.c.id, ondelete="CASCADE")
    return Column("judge", JudgeKey, of_judge, info=JUDGE, **{"nullable": False, **options})


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
