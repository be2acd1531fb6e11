"""Long work as rows: asked for, running, ended.

The receipts of erasures are kept for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from memalign_server.store.erasing import ERASED
from memalign_server.store.judges import newest_version
from memalign_server.store.rows import Job, JobState
from memalign_server.store.tables import jobs, later, new_id, now

_KEPT = 30 * 86400
"""Seconds that an ended job is kept; the receipt of an erasure is kept for good."""
_MOST = 50  # jobs of one list
_STATE = [column for column in jobs.c if column.name not in ("arguments", "result")]
"""The columns that say how far a job is; a result may be large."""
_ALL = (*_STATE, jobs.c.result)
_UNDONE = jobs.c.state.in_(("queued", "running"))


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a job is to do.

    Attributes:
        kind: What work it is.
        judge: The judge.
        arguments: What it works with; None where an erasure took them.
        problem: Then this says so.
    """

    kind: str
    judge: str
    arguments: Mapping[str, Any] | None
    problem: str | None


_ORDER = select(*(jobs.c[field.name] for field in fields(Order)))


def _jobs(connection: Connection, query: Select[Any]) -> list[Job]:
    """Return the jobs that a query finds, the newest first."""
    newest_first = query.order_by(jobs.c.created_at.desc(), jobs.c.id.desc())
    rows = connection.execute(newest_first)
    return [Job(**row._mapping) for row in rows]  # SQLAlchemy's public name for it


def add_job(
    connection: Connection,
    kind: str,
    judge: str,
    arguments: Mapping[str, Any],
    *,
    asked_by: str,
) -> Job:
    """Keep a job that is asked for; drop those that ended long ago.

    Raises:
        JudgeNotFound: No judge has the name.
    """
    newest_version(connection, judge)
    job = Job(
        id=new_id(),
        kind=kind,
        judge=judge,
        state="queued",
        asked_by=asked_by,
        created_at=now(),
    )
    is_old = jobs.c.ended_at < later(-_KEPT)
    connection.execute(delete(jobs).where(is_old, jobs.c.kind != "erase"))
    row = {column.name: getattr(job, column.name) for column in _ALL}
    row["arguments"] = dict(arguments)
    connection.execute(insert(jobs).values(row))
    return job


def find_job(connection: Connection, job: str) -> Job | None:
    """Return a job by its id."""
    query = select(*_ALL).where(jobs.c.id == job)
    return next(iter(_jobs(connection, query)), None)


def recent_jobs(connection: Connection, judge: str, *, active: bool) -> list[Job]:
    """Return the last jobs of a judge without their results; or only the `active` ones."""
    query = select(*_STATE).where(jobs.c.judge == judge)
    if active:
        query = query.where(_UNDONE)
    return _jobs(connection, query.limit(_MOST))


def receipts_of(connection: Connection, judge: str) -> list[Job]:
    """Return the erasures of a judge that have a receipt; `result` is the receipt."""
    query = select(*_ALL).where(jobs.c.judge == judge, jobs.c.kind == "erase")
    return _jobs(connection, query.where(jobs.c.result.is_not(None)))


def begin_job(connection: Connection, job: str) -> Order | None:
    """Note that a job runs, and return what it is to do; None if its judge was deleted."""
    _change(connection, job, state="running", started_at=now())
    row = connection.execute(_ORDER.where(jobs.c.id == job)).first()
    return None if row is None else Order(**row._mapping)


def end_job(
    connection: Connection,
    job: str,
    state: JobState,
    *,
    result: Any,
    problem: str | None,
) -> None:
    """Write how a job ended.

    What it gave is left out if an erasure emptied it meanwhile: it may repeat what went.
    """
    query = select(jobs.c.kind, jobs.c.problem).where(jobs.c.id == job)
    row = connection.execute(query).first()
    if row is not None and row.problem == ERASED and row.kind != "erase":
        state = "failed"
        problem = ERASED
        result = None
    ending = {"state": state, "problem": problem, "result": result}
    _change(connection, job, **ending, ended_at=now(), arguments=None)


def undone_receipts(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return the receipts of erasures that a server before this one did not end, by the job."""
    query = select(jobs.c.id, jobs.c.result).where(_UNDONE, jobs.c.result.is_not(None))
    return {row.id: row.result for row in connection.execute(query)}


def fail_undone(connection: Connection, problem: str) -> None:
    """Write that the jobs which a server before this one did not end have failed."""
    ending = {"state": "failed", "problem": problem, "ended_at": now()}
    connection.execute(update(jobs).where(_UNDONE).values(**ending, arguments=None))


def change_receipt(
    connection: Connection, job: str, receipt: Mapping[str, Any]
) -> None:
    """Keep a receipt to which something was added."""
    _change(connection, job, result=dict(receipt))


def _change(connection: Connection, job: str, **values: Any) -> None:
    connection.execute(update(jobs).where(jobs.c.id == job).values(**values))
