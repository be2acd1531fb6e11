"""Tables of work: jobs, answers kept for idempotency keys, webhooks and their deliveries."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, String, Table, Text

from memalign_server.store.columns import JUDGE, TEXT, TEXT_ROW, metadata

__all__ = ["deliveries", "idempotency", "jobs", "webhooks"]

_TIME = String(40)
_ID = String(32)

jobs = Table(
    "memalign_server_jobs",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("judge", String(200), nullable=False, info=JUDGE),
    Column("state", String(16), nullable=False),  # queued, running, done, failed, cancelled
    Column("asked_by", String(200), nullable=False),
    Column("arguments", Text, info=TEXT),  # JSON; NULL once the job has ended
    Column("phase", String(64), nullable=False, default=""),
    Column("done", Integer, nullable=False, default=0),
    Column("total", Integer, nullable=False, default=0),
    Column("result", Text, info=TEXT),  # JSON
    Column("problem", Text, info=TEXT),
    Column("stop", Integer, nullable=False, default=0),  # 1: somebody asked to cancel it
    Column("starts", Integer, nullable=False, default=0),  # how often it was begun
    Column("worker", String(64)),
    Column("beat", Float),  # seconds since 1970: when its worker was last alive
    Column("created_at", _TIME, nullable=False),
    Column("started_at", _TIME),
    Column("ended_at", _TIME),
    Index("memalign_server_jobs_judge", "judge", "created_at"),
    Index("memalign_server_jobs_state", "state", "created_at"),
)

idempotency = Table(
    "memalign_server_idempotency",
    metadata,
    Column("key", String(64), primary_key=True),  # SHA-256 of who asked and the key given
    Column("request", String(64), nullable=False),  # SHA-256 of method, path and body
    Column("status", Integer),  # NULL while the first request is under way
    Column("headers", Text),
    Column("body", Text, info=TEXT_ROW),
    Column("created_at", _TIME, nullable=False),
)

webhooks = Table(
    "memalign_server_webhooks",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("team", _ID, ForeignKey("memalign_server_teams.id"), nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),  # signs what is sent; it cannot be a hash
    Column("events", Text, nullable=False),  # JSON list
    Column("created_at", _TIME, nullable=False),
)

deliveries = Table(
    "memalign_server_deliveries",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("webhook", _ID, ForeignKey("memalign_server_webhooks.id"), nullable=False),
    Column("event", String(32), nullable=False),
    Column("judge", String(200), nullable=False, info=JUDGE),
    Column("body", Text, nullable=False, info=TEXT_ROW),
    Column("state", String(16), nullable=False),  # waiting, delivered, failed
    Column("tries", Integer, nullable=False, default=0),
    Column("next_at", Float, nullable=False),
    Column("answer", Text),  # the last status or error
    Column("created_at", _TIME, nullable=False),
    Index("memalign_server_deliveries_next", "state", "next_at"),
)
