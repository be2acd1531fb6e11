"""Long work as rows: asked for, running, ended; and the receipts of erasures, which are kept for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from memalign.errors import JudgeNotFound
from memalign.registry import judges_table as judges
from memalign_server.store.erasing import ERASED
from memalign_server.store.rows import Job, JobState
from memalign_server.store.tables import jobs, later, new_id, now

_KEPT = (
    30 * 86400
)  # seconds that an ended job is kept; the receipt of an erasure is kept for good
_MOST = 50  # jobs of one list
_COLUMNS = [column for column in jobs.c if column.name not in ("arguments", "result")]
_UNDONE = jobs.c.state.in_(("queued", "running"))
_NEWEST_FIRST = (jobs.c.created_at.desc(), jobs.c.id.desc())


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a job is to do; `arguments` are None where an erasure took them, and `problem` says so."""

    kind: str
    judge: str
    arguments: Mapping[str, Any] | None
    problem: str | None


def _jobs(connection: Connection, query: Select[Any]) -> list[Job]:
    rows = connection.execute(query.order_by(*_NEWEST_FIRST))
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
    if (
        connection.execute(select(judges.c.id).where(judges.c.name == judge)).first()
        is None
    ):
        raise JudgeNotFound(f"no judge {judge!r} in the registry")
    job = Job(
        id=new_id(),
        kind=kind,
        judge=judge,
        state="queued",
        asked_by=asked_by,
        created_at=now(),
    )
    row = {
        column.name: getattr(job, column.name) for column in (*_COLUMNS, jobs.c.result)
    }
    connection.execute(
        delete(jobs).where(jobs.c.ended_at < later(-_KEPT), jobs.c.kind != "erase")
    )
    connection.execute(insert(jobs).values(**row, arguments=dict(arguments)))
    return job


def find_job(connection: Connection, job: str, *, result: bool = True) -> Job | None:
    """Return a job by its id; without its `result`, which may be large, to see how far it is."""
    columns: list[Any] = [*_COLUMNS, jobs.c.result] if result else [*_COLUMNS]
    return next(iter(_jobs(connection, select(*columns).where(jobs.c.id == job))), None)


def recent_jobs(connection: Connection, judge: str, *, active: bool) -> list[Job]:
    """Return the last jobs of a judge without their results, the newest first; or only the `active` ones."""
    query = select(*_COLUMNS).where(jobs.c.judge == judge)
    if active:
        query = query.where(_UNDONE)
    return _jobs(connection, query.limit(_MOST))


def receipts_of(connection: Connection, judge: str) -> list[Job]:
    """Return the erasures of a judge that have a receipt, the newest first; `result` is the receipt."""
    erased = (jobs.c.judge == judge, jobs.c.kind == "erase", jobs.c.result.is_not(None))
    columns: list[Any] = [*_COLUMNS, jobs.c.result]
    return _jobs(connection, select(*columns).where(*erased))


def begin_job(connection: Connection, job: str) -> Order | None:
    """Note that a job runs, and return what it is to do; None if its judge was deleted."""
    same = jobs.c.id == job
    connection.execute(
        update(jobs).where(same).values(state="running", started_at=now())
    )
    query = select(jobs.c.kind, jobs.c.judge, jobs.c.arguments, jobs.c.problem).where(
        same
    )
    row = connection.execute(query).first()
    return None if row is None else Order(**row._mapping)


def end_job(
    connection: Connection,
    job: str,
    state: JobState,
    *,
    result: Any,
    problem: str | None,
) -> None:
    """Write how a job ended; without what it gave if an erasure emptied it meanwhile: that may repeat what went."""
    same = jobs.c.id == job
    row = connection.execute(select(jobs.c.kind, jobs.c.problem).where(same)).first()
    if row is not None and row.problem == ERASED and row.kind != "erase":
        state, problem, result = "failed", ERASED, None
    ending = {"state": state, "ended_at": now(), "problem": problem, "result": result}
    connection.execute(update(jobs).where(same).values(**ending, arguments=None))


def undone_receipts(connection: Connection) -> dict[str, dict[str, Any]]:
    """Return the receipts of erasures that a server before this one did not end, by the job."""
    query = select(jobs.c.id, jobs.c.result).where(_UNDONE, jobs.c.result.is_not(None))
    return {row.id: row.result for row in connection.execute(query)}


def fail_undone(connection: Connection, problem: str) -> None:
    """Write that the jobs which a server before this one did not end have failed."""
    ending = {
        "state": "failed",
        "problem": problem,
        "ended_at": now(),
        "arguments": None,
    }
    connection.execute(update(jobs).where(_UNDONE).values(ending))


def change_receipt(
    connection: Connection, job: str, receipt: Mapping[str, Any]
) -> None:
    """Keep a receipt to which something was added."""
    connection.execute(
        update(jobs).where(jobs.c.id == job).values(result=dict(receipt))
    )
