"""The table of work."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, String, Table, Text

from memalign_server.store.columns import PERSON, TEXT, judge_column, metadata

__all__ = ["jobs"]

_TIME = String(40)
_ID = String(32)

jobs = Table(
    "memalign_server_jobs",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),
    judge_column(),
    Column("state", String(16), nullable=False),  # queued, running, done, failed
    Column("asked_by", String(200), nullable=False, info=PERSON),
    Column("arguments", Text, info=TEXT),  # JSON; NULL once the job has ended by itself
    Column("phase", String(64), nullable=False, default=""),
    Column("done", Integer, nullable=False, default=0),
    Column("total", Integer, nullable=False, default=0),
    Column("result", Text, info=TEXT),  # JSON
    Column("problem", Text, info=TEXT),
    Column("created_at", _TIME, nullable=False),
    Column("started_at", _TIME),
    Column("ended_at", _TIME),
    Index("memalign_server_jobs_judge", "judge", "created_at"),
    Index("memalign_server_jobs_state", "state", "created_at"),
)
