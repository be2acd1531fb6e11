"""Long work: each job is a row that whoever waits reads again, done on a thread with an event loop of its own.

Learning computes for seconds between model calls, and the registry's calls wait for a disk. On the loop that answers
requests, everybody would wait with them. One process works on a database. What it left undone when it died says so at
the next start; asking for the same again costs nothing twice, because model answers that were paid for are kept.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Row, delete, insert, select, update

from memalign.errors import JudgeNotFound, MemalignError, RegistryError
from memalign.registry import Registry
from memalign.registry.tables import judges
from memalign_server.problems import Refused
from memalign_server.store import Store
from memalign_server.store.erasing import ERASED
from memalign_server.store.tables import jobs as table
from memalign_server.store.tables import later, new_id, now
from memalign_server.work.judging import Work
from memalign_server.work.kinds import KINDS, Kind

_STOPPED: Final = "the server was stopped while this ran; ask for it again, nothing that was paid for is paid for twice"
_UNSEARCHED: Final = (
    "the server was stopped after this was erased and before what is left was searched; the file was compacted since. "
    "Erase the same again: it says what is left. What waits to be derived again is learned at the next align"
)
_AT_ONCE = 2  # jobs
_KEPT = 30 * 86400  # seconds that an ended job is kept; the receipt of an erasure is kept for good
_PAUSE = 10.0  # seconds before another try to write into a locked database
_log = logging.getLogger("memalign_server")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Long work: how far it is, and what it gave. `done` of `total` steps of `phase` are finished.

    Reviewers see of a `result` only what gives away no verdict or answer on a case that may wait for them.
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
    result: Any = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ("done", "failed")


_COLUMNS = [column for column in table.c if column.name not in ("arguments", "result")]
_UNDONE = table.c.state.in_(("queued", "running"))


class Jobs:
    """All jobs of a database. Safe for several threads."""

    def __init__(
        self, store: Store, registry: Registry, *, kinds: Mapping[str, Kind] = KINDS
    ) -> None:
        self.store, self._registry, self._kinds = store, registry, kinds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress: dict[str, tuple[str, int, int]] = {}  # of running jobs: phase, done, total

    def start(self, kind: str, judge: str, arguments: Mapping[str, Any], *, asked_by: str) -> Job:
        """Ask for work of a kind on a judge, with arguments as JSON values; it begins as soon as it may.

        Raises JudgeNotFound if no judge has the name.
        """
        job = Job(
            id=new_id(), kind=kind, judge=judge, state="queued", asked_by=asked_by, created_at=now()
        )
        row = {
            column.name: getattr(job, column.name)
            for column in table.c
            if column.name != "arguments"
        }
        with self.store.write() as connection:
            if (
                connection.execute(select(judges.c.id).where(judges.c.name == judge)).first()
                is None
            ):
                raise JudgeNotFound(f"no judge {judge!r} in the registry")
            connection.execute(
                delete(table).where(table.c.ended_at < later(-_KEPT), table.c.kind != "erase")
            )
            connection.execute(insert(table).values(**row, arguments=dict(arguments)))

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(self._run(job.id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if self._loop is not None:
            self._loop.call_soon_threadsafe(begin)
        return job

    def find(self, job: str, *, result: bool = True) -> Job | None:
        """Read a job by its id; without its `result`, which may be large, to see how far it is."""
        columns = [*_COLUMNS, table.c.result] if result else _COLUMNS
        with self.store.read() as connection:
            row = connection.execute(select(*columns).where(table.c.id == job)).first()
        return None if row is None else self._job(row)

    def recent(self, judge: str, *, active: bool = False) -> list[Job]:
        """List the last fifty jobs of a judge without their results, the newest first; or only the `active` ones."""
        query = select(*_COLUMNS).where(table.c.judge == judge, *((_UNDONE,) if active else ()))
        with self.store.read() as connection:
            rows = connection.execute(
                query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(50)
            ).all()
        return [self._job(row) for row in rows]

    def receipts(self, judge: str) -> list[Job]:
        """List the erasures of a judge that have a receipt, the newest first; `result` is the receipt."""
        erased = (table.c.judge == judge, table.c.kind == "erase", table.c.result.is_not(None))
        columns: list[Any] = [*_COLUMNS, table.c.result]
        query = select(*columns).where(*erased)
        with self.store.read() as connection:
            rows = connection.execute(
                query.order_by(table.c.created_at.desc(), table.c.id.desc())
            ).all()
        return [self._job(row) for row in rows]

    def end(self, job: str, state: str, *, result: Any = None, problem: str | None = None) -> None:
        """Write how a job ended; without what it gave if an erasure emptied it meanwhile: that may repeat what went."""
        same = table.c.id == job
        with self.store.write() as connection:
            row = connection.execute(select(table.c.kind, table.c.problem).where(same)).first()
            if row is not None and row.problem == ERASED and row.kind != "erase":
                state, problem, result = "failed", ERASED, None
            ending = {
                "state": state,
                "ended_at": now(),
                "problem": problem,
                "result": result,
                "arguments": None,
            }
            connection.execute(update(table).where(same).values(ending))

    def _job(self, row: Row[Any]) -> Job:
        phase, done, total = self._progress.get(row.id, ("", 0, 0))
        return Job(**row._mapping, phase=phase, done=done, total=total)

    def open(self) -> None:
        """Say which jobs the process before this one left undone, and begin to work."""
        with self.store.read() as connection:
            erased = select(table.c.id, table.c.result).where(_UNDONE, table.c.result.is_not(None))
            receipts = {row.id: row.result for row in connection.execute(erased)}
        if receipts:
            self._registry.compact()
        for job, receipt in receipts.items():
            self.end(job, "done", result={**receipt, "problem": _UNSEARCHED})
        with self.store.write() as connection:
            ending = {"state": "failed", "problem": _STOPPED, "ended_at": now(), "arguments": None}
            connection.execute(update(table).where(_UNDONE).values(ending))
        self._places, self._loop = asyncio.Semaphore(_AT_ONCE), asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="memalign-jobs", daemon=True
        )
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

    async def _run(self, job: str) -> None:
        """Do one job, and write how it ended."""
        result, problem = None, None
        try:
            async with self._places:
                result = await self._do(job)
        except asyncio.CancelledError:
            problem = _STOPPED
        except (MemalignError, OSError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # a fault of ours: the job must say so, and the log where
            _log.exception("job %s failed", job)
            problem = f"an error of memalign: {type(error).__name__}; the log has more"
        self._progress.pop(job, None)
        state = "done" if problem is None else "failed"
        while True:
            try:
                return await asyncio.shield(
                    asyncio.to_thread(self.end, job, state, result=result, problem=problem)
                )
            except RegistryError:
                _log.warning("cannot write how job %s ended; trying again", job, exc_info=True)
                await asyncio.sleep(_PAUSE)

    async def _do(self, job: str) -> dict[str, Any] | None:
        row = await asyncio.to_thread(self._take, job)
        if row is None:
            return None  # its judge was deleted
        if row.arguments is None:
            raise Refused(row.problem or ERASED)

        def progress(phase: str, done: int, total: int) -> None:
            self._progress[job] = (phase, done, total)

        order = {"judge": row.judge, "arguments": row.arguments, "progress": progress}
        work = Work(registry=self._registry, store=self.store, **order)
        return await self._kinds[row.kind](
            work
        )  # what cannot be stopped half way sees to it itself

    def _take(self, job: str) -> Row[Any, Any, Any, Any] | None:
        """Note that a job runs, and read what it is to do."""
        same = table.c.id == job
        with self.store.write() as connection:
            connection.execute(update(table).where(same).values(state="running", started_at=now()))
            columns = (table.c.kind, table.c.judge, table.c.arguments, table.c.problem)
            return connection.execute(select(*columns).where(same)).first()
