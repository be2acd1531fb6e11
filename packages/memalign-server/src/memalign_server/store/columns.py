"""What the server's tables share: how a column says what an erasure does to it, and how values are kept.

The tables lie in the registry's database, and `registry.erase` must reach every text in them. So a column that may
hold words of people or of judged systems says so by its `info`; a new table needs no code in store/erasing.py. Columns
of words that are no case's own and no answer's may be NULL: they are emptied where they repeat erased words.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, ForeignKey, Integer, MetaData, Text, select, type_coerce
from sqlalchemy.types import TypeDecorator

from memalign.registry import tables

metadata = MetaData()

JUDGE = {"memalign": "judge"}  # whose row it is: rows of other judges stay, and a row goes with its judge
CASE_ID = {"memalign": "case id"}  # the row goes with the case
SOURCE = {"memalign": "source"}  # who spoke of the case; the row goes with their feedback on it
TEXT = {"memalign": "text"}  # words of people or of judged systems: emptied where they repeat erased ones
MODEL_TEXT = {"memalign": "model text"}  # words of a model: emptied where they repeat erased ones, in any row
PERSON = {"memalign": "person"}  # who did something: emptied if all that this person said goes
SEARCHED = {"memalign": "searched"}  # no erasure changes it; the receipt says so if it holds erased words


class JudgeKey(TypeDecorator[str]):
    """A judge: its number in the database, and its name in this package's code.

    A name may be given again after its judge is deleted, and the number never is. A name that no judge has becomes
    NULL: it finds no row, and no row can be written for it.
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
        same = named.c.id == type_coerce(column, Integer())
        return select(named.c.name).where(same).correlate_except(named).scalar_subquery()


def judge_column(*, primary_key: bool = False) -> Column[str]:
    """A column that says of which judge a row is. The row goes when its judge is deleted, whoever deletes it."""
    of_judge = ForeignKey(tables.judges.c.id, ondelete="CASCADE")
    return Column("judge", JudgeKey, of_judge, info=JUDGE, nullable=False, primary_key=primary_key)


def new_id() -> str:
    """A random id of 16 hex digits, unguessable enough for rows and not for secrets."""
    return secrets.token_hex(8)


def now() -> str:
    """The time as the tables keep it: ISO 8601 in UTC with microseconds, so that texts sort as times do."""
    return later(0)


def later(seconds: float) -> str:
    """The time so many seconds from now; before now if negative."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def to_json(value: object) -> str:
    """`value` as the tables keep it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def from_json(text: str | None) -> Any:
    """The value of a column; None for an empty one."""
    return json.loads(text) if text else None
