"""Jobs as the database keeps them: asked for, begun by one worker, watched, stopped, ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from memalign.errors import JudgeNotFound
from memalign.registry.schema import judges
from memalign_server.store import Store
from memalign_server.store.columns import from_json, new_id, now, to_json
from memalign_server.store.work_tables import jobs as table

__all__ = ["ENDED", "STALE", "Job", "Jobs"]

ENDED = frozenset(("done", "failed", "cancelled"))
STALE = 30.0
"""Seconds without a sign of life, after which another worker takes a job up."""
_MOST_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Job:
    """One piece of long work.

    `state` is queued, running, done, failed or cancelled. `done` of `total` steps of `phase` are finished. `result` is
    what the kind of work gives, once it is done; `problem` says why it failed.
    """

    id: str
    kind: str
    judge: str
    state: str
    asked_by: str
    phase: str
    done: int
    total: int
    result: Any
    problem: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None
    arguments: Any = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to it."""
        return self.state in ENDED

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values, without the arguments: they may hold a whole file."""
        names = ("id", "kind", "judge", "state", "asked_by", "phase", "done", "total", "result", "problem")
        return {name: getattr(self, name) for name in (*names, "created_at", "started_at", "ended_at")}


class Jobs:
    """All jobs of a database. Safe for several threads, and for several servers on one database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._woken: list[Callable[[], None]] = []

    def on_start(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever this process asks for a job."""
        self._woken.append(wake)

    def start(
        self,
        kind: str,
        judge: str,
        arguments: Mapping[str, Any],
        *,
        asked_by: str,
        id: str | None = None,  # noqa: A002  # the field's name
    ) -> Job:
        """Ask for work; a worker begins it as soon as it may. `arguments` are JSON values.

        Work of an `id` that is known is not begun again: its job comes back, whatever became of it.
        """
        job = id or new_id()
        with self.store.write() as connection:
            known = connection.execute(select(table).where(table.c.id == job)).first()
            if known is not None:
                return _job(known)
            if connection.execute(select(judges.c.id).where(judges.c.name == judge)).first() is None:
                raise JudgeNotFound(f"no judge {judge!r} in the registry")
            row = {"id": job, "kind": kind, "judge": judge, "state": "queued", "asked_by": asked_by}
            connection.execute(insert(table).values(**row, arguments=to_json(dict(arguments)), created_at=now()))
        for wake in self._woken:
            wake()
        found = self.find(job)
        if found is None:  # written a moment ago: whoever deleted the judge since has deleted its work
            raise JudgeNotFound(f"no judge {judge!r} in the registry")
        return found

    def find(self, job: str) -> Job | None:
        """A job by its id."""
        with self.store.read() as connection:
            row = connection.execute(select(table).where(table.c.id == job)).first()
        return None if row is None else _job(row)

    def recent(self, judge: str | None = None, *, active: bool = False, limit: int = 50, before: str = "") -> list[Job]:
        """Jobs, the newest first, of one judge or all; `active` ones only; those asked for `before` a time."""
        query = select(table).order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
        if judge is not None:
            query = query.where(table.c.judge == judge)
        if active:
            query = query.where(table.c.state.in_(("queued", "running")))
        if before:
            query = query.where(table.c.created_at < before)
        with self.store.read() as connection:
            return [_job(row) for row in connection.execute(query)]

    def cancel(self, job: str) -> Job | None:
        """Stop a job: at once where it has not begun, else its worker stops it within a second. None: no such job."""
        with self.store.write() as connection:
            waiting = update(table).where(table.c.id == job, table.c.state == "queued")
            connection.execute(waiting.values(state="cancelled", ended_at=now(), arguments=None))
            connection.execute(update(table).where(table.c.id == job, table.c.state == "running").values(stop=1))
        return self.find(job)

    # -- for workers ---------------------------------------------------------------------------------------------

    def claim(self, worker: str) -> Job | None:
        """Take the oldest job that waits, and none that another worker takes at the same time."""
        oldest = select(table.c.id).where(table.c.state == "queued").order_by(table.c.created_at).limit(1)
        with self.store.read() as connection:
            if connection.execute(oldest).scalar() is None:  # most looks find nothing, and should not lock
                return None
        with self.store.write() as connection:
            job = connection.execute(oldest).scalar()
            mine = update(table).where(table.c.id == job, table.c.state == "queued")
            begun = {"state": "running", "worker": worker, "beat": time.time(), "started_at": now()}
            taken = connection.execute(mine.values(**begun, starts=table.c.starts + 1))
            if taken.rowcount != 1:
                return None
            return _job(connection.execute(select(table).where(table.c.id == job)).one())

    def beat(self, job: str, phase: str, done: int, total: int) -> bool:
        """Say that a job is alive and how far it is; gives whether it is to stop: somebody asked, or its judge is deleted."""
        with self.store.write() as connection:
            mine = update(table).where(table.c.id == job)
            connection.execute(mine.values(beat=time.time(), phase=phase, done=done, total=total))
            return _stopped(connection, job)

    def asked_to_stop(self, job: str) -> bool:
        """Whether a job is to stop: somebody asked, or its judge is deleted."""
        with self.store.read() as connection:
            return _stopped(connection, job)

    def end(self, job: str, state: str, *, result: Any = None, problem: str | None = None) -> None:
        """A job has ended; what it was given is kept no longer."""
        values = {"state": state, "ended_at": now(), "arguments": None, "problem": problem}
        with self.store.write() as connection:
            told = None if result is None else to_json(result)
            connection.execute(update(table).where(table.c.id == job).values(**values, result=told))

    def give_back(self, job: str) -> None:
        """A job that its worker stops because the server does: another one begins it again."""
        with self.store.write() as connection:
            mine = update(table).where(table.c.id == job, table.c.state == "running")
            connection.execute(mine.values(state="queued", worker=None, starts=table.c.starts - 1))

    def take_up_lost(self, dead: Callable[[str], bool]) -> list[str]:
        """Let jobs begin again whose worker is gone: silent for long, or known to be `dead`.

        One whose worker went three times is not tried again: it fails, and says so. Gives the ids of both.
        """
        with self.store.write() as connection:
            found = connection.execute(
                select(table.c.id, table.c.worker, table.c.beat, table.c.starts).where(table.c.state == "running")
            ).all()
            lost = [row for row in found if dead(row.worker or "") or (row.beat or 0) < time.time() - STALE]
            for row in lost:
                again = row.starts < _MOST_STARTS
                values: dict[str, Any] = {"state": "queued", "worker": None}
                if not again:
                    why = f"the server was stopped {row.starts} times while this ran; start it again by hand"
                    values = {"state": "failed", "problem": why, "ended_at": now(), "arguments": None}
                connection.execute(update(table).where(table.c.id == row.id).values(**values))
        return [row.id for row in lost]


def _stopped(connection: Connection, job: str) -> bool:
    stop = connection.execute(select(table.c.stop).where(table.c.id == job)).scalar()
    return stop is None or bool(stop)


def _job(row: Row[Any]) -> Job:
    plain = {name: getattr(row, name) for name in Job.__dataclass_fields__ if name not in ("result", "arguments")}
    return Job(**plain, result=from_json(row.result), arguments=from_json(row.arguments))
