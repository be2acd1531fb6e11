"""Long work: each job is a row that whoever waits reads again, done on a thread with an event loop of its own.

Learning computes for seconds between model calls, and the registry's calls wait for a disk. On the loop that answers
requests, everybody would wait with them. One process works on a database: a job that it left undone when it died says
so at the next start and keeps its arguments, so that it can be started again. Model answers that were paid for are not
paid for again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from memalign.errors import JudgeNotFound, MemalignError, RegistryError
from memalign.registry import Registry
from memalign.registry.tables import judges
from memalign_server.problems import Refused
from memalign_server.store import Store
from memalign_server.store.tables import from_json, later, new_id, now, to_json
from memalign_server.store.tables import jobs as table
from memalign_server.work.kinds import KINDS, Kind, Work

_STOPPED: Final = "the server was stopped while this ran; start it again, nothing that was paid for is paid for twice"
_RESTARTED: Final = "the server was stopped while this ran; it was started again"
_UNSEARCHED: Final = (
    "the server was stopped after this was erased and before what is left was searched; the file was compacted since. "
    "Erase the same again: it says what is left. What waits to be derived again is learned at the next align"
)
_AT_ONCE = 2  # jobs
_KEPT = 30 * 86400  # seconds that an ended job is kept; the receipt of an erasure is kept for good
_CHECK = 5.0  # seconds between looks whether a job is still wanted
_PAUSE = 10.0  # seconds before another try to write into a locked database
_log = logging.getLogger("memalign_server")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Long work: how far it is, and what it gave.

    `done` of `total` steps of `phase` are finished. A `stopped` job failed because its server died: ask for the same
    again. Reviewers see of a `result` only what gives away no verdict or answer on a case that may wait for them.
    """

    id: str
    kind: str
    judge: str
    state: Literal["queued", "running", "done", "failed"]
    asked_by: str
    phase: str = ""
    done: int = 0
    total: int = 0
    problem: str | None = None
    created_at: str
    started_at: str | None = None
    ended_at: str | None = None
    stopped: bool = False
    result: Any = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ("done", "failed")


_BEGUN = func.coalesce(table.c.started_at, table.c.created_at).label("begun")
_STARTABLE = (table.c.state == "failed") & table.c.arguments.is_not(None)
_COLUMNS = [
    *(column for column in table.c if column.name not in ("arguments", "result")),
    _STARTABLE.label("stopped"),
]


class Jobs:
    """All jobs of a database. Safe for several threads."""

    def __init__(self, store: Store, registry: Registry, *, kinds: Mapping[str, Kind] = KINDS) -> None:
        self.store, self._registry, self._kinds = store, registry, kinds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress: dict[str, tuple[str, int, int]] = {}  # of running jobs: phase, done, total

    def start(self, kind: str, judge: str, arguments: Mapping[str, Any], *, asked_by: str) -> Job:
        """Ask for work of a kind on a judge, with arguments as JSON values; it begins as soon as it may.

        Raises JudgeNotFound if no judge has the name.
        """
        with self.store.write() as connection:
            job = _add(connection, kind, judge, to_json(dict(arguments)), asked_by)
        return self._begin(job)

    def start_again(self, job: Job, *, asked_by: str) -> Job:
        """Start work again whose server died, as a new job with the arguments of the old one.

        Raises InputError if an erasure took its arguments, it ended by itself, or it was started again before.
        """
        with self.store.write() as connection:
            same = table.c.id == job.id
            arguments = connection.execute(select(table.c.arguments).where(same, _STARTABLE)).scalar()
            if arguments is None and job.problem == str(_erased()):
                raise _erased()
            if arguments is None:
                raise Refused("this cannot be started again: it ended by itself, or was started again already")
            connection.execute(update(table).where(same).values(arguments=None, problem=_RESTARTED))
            again = _add(connection, job.kind, job.judge, arguments, asked_by)
        return self._begin(again)

    def find(self, job: str, *, result: bool = True) -> Job | None:
        """Read a job by its id; without its `result`, which may be large, to see how far it is."""
        columns = [*_COLUMNS, table.c.result] if result else _COLUMNS
        with self.store.read() as connection:
            row = connection.execute(select(*columns).where(table.c.id == job)).first()
        return None if row is None else self._job(row)

    def recent(self, judge: str, *, active: bool = False) -> list[Job]:
        """List the last fifty jobs of a judge without their results, the newest first; or only the `active` ones."""
        query = select(*_COLUMNS).where(table.c.judge == judge)
        if active:
            query = query.where(table.c.state.in_(("queued", "running")))
        with self.store.read() as connection:
            rows = connection.execute(query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(50)).all()
        return [self._job(row) for row in rows]

    def end(self, job: str, state: str, *, result: Any = None, problem: str | None = None, again: bool = False) -> None:
        """Write how a job ended; its arguments are kept only if it can be started `again`.

        What it gave is not kept if an erasure ran meanwhile: it may repeat what went, and the receipt has been written.
        """
        same = table.c.id == job
        with self.store.write() as connection:
            row = connection.execute(select(table.c.kind, table.c.judge, _BEGUN).where(same)).first()
            if result is not None and row is not None and row.kind != "erase":
                erasures = (table.c.judge == row.judge, table.c.kind == "erase", table.c.started_at.is_not(None))
                meanwhile = table.c.ended_at.is_(None) | (table.c.ended_at > row.begun)
                if connection.execute(select(table.c.id).where(*erasures, meanwhile)).first() is not None:
                    state, problem, result = "failed", str(_erased()), None
            encoded = None if result is None else to_json(result)
            ending = update(table).values(state=state, ended_at=now(), problem=problem, result=encoded)
            connection.execute((ending if again else ending.values(arguments=None)).where(same))

    def _job(self, row: Row[Any]) -> Job:
        phase, done, total = self._progress.get(row.id, ("", 0, 0))
        values = {**row._mapping, "result": from_json(row._mapping.get("result"))}
        job = Job(**values, phase=phase, done=done, total=total)
        # It was stopped, and has no arguments any more although nobody started it again.
        return replace(job, problem=str(_erased())) if job.problem == _STOPPED and not job.stopped else job

    def open(self) -> None:
        """Say which jobs the process before this one left undone, and begin to work."""
        undone = table.c.state.in_(("queued", "running"))
        with self.store.read() as connection:
            erased = select(table.c.id, table.c.result).where(undone, table.c.result.is_not(None))
            receipts = {row.id: from_json(row.result) for row in connection.execute(erased)}
        if receipts:
            self._registry.compact()
        for job, receipt in receipts.items():
            self.end(job, "done", result={**receipt, "problem": _UNSEARCHED})
        with self.store.write() as connection:
            connection.execute(update(table).where(undone).values(state="failed", problem=_STOPPED, ended_at=now()))
        self._places, self._loop = asyncio.Semaphore(_AT_ONCE), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="memalign-jobs", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop what is under way, and wait for what cannot be stopped half way."""
        loop, self._loop = self._loop, None
        if loop is None:
            return

        async def stop() -> None:
            for task in self._tasks:
                task.cancel()
            # Not the jobs alone: one that was stopped while its end was written leaves that write behind.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def _begin(self, job: Job) -> Job:
        def begin() -> None:
            task = asyncio.get_running_loop().create_task(self._run(job.id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if self._loop is not None:
            self._loop.call_soon_threadsafe(begin)
        return job

    async def _run(self, job: str) -> None:
        """Do one job, and write how it ended."""
        result, problem, again = None, None, False
        try:
            async with self._places:
                result = await self._do(job)
        except asyncio.CancelledError:
            problem, again = _STOPPED, True
        except (MemalignError, OSError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # a fault of ours: the job must say so, and the log where
            _log.exception("job %s failed", job)
            problem = f"an error of memalign: {type(error).__name__}; the log has more"
        self._progress.pop(job, None)
        state = "done" if problem is None else "failed"
        while True:
            try:
                ending = asyncio.to_thread(self.end, job, state, result=result, problem=problem, again=again)
                return await asyncio.shield(ending)
            except RegistryError:
                _log.warning("cannot write how job %s ended; trying again", job, exc_info=True)
                await asyncio.sleep(_PAUSE)

    async def _do(self, job: str) -> dict[str, Any] | None:
        row = await asyncio.to_thread(self._take, job)
        if row is None:
            return None  # its judge was deleted
        if row.arguments is None:
            raise _erased()

        def progress(phase: str, done: int, total: int) -> None:
            self._progress[job] = (phase, done, total)

        arguments = from_json(row.arguments)
        work = Work(registry=self._registry, store=self.store, judge=row.judge, arguments=arguments, progress=progress)
        task = asyncio.ensure_future(self._kinds[row.kind](work))
        try:
            while not (await asyncio.wait((task,), timeout=_CHECK))[0]:
                if await asyncio.to_thread(self.find, job, result=False) is None:
                    task.cancel()  # its judge was deleted
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            if task.cancelled():
                raise  # else it could not be stopped half way, and is finished
        return None if task.cancelled() else task.result()

    def _take(self, job: str) -> Row[Any, Any, Any] | None:
        """Note that a job runs, and read what it is to do."""
        same = table.c.id == job
        with self.store.write() as connection:
            connection.execute(update(table).where(same).values(state="running", started_at=now()))
            return connection.execute(select(table.c.kind, table.c.judge, table.c.arguments).where(same)).first()


def _add(connection: Connection, kind: str, judge: str, arguments: str, asked_by: str) -> Job:
    """Write a job, and prune old ones; receipts of erasures stay."""
    if connection.execute(select(judges.c.id).where(judges.c.name == judge)).first() is None:
        raise JudgeNotFound(f"no judge {judge!r} in the registry")
    connection.execute(delete(table).where(table.c.ended_at < later(-_KEPT), table.c.kind != "erase"))
    job = Job(id=new_id(), kind=kind, judge=judge, state="queued", asked_by=asked_by, created_at=now())
    row = {column.name: getattr(job, column.name) for column in table.c if column.name != "arguments"}
    connection.execute(insert(table).values(**row, arguments=arguments))
    return job


def _erased() -> Refused:
    return Refused("an erasure took what this was to work on; ask again, with what is left")
