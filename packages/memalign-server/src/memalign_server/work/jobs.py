"""Long work: each job is a row, done on a thread with an event loop of its own.

Learning computes for seconds between model calls, and the registry's calls wait for a disk. On the
loop that answers requests, everybody would wait with them. One process works on a database. Work
that it left undone when it died says so at the next start. Asking for the same again costs nothing
twice, because model answers that were paid for are kept.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from memalign.errors import MemalignError, RegistryError
from memalign.registry import Registry
from memalign_server.problems import Refused
from memalign_server.store import Store, jobs
from memalign_server.store.erasing import ERASED
from memalign_server.store.rows import Job, JobState
from memalign_server.work.judging import Work
from memalign_server.work.kinds import KINDS, Kind

_STOPPED: Final = (
    "the server was stopped while this ran; "
    "ask for it again, nothing that was paid for is paid for twice"
)
_UNSEARCHED: Final = (
    "the server was stopped after this was erased and before what is left was searched; "
    "the file was compacted since. Erase the same again: it says what is left. "
    "What waits to be derived again is learned at the next align"
)
_AT_ONCE = 2  # jobs
_PAUSE = 10.0  # seconds before another try to write into a locked database
_log = logging.getLogger("memalign_server")

__all__ = ["Job", "Jobs"]


class Jobs:
    """All jobs of a database. Safe for several threads."""

    def __init__(
        self, store: Store, registry: Registry, *, kinds: Mapping[str, Kind] = KINDS
    ) -> None:
        self.store = store
        self._registry = registry
        self._kinds = kinds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # Of running jobs: phase, done, total.
        self._progress: dict[str, tuple[str, int, int]] = {}

    def start(
        self, kind: str, judge: str, arguments: Mapping[str, Any], *, asked_by: str
    ) -> Job:
        """Ask for work of a kind on a judge, which begins as soon as it may.

        The arguments are JSON values.

        Raises:
            JudgeNotFound: No judge has the name.
        """
        with self.store.write() as connection:
            job = jobs.add_job(connection, kind, judge, arguments, asked_by=asked_by)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._begin, job.id)
        return job

    def _begin(self, job: str) -> None:
        task = asyncio.get_running_loop().create_task(self._run(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def find(self, job: str) -> Job | None:
        """Return a job by its id."""
        with self.store.read() as connection:
            found = jobs.find_job(connection, job)
        return None if found is None else self._with_progress(found)

    def recent(self, judge: str, *, active: bool = False) -> list[Job]:
        """Return the last fifty jobs of a judge without their results, the newest first.

        With `active`, only those are returned that wait or run.
        """
        with self.store.read() as connection:
            found = jobs.recent_jobs(connection, judge, active=active)
        return [self._with_progress(job) for job in found]

    def end(
        self,
        job: str,
        state: JobState,
        *,
        result: Any = None,
        problem: str | None = None,
    ) -> None:
        """Write how a job ended.

        What it gave is left out if an erasure emptied the job meanwhile: it may repeat what went.
        """
        with self.store.write() as connection:
            jobs.end_job(connection, job, state, result=result, problem=problem)

    def _with_progress(self, job: Job) -> Job:
        phase, done, total = self._progress.get(job.id, ("", 0, 0))
        return replace(job, phase=phase, done=done, total=total)

    def open(self) -> None:
        """Say which jobs the process before this one left undone, and begin to work."""
        with self.store.read() as connection:
            receipts = jobs.undone_receipts(connection)
        if receipts:
            self._registry.compact()
        for job, receipt in receipts.items():
            self.end(job, "done", result={**receipt, "problem": _UNSEARCHED})
        with self.store.write() as connection:
            jobs.fail_undone(connection, _STOPPED)
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="memalign-jobs", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop what is under way, and wait for what cannot be stopped half way."""
        loop = self._loop
        if loop is None:
            return
        self._loop = None

        async def stop() -> None:
            for task in self._tasks:
                task.cancel()
            # Not the jobs alone: one that was stopped while its end was written leaves the write.
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    async def _run(self, job: str) -> None:
        """Do one job, and write how it ended."""
        result = None
        problem = None
        try:
            async with self._places:
                result = await self._do(job)
        except asyncio.CancelledError:
            problem = _STOPPED
        except (MemalignError, OSError) as error:
            problem = str(error)
        # A fault of ours: the job must say so, and the log where.
        except Exception as error:  # noqa: BLE001
            _log.exception("job %s failed", job)
            problem = f"an error of memalign: {type(error).__name__}; the log has more"
        self._progress.pop(job, None)
        state: JobState = "done" if problem is None else "failed"
        end = partial(self.end, job, state, result=result, problem=problem)
        while True:
            try:
                return await asyncio.shield(asyncio.to_thread(end))
            except RegistryError:
                _log.warning(
                    "cannot write how job %s ended; trying again", job, exc_info=True
                )
                await asyncio.sleep(_PAUSE)

    async def _do(self, job: str) -> dict[str, Any] | None:
        order = await asyncio.to_thread(self._take, job)
        if order is None:
            return None  # its judge was deleted
        if order.arguments is None:
            raise Refused(order.problem or ERASED)

        def progress(phase: str, done: int, total: int) -> None:
            self._progress[job] = (phase, done, total)

        work = Work(
            registry=self._registry,
            store=self.store,
            judge=order.judge,
            arguments=order.arguments,
            progress=progress,
        )
        # What cannot be stopped half way sees to it itself.
        return await self._kinds[order.kind](work)

    def _take(self, job: str) -> jobs.Order | None:
        with self.store.write() as connection:
            return jobs.begin_job(connection, job)
