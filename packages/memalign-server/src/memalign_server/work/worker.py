"""The thread that does jobs, on an event loop of its own.

Learning computes for seconds between model calls, and the registry's calls wait for a disk. On the loop that answers
requests, everybody would wait with them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from memalign.errors import MemalignError, RegistryError
from memalign.registry import Registry
from memalign_server.work.jobs import Job, Jobs
from memalign_server.work.kinds import KINDS, Kind, Work

__all__ = ["Worker"]

_LOOK = 1.0  # seconds between looks for jobs
_TELL = 0.25  # seconds between notes of progress
_CHECK = 5.0  # seconds between looks whether a job is still there when nothing moves

T = TypeVar("T")

_log = logging.getLogger("memalign_server")


class Worker:
    """Does up to `at_once` jobs at a time, until it is stopped; what it had begun then, the next server begins again."""

    def __init__(
        self,
        jobs: Jobs,
        registry: Registry,
        *,
        at_once: int,
        kinds: Mapping[str, Kind] = KINDS,
    ) -> None:
        self._jobs, self._registry, self._at_once, self._kinds = jobs, registry, at_once, kinds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._stopping = False
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._work()), name="memalign-jobs", daemon=True)
        jobs.on_start(self.wake)

    def start(self) -> None:
        """Begin, with what the server before this one left undone."""
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop what is under way, and wait for that."""
        self._stopping = True
        self.wake()
        self._thread.join()

    def wake(self) -> None:
        """Look for jobs now."""
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None and not loop.is_closed():
            loop.call_soon_threadsafe(wake.set)

    async def _work(self) -> None:
        self._loop, self._wake = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        running: set[asyncio.Task[None]] = set()
        await self._quietly(self._jobs.begin_again)
        while not self._stopping:
            while len(running) < self._at_once and (job := await self._quietly(self._jobs.claim)):
                task = asyncio.create_task(self._do(job))
                running.add(task)
                task.add_done_callback(running.discard)
                task.add_done_callback(lambda _: self.wake())
            self._wake.clear()
            try:
                await asyncio.wait_for(self._wake.wait(), _LOOK)
            except TimeoutError:
                continue
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _do(self, job: Job) -> None:
        told = ["", 0, 0]

        def progress(phase: str, done: int, total: int) -> None:
            told[:] = [phase, done, total]

        if not isinstance(job.arguments, dict) and job.result is None:
            why = "an erasure took what this was given; ask again, with what is left"
            await self._ended(job.id, "failed", problem=why)
            return
        work = Work(
            registry=self._registry,
            store=self._jobs.store,
            job=job.id,
            judge=job.judge,
            arguments=job.arguments or {},
            progress=progress,
            asked_by=job.asked_by,
            known=job.result,
        )
        task = asyncio.ensure_future(self._kinds[job.kind](work))
        try:
            await self._watch(job.id, task, told)
            result = await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled() and task.exception() is None:  # it could not be stopped, and is finished
                await asyncio.shield(self._ended(job.id, "done", result=task.result()))
        except (MemalignError, OSError) as error:
            await self._ended(job.id, "failed", problem=str(error))
        except Exception as error:  # noqa: BLE001  # logged whole, and never in silence
            # A fault of ours: the job must say that it failed, and the log where.
            _log.exception("job %s (%s) failed", job.id, job.kind)
            await self._ended(
                job.id, "failed", problem=f"an error of memalign: {type(error).__name__}; the log has more"
            )
        else:
            await self._ended(job.id, "done", result=result)

    async def _watch(self, job: str, task: asyncio.Future[Any], told: list[Any]) -> None:
        """Until the work has ended, write how far it is, and cancel it when its judge is deleted."""
        written: tuple[Any, ...] = ()
        noted = 0.0
        while not task.done():
            current = tuple(told)
            if current != written or time.monotonic() - noted > _CHECK:
                if await self._quietly(self._jobs.note_progress, job, *current) is False:
                    task.cancel()
                written, noted = current, time.monotonic()
            await asyncio.wait((task,), timeout=_TELL)

    async def _ended(self, job: str, state: str, *, result: Any = None, problem: str | None = None) -> None:
        """Write how a job ended; a database that is locked for a while must not lose it."""
        for pause in (0.5, 2.0, 10.0, 30.0, None):
            try:
                await asyncio.to_thread(self._jobs.end, job, state, result=result, problem=problem)
                return
            except RegistryError:
                _log.warning("cannot write that job %s is %s", job, state, exc_info=True)
                if pause is None:
                    return
                await asyncio.sleep(pause)

    async def _quietly(self, function: Callable[..., T], *given: Any) -> T | None:
        """Call the database from a thread; None, and a line in the log, while it does not answer."""
        try:
            return await asyncio.to_thread(function, *given)
        except RegistryError as error:
            _log.warning("%s", error)
            return None
