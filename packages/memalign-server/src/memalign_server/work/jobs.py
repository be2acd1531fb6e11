"""Long work: each job is a row that whoever waits reads again and again, done on a thread with an event loop of its own.

Learning computes for seconds between model calls, and the registry's calls wait for a disk. On the loop that answers
requests, everybody would wait with them. One process works on a database: what it left undone when it died says so at
the next start, and keeps what it was given, so that it can be started again. A model's answers that were paid for are
not paid for again.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Update, delete, insert, select, update

from memalign.errors import InputError, JudgeNotFound, MemalignError, RegistryError
from memalign.registry import Registry
from memalign.registry.tables import judges
from memalign_server.problems import Refused
from memalign_server.store import Store
from memalign_server.store.columns import from_json, later, new_id, now, to_json
from memalign_server.store.tables import jobs as table
from memalign_server.work.kinds import KINDS, Kind, Work

__all__ = ["Job", "Jobs"]

STOPPED: Final = "the server was stopped while this ran; start it again, nothing that was paid for is paid for twice"
UNSEARCHED: Final = (
    "the server was stopped after this was erased and before what is left was searched; the file was compacted since. "
    "Erase the same again: it says what is left. What waits to be derived again is learned at the next align"
)
_AT_ONCE = 2  # jobs
_KEPT = 30 * 86400  # seconds that an ended job is kept; the receipt of an erasure is kept for good
_LOOK = 0.25  # seconds between notes of progress
_CHECK = 5.0  # seconds between looks whether a job is still there when nothing moves
_log = logging.getLogger("memalign_server")


@dataclass(frozen=True, kw_only=True)
class Job:
    """Long work: how far it is, and what it gave.

    `done` of `total` steps of `phase` are finished. A `stopped` one failed because its server died: ask for the same
    again. Of a `result` whoever is no owner is told what does not give away verdicts and answers on cases that may
    wait for them.
    """

    id: str
    kind: str
    judge: str
    state: Literal["queued", "running", "done", "failed"]
    asked_by: str
    phase: str
    done: int
    total: int
    problem: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    stopped: bool
    result: Any = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ("done", "failed")


_STOPPED = ((table.c.state == "failed") & table.c.arguments.is_not(None)).label("stopped")
_COLUMNS = [_STOPPED if name == "stopped" else table.c[name] for name in Job.__dataclass_fields__ if name != "result"]


class Jobs:
    """All jobs of a database. Safe for several threads."""

    def __init__(self, store: Store, registry: Registry, *, kinds: Mapping[str, Kind] = KINDS) -> None:
        self.store, self._registry, self._kinds = store, registry, kinds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # -- for pages and programs --------------------------------------------------------------------------------------

    def start(self, kind: str, judge: str, arguments: Mapping[str, Any], *, asked_by: str) -> Job:
        """Ask for work, which begins as soon as it may.

        Args:
            kind: One of the kinds of work.
            judge: The judge's name.
            arguments: What this kind takes, as JSON values.
            asked_by: Who asks.

        Returns:
            The job, queued.

        Raises:
            JudgeNotFound: No judge has the name.
        """
        job = new_id()
        row = {"id": job, "kind": kind, "judge": judge, "state": "queued", "asked_by": asked_by}
        with self.store.write() as connection:
            if connection.execute(select(judges.c.id).where(judges.c.name == judge)).first() is None:
                raise JudgeNotFound(f"no judge {judge!r} in the registry")
            old = (table.c.ended_at < later(-_KEPT), table.c.kind != "erase")
            connection.execute(delete(table).where(*old))
            connection.execute(insert(table).values(**row, arguments=to_json(dict(arguments)), created_at=now()))
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin, job)
        found = self.find(job)
        if found is None:  # written a moment ago: whoever deleted the judge since has deleted its work
            raise JudgeNotFound(f"no judge {judge!r} in the registry")
        return found

    def start_again(self, job: Job, *, asked_by: str) -> Job:
        """Start work again whose server died; it is a new job, which takes what the old one was given.

        Raises:
            InputError: It cannot be started again: it ended by itself, or was started again before.
        """
        with self.store.write() as connection:
            given = connection.execute(select(table.c.arguments).where(table.c.id == job.id, _STOPPED)).scalar()
            connection.execute(update(table).where(table.c.id == job.id).values(arguments=None))
        if given is None:
            raise Refused("this cannot be started again: it ended by itself, or was started again already")
        return self.start(job.kind, job.judge, from_json(given), asked_by=asked_by)

    def find(self, job: str, *, result: bool = True) -> Job | None:
        """A job by its id; without its `result`, which may be large, for whoever asks every second how far it is."""
        columns = [*_COLUMNS, table.c.result] if result else _COLUMNS
        with self.store.read() as connection:
            row = connection.execute(select(*columns).where(table.c.id == job)).first()
        if row is None:
            return None
        values = row._asdict()
        return Job(**{**values, "result": from_json(values.get("result"))})

    def recent(self, judge: str, *, active: bool = False, limit: int = 50) -> list[Job]:
        """Jobs of a judge without their results, the newest first; with `active` only those that wait or run."""
        query = select(*_COLUMNS).where(table.c.judge == judge)
        query = query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
        if active:
            query = query.where(table.c.state.in_(("queued", "running")))
        with self.store.read() as connection:
            return [Job(**row._asdict()) for row in connection.execute(query)]

    def end(self, job: str, state: str, *, result: Any = None, problem: str | None = None, again: bool = False) -> None:
        """Write how a job ended; what it was given is kept only where it can be started `again`."""
        values = {"state": state, "ended_at": now(), "problem": problem, **({} if again else {"arguments": None})}
        ended = update(table).where(table.c.id == job)
        self._write(ended.values(**values, result=None if result is None else to_json(result)))

    def _write(self, statement: Update) -> bool:
        """Whether the statement changed a row. A database that is locked for a while must lose nothing."""
        for pause in (0.5, 2.0, 10.0, 30.0, None):
            try:
                with self.store.write() as connection:
                    return connection.execute(statement).rowcount > 0
            except RegistryError:
                if pause is None:
                    raise
                _log.warning("cannot write about a job; trying again", exc_info=True)
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    # -- the thread --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Say of what the process before this one left undone that it was stopped, and begin to work."""
        undone = table.c.state.in_(("queued", "running"))
        with self.store.read() as connection:
            erased = select(table.c.id, table.c.result).where(undone, table.c.result.is_not(None))
            receipts = {row.id: from_json(row.result) for row in connection.execute(erased)}
        if receipts:
            self._registry.compact()
        for job, receipt in receipts.items():
            self.end(job, "done", result={**receipt, "problem": UNSEARCHED})
        self._write(update(table).where(undone).values(state="failed", problem=STOPPED, ended_at=now()))
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
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def _begin(self, job: str) -> None:
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, job: str) -> None:
        """Do one job, and write how it ended."""
        result, problem, again = None, None, False
        try:
            async with self._places:
                result = await self._do(job)
        except asyncio.CancelledError:
            problem, again = STOPPED, True
        except (MemalignError, OSError) as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001  # a fault of ours: the job must say that it failed, and the log where
            _log.exception("job %s failed", job)
            problem = f"an error of memalign: {type(error).__name__}; the log has more"
        state = "done" if problem is None else "failed"
        await asyncio.shield(asyncio.to_thread(self.end, job, state, result=result, problem=problem, again=again))

    async def _do(self, job: str) -> dict[str, Any] | None:
        begun = update(table).where(table.c.id == job).values(state="running", started_at=now())
        await asyncio.to_thread(self._write, begun)
        with self.store.read() as connection:
            query = select(table.c.kind, table.c.judge, table.c.arguments).where(table.c.id == job)
            row = connection.execute(query).first()
        if row is None or row.judge is None:
            return None  # its judge was deleted
        if row.arguments is None:
            raise InputError("an erasure took what this was given; ask again, with what is left")
        progress = _Progress()
        work = Work(
            registry=self._registry,
            store=self.store,
            judge=row.judge,
            arguments=from_json(row.arguments),
            progress=progress,
        )
        task = asyncio.ensure_future(self._kinds[row.kind](work))
        try:
            await self._watch(job, task, progress)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait((task,))
            if task.cancelled():
                raise  # else it could not be stopped half way, and is finished
        return None if task.cancelled() else task.result()

    async def _watch(self, job: str, task: asyncio.Future[Any], progress: _Progress) -> None:
        """Until the work has ended, write how far it is, and cancel it when its judge is deleted."""
        written, at = ("", 0, 0), time.monotonic()
        while not task.done():
            if progress.now != written or time.monotonic() - at > _CHECK:
                written, at = progress.now, time.monotonic()
                phase, done, total = written
                note = update(table).where(table.c.id == job).values(phase=phase, done=done, total=total)
                if not await asyncio.to_thread(self._write, note):
                    task.cancel()
            await asyncio.wait((task,), timeout=_LOOK)


class _Progress:
    """How far a job is, as its work tells it from whatever thread."""

    def __init__(self) -> None:
        self.now: tuple[str, int, int] = ("", 0, 0)

    def __call__(self, phase: str, done: int, total: int) -> None:
        self.now = (phase, done, total)
