"""Tables of review: the queue of cases, what people said of them, and what an align then changed."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, Integer, String, Table, Text, UniqueConstraint

from memalign_server.store.columns import (
    CASE_ID,
    MODEL_ROW,
    MODEL_TEXT,
    SOURCE,
    TEXT,
    TEXT_ROW,
    judge_column,
    metadata,
)

__all__ = ["drafts", "queue", "reviews", "turns"]

_TIME = String(40)

queue = Table(
    "memalign_server_queue",
    metadata,
    Column("number", Integer, primary_key=True),
    judge_column(),
    Column("case_id", String(500), nullable=False, info=CASE_ID),
    Column("content_hash", String(64), nullable=False),
    Column("example", Text, nullable=False, info=TEXT_ROW),  # JSON
    Column("judgment", Text, info=MODEL_TEXT),  # JSON; NULL until it is judged, and where it failed
    Column("problem", Text, info=MODEL_TEXT),  # why it could not be judged
    Column("version", Integer),  # of the judge that made the judgment
    Column("seen", Integer, nullable=False, default=0),  # 1: its memory held the case, under this id or another
    Column("verdict", String(200), info=MODEL_TEXT),  # its value as files write it, for counts; cut where it is long
    Column("disputed", Integer, nullable=False, default=0),  # 1: people answered it differently; it comes first
    Column("rank", Float, nullable=False),  # how useful an answer is: the highest first
    Column("reasons", Text, nullable=False),  # JSON list of codes; see review/usefulness.py
    Column("added_at", _TIME, nullable=False),
    UniqueConstraint("judge", "case_id", name="memalign_server_queue_case"),
    Index("memalign_server_queue_content", "judge", "content_hash"),
    Index("memalign_server_queue_version", "judge", "version"),
)
# In the order in which cases are asked, so that the next one is the first that is found.
Index("memalign_server_queue_next", queue.c.judge, queue.c.disputed.desc(), queue.c.rank.desc(), queue.c.number)
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
    Column("person", String(200), primary_key=True, info=SOURCE),
    Column("state", String(16), nullable=False),  # answered, skipped, unclear
    Column("value", Text, info=TEXT),  # JSON
    Column("rationale", Text, info=TEXT),
    Column("blind_value", Text, info=TEXT),  # JSON: the first answer, given before the judge's was shown
    Column("judge_value", Text, info=MODEL_TEXT),  # JSON: what the judge said then
    Column("judge_version", Integer),  # and which version it was
    Column("revision", Integer, nullable=False),  # counts the answers, from 1
    Column("form", String(64), nullable=False),  # the form that gave the last one: the same form saves once
    Column("taught", Integer, nullable=False, default=0),  # the revision that the judge was taught; 0 for none
    Column("created_at", _TIME, nullable=False),
    Column("updated_at", _TIME, nullable=False),
    Index("memalign_server_reviews_person", "judge", "person", "state"),
    Index("memalign_server_reviews_taught", "judge", "state", "taught", "revision"),
    Index("memalign_server_reviews_version", "judge", "judge_version"),
)

drafts = Table(
    "memalign_server_drafts",
    metadata,
    judge_column(primary_key=True),
    Column("case_id", String(500), primary_key=True, info=CASE_ID),
    Column("person", String(200), primary_key=True, info=SOURCE),
    Column("words", Text, info=TEXT),  # NULL where nothing waits: the answer holds them
    Column("revision", Integer, nullable=False),  # counts the changes, from 1
    Column("updated_at", _TIME, nullable=False),
)
"""What people have typed and not yet said with an answer: shown to nobody else, and never taught."""

turns = Table(
    "memalign_server_turns",
    metadata,
    judge_column(primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("case_id", String(500), primary_key=True, info=CASE_ID),
    Column("before", Text, nullable=False, info=MODEL_ROW),  # JSON
    Column("after", Text, nullable=False, info=MODEL_ROW),  # JSON
    Column("label", Text, info=MODEL_TEXT),  # JSON: what people say, NULL for nothing
    Column("effect", String(16), nullable=False),  # fixed, broken, moved, turned (nobody labelled it)
    Column("guidelines", Text, nullable=False),  # JSON list of ids
)
