"""The server's tables in the registry's database: people, the queue of cases, answers, long work.

A column that may hold words of people or of judged systems says so by its `info`, so that an
erasure reaches it.
"""

from __future__ import annotations

import json
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    select,
    type_coerce,
)
from sqlalchemy.types import TypeDecorator

from memalign.content import rebuilt
from memalign.registry import judges_table
from memalign.types import Example, Judgment

metadata = MetaData()

TEXT = {"memalign": "field"}  # words of people or of judged systems
PASSING = {
    "memalign": "sentence"
}  # words of models and notes, which may repeat others in passing
NAME = {"memalign": "name"}
CASE_ID = {"memalign": "id"}


class JudgeKey(TypeDecorator[str]):
    """A judge: its number in the database, and its name in this package's code.

    A name may be given again after its judge is deleted, and the number never is. A name that no
    judge has becomes NULL: it finds no row, and no row can be written for it.
    """

    impl = Integer
    cache_ok = True

    def bind_expression(self, bindvalue: Any) -> Any:
        """Return the number of the judge that has the name now."""
        named = judges_table.alias()
        return (
            select(named.c.id)
            .where(named.c.name == type_coerce(bindvalue, Text()))
            .scalar_subquery()
        )

    def column_expression(self, column: Any) -> Any:
        """Return the name of the judge that has the number."""
        named = judges_table.alias()
        same = named.c.id == type_coerce(column, Integer())
        return (
            select(named.c.name).where(same).correlate_except(named).scalar_subquery()
        )


class Json(TypeDecorator[Any]):
    """A JSON value, kept as text."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: object) -> str | None:
        """Return the value as it is kept."""
        return None if value is None else to_json(value)

    def process_result_value(self, value: str | None, dialect: object) -> Any:
        """Return the value as it is used."""
        return from_json(value)


class Flag(TypeDecorator[bool]):
    """Yes or no, kept as 1 or 0, which every database counts and sorts alike."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: object) -> int | None:
        """Return the value as it is kept."""
        return None if value is None else int(value)

    def process_result_value(self, value: int | None, dialect: object) -> bool | None:
        """Return the value as it is used."""
        return None if value is None else bool(value)


class Struct(Json):
    """A case or a judgment, kept as JSON."""

    cache_ok = True

    def __init__(self, struct: type[Example | Judgment]) -> None:
        super().__init__()
        self.struct = struct

    def process_bind_param(self, value: Any, dialect: object) -> str | None:
        """Return the value as it is kept."""
        return None if value is None else to_json(value.to_dict())

    def process_result_value(self, value: str | None, dialect: object) -> Any:
        """Return the value as it is used."""
        return None if value is None else self.struct.from_dict(from_json(value))


def judge_column(*, primary_key: bool = False) -> Column[str]:
    """Return a column that says of which judge a row is.

    The row goes when its judge is deleted, by whatever program.
    """
    of_judge = ForeignKey(judges_table.c.id, ondelete="CASCADE")
    return Column("judge", JudgeKey, of_judge, nullable=False, primary_key=primary_key)


def new_id() -> str:
    """Return a random id of 16 hex digits, unguessable enough for rows and not for secrets."""
    return secrets.token_hex(8)


def now() -> str:
    """Return the time as the tables keep it.

    That is ISO 8601 in UTC with microseconds, so that texts sort as times do.
    """
    return later(0)


def later(seconds: float) -> str:
    """Return the time this many seconds from now; before now if negative."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(
        timespec="microseconds"
    )


def to_json(value: object) -> str:
    """Return a value as the tables keep it."""
    return whole(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def whole(text: str) -> str:
    """Return a text that UTF-8 and every database can hold.

    Half a surrogate pair and the character 0 become U+FFFD, and two halves that stand together the
    character that they are halves of.
    """
    if text.isascii() and "\0" not in text:
        return text
    return (
        text.replace("\0", "\ufffd")
        .encode("utf-16-le", "surrogatepass")
        .decode("utf-16-le", "replace")
    )


def whole_value(value: Any) -> Any:
    """Return a JSON value in which every text and name of a field is whole."""
    return rebuilt(value, whole)


def from_json(text: str | None) -> Any:
    """Return the value of a column; None for an empty one."""
    return json.loads(text) if text else None


_TIME = String(40)
_ID = String(32)
_DIGEST = String(64)  # SHA-256 of a random secret that is kept nowhere

server_settings = Table(
    "memalign_server_settings",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""`secret`, the random key of signed cookies and receipts."""

people = Table(
    "memalign_server_people",
    metadata,
    Column("id", _ID, primary_key=True),
    # Also the source of this person's feedback.
    Column("name", String(200), nullable=False, info=NAME),
    # The name as it is compared.
    Column("name_key", Text, nullable=False, unique=True, info=NAME),
    # Owner, reviewer.
    Column("role", String(16), nullable=False),
    # Of the personal link that waits to be used; NULL for none.
    Column("link", _DIGEST, unique=True),
    Column("link_until", _TIME),
    # Who an OpenID provider says they are; NULL for a person of links.
    Column("subject", Text, unique=True, info=PASSING),
    Column("created_at", _TIME, nullable=False),
)

sessions = Table(
    "memalign_server_sessions",
    metadata,
    Column("digest", _DIGEST, primary_key=True),
    Column(
        "person",
        _ID,
        ForeignKey("memalign_server_people.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("expires_at", _TIME, nullable=False),
    Index("memalign_server_sessions_person", "person"),
)

queue = Table(
    "memalign_server_queue",
    metadata,
    Column("number", Integer, primary_key=True),
    judge_column(),
    Column("case_id", String(500), nullable=False, info=CASE_ID),
    Column("content_hash", String(64), nullable=False),
    # Of the judge that made the judgment.
    Column("version", Integer),
    # 1: its memory held the case, under this id or another.
    Column("seen", Flag, nullable=False, default=False),
    # Its value as files write it, for counts; cut where it is long.
    Column("verdict", String(200), info=PASSING),
    # 1: drawn by chance to measure the judge; never taught.
    Column("held_out", Flag, nullable=False, default=False),
    # What the judge said of it while its memory was empty.
    Column("first_value", Json, info=PASSING),
    # And which version that was.
    Column("first_version", Integer),
    # 1: people answered it differently, nothing is settled.
    Column("disputed", Flag, nullable=False, default=False),
    # Whose answer holds; "" for nobody's; NULL where nothing is settled.
    Column("settled", String(200), info=NAME),
    # And who chose that.
    Column("settled_by", String(200), info=NAME),
    # How useful an answer is: the highest first.
    Column("rank", Float, nullable=False),
    # People who have answered it as it is now: counted here, not at every look.
    Column("answers", Integer, nullable=False, default=0),
    Column("added_at", _TIME, nullable=False),
    # The file or experiment; NULL for neither.
    Column("origin", Text, info=PASSING),
    # The long ones last: a row is read from its beginning, as far as the column that is asked for.
    Column("example", Struct(Example), nullable=False, info=TEXT),
    # NULL until it is judged, and where it failed.
    Column("judgment", Struct(Judgment), info=PASSING),
    # Why it could not be judged.
    Column("problem", Text, info=PASSING),
    UniqueConstraint("judge", "case_id", name="memalign_server_queue_case"),
    Index("memalign_server_queue_content", "judge", "content_hash"),
    Index("memalign_server_queue_version", "judge", "version"),
)
# In the order in which cases are asked, so that the next of either kind is the first one found.
Index(
    "memalign_server_queue_next",
    *(
        queue.c.judge,
        queue.c.held_out,
        queue.c.disputed.desc(),
        queue.c.rank.desc(),
        queue.c.number,
        queue.c.answers,  # so that those that have all they want are passed over unread
    ),
)
# Without it the few that wait are found by reading every judgment. It holds the NULLs alone.
_waiting = queue.c.judgment.is_(None)
Index(
    "memalign_server_queue_waiting",
    *(queue.c.judge, queue.c.judgment, queue.c.number),
    sqlite_where=_waiting,
    postgresql_where=_waiting,
)

reviews = Table(
    "memalign_server_reviews",
    metadata,
    judge_column(primary_key=True),
    Column("case_id", String(500), primary_key=True, info=CASE_ID),
    Column("person", String(200), primary_key=True, info=NAME),
    Column("content_hash", String(64), primary_key=True),
    # 1: the queue has other content under this id, for which this does not count.
    Column("apart", Flag, nullable=False, default=False),
    # Answered, skipped, unclear.
    Column("state", String(16), nullable=False),
    # Their verdict now; NULL for words alone.
    Column("value", Json, info=TEXT),
    Column("rationale", Text, info=TEXT),
    # The first answer, given before the judge's was shown.
    Column("blind_value", Json, info=TEXT),
    # What the judge said then.
    Column("judge_value", Json, info=PASSING),
    # And which version it was.
    Column("judge_version", Integer),
    # Counts the answers, from 1.
    Column("revision", Integer, nullable=False),
    # What is typed and not yet said: shown to nobody else, and never taught.
    Column("draft", Text, info=TEXT),
    # Counts its changes.
    Column("draft_revision", Integer, nullable=False, default=0),
    # The revision of the answer over which it was typed.
    Column("draft_of", Integer, nullable=False, default=0),
    # The revision that gave the verdict of now.
    Column("value_since", Integer, nullable=False, default=0),
    # Who put these words out of force; NULL where they are in force.
    Column("overruled_by", String(200), info=NAME),
    # And whose hold instead; "" for nobody's.
    Column("overruled_for", String(200), info=NAME),
    # The form that gave the last one: the same form saves once.
    Column("form", String(64), nullable=False),
    # The revision that the judge was taught; 0 for none.
    Column("taught", Integer, nullable=False, default=0),
    # The revision that they kept against a colleague's.
    Column("kept_revision", Integer, nullable=False, default=0),
    # When the person came to the case, last time without an answer.
    Column("created_at", _TIME, nullable=False),
    Column("updated_at", _TIME, nullable=False),
    Index("memalign_server_reviews_person", "judge", "person", "state"),
    Index("memalign_server_reviews_order", "judge", "person", "created_at"),
    Index("memalign_server_reviews_latest", "judge", "created_at"),
    Index("memalign_server_reviews_version", "judge", "judge_version"),
)

# It holds only what is not taught yet: a longer one would look good for every query on answers.
_untaught = reviews.c.taught != reviews.c.revision
Index(
    "memalign_server_reviews_untaught",
    *(reviews.c.judge, reviews.c.person),
    sqlite_where=_untaught,
    postgresql_where=_untaught,
)

# By it the answers on one case are counted without a look at their rows.
Index(
    "memalign_server_reviews_case",
    *(reviews.c.judge, reviews.c.case_id, reviews.c.state, reviews.c.apart),
)

judge_settings = Table(
    "memalign_server_judges",
    metadata,
    judge_column(primary_key=True),
    # Of different people on each case: 1, 2 or 3.
    Column("answers_wanted", Integer, nullable=False),
)

jobs = Table(
    "memalign_server_jobs",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),
    judge_column(),
    # Queued, running, done, failed.
    Column("state", String(16), nullable=False),
    Column("asked_by", String(200), nullable=False, info=NAME),
    # NULL once the job has ended, or an erasure took them.
    Column("arguments", Json, info=PASSING),
    Column("result", Json, info=PASSING),
    Column("problem", Text, info=PASSING),
    Column("created_at", _TIME, nullable=False),
    Column("started_at", _TIME),
    Column("ended_at", _TIME),
    Index("memalign_server_jobs_judge", "judge", "created_at"),
    Index("memalign_server_jobs_state", "state", "created_at"),
)
