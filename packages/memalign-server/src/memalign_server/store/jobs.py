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
_JOB = jobs.c
_LARGE = ("arguments", "result")
_STATE = [column for column in _JOB if column.name not in _LARGE]
"""The columns that say how far a job is."""
_ALL = (*_STATE, _JOB.result)
_UNDONE = _JOB.state.in_(("queued", "running"))
_HAS_RECEIPT = _JOB.result.is_not(None)


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


_ORDERED = [_JOB[field.name] for field in fields(Order)]


def _jobs(connection: Connection, query: Select[Any]) -> list[Job]:
    """Return the jobs that a query finds, the newest first."""
    newest_first = (_JOB.created_at.desc(), _JOB.id.desc())
    rows = connection.execute(query.order_by(*newest_first))
    return [Job(**row) for row in rows.mappings()]


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
    is_old = _JOB.ended_at < later(-_KEPT)
    has_no_receipt = _JOB.kind != "erase"
    connection.execute(delete(jobs).where(is_old, has_no_receipt))
    row: dict[str, Any] = {"arguments": dict(arguments)}
    for column in _ALL:
        row[column.name] = getattr(job, column.name)
    connection.execute(insert(jobs).values(row))
    return job


def find_job(connection: Connection, job: str) -> Job | None:
    """Return a job by its id."""
    query = select(*_ALL).where(_JOB.id == job)
    return next(iter(_jobs(connection, query)), None)


def recent_jobs(connection: Connection, judge: str, *, active: bool) -> list[Job]:
    """Return the last jobs of a judge without their results; or only the `active` ones."""
    query = select(*_STATE).where(_JOB.judge == judge)
    if active:
        query = query.where(_UNDONE)
    return _jobs(connection, query.limit(_MOST))


def receipts_of(connection: Connection, judge: str) -> list[Job]:
    """Return the erasures of a judge that have a receipt; `result` is the receipt."""
    query = select(*_ALL).where(_JOB.judge == judge, _JOB.kind == "erase", _HAS_RECEIPT)
    return _jobs(connection, query)


def begin_job(connection: Connection, job: str) -> Order | None:
    """Note that a job runs, and return what it is to do; None if its judge was deleted."""
    _change(connection, job, state="running", started_at=now())
    query = select(*_ORDERED).where(_JOB.id == job)
    row = connection.execute(query).mappings().first()
    return None if row is None else Order(**row)


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
    emptied = select(_JOB.id).where(
        _JOB.id == job, _JOB.problem == ERASED, _JOB.kind != "erase"
    )
    if connection.execute(emptied).first() is not None:
        state = "failed"
        problem = ERASED
        result = None
    _change(
        connection,
        job,
        state=state,
        problem=problem,
        result=result,
        ended_at=now(),
        arguments=None,
    )


def undone_receipts(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return the receipts of erasures that a server before this one did not end, by the job."""
    query = select(_JOB.id, _JOB.result).where(_UNDONE, _HAS_RECEIPT)
    rows = connection.execute(query)
    return {row.id: row.result for row in rows}


def fail_undone(connection: Connection, problem: str) -> None:
    """Write that the jobs which a server before this one did not end have failed."""
    failed = (
        update(jobs)
        .where(_UNDONE)
        .values(state="failed", problem=problem, ended_at=now(), arguments=None)
    )
    connection.execute(failed)


def change_receipt(
    connection: Connection, job: str, receipt: Mapping[str, Any]
) -> None:
    """Keep a receipt to which something was added."""
    _change(connection, job, result=dict(receipt))


def _change(connection: Connection, job: str, **values: Any) -> None:
    own = update(jobs).where(_JOB.id == job)
    connection.execute(own.values(values))
