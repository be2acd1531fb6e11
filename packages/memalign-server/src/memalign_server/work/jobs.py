"""Jobs as the database keeps them: asked for, begun, watched, ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, insert, select, update

from memalign.errors import JudgeNotFound
from memalign.registry.tables import judges
from memalign_server.store import Store
from memalign_server.store.columns import from_json, new_id, now, to_json
from memalign_server.store.work_tables import jobs as table

__all__ = ["ENDED", "Job", "Jobs"]

ENDED = frozenset(("done", "failed"))
_MOST_STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Job:
    """One piece of long work.

    `state` is queued, running, done or failed. `done` of `total` steps of `phase` are finished. `result` is
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
    """All jobs of a database, which one server works on. Safe for several threads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._woken: list[Callable[[], None]] = []

    def on_start(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever this process asks for a job."""
        self._woken.append(wake)

    def start(self, kind: str, judge: str, arguments: Mapping[str, Any], *, asked_by: str) -> Job:
        """Ask for work; a worker begins it as soon as it may. `arguments` are JSON values."""
        job = new_id()
        with self.store.write() as connection:
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

    def recent(self, judge: str, *, active: bool = False, limit: int = 50) -> list[Job]:
        """Jobs of a judge, the newest first, without what they were given and gave: that may be a whole file.

        Args:
            judge: The judge's name.
            active: Only those that wait or run.
            limit: How many at most.
        """
        query = select(*(table.c[name] for name in _PLAIN)).where(table.c.judge == judge)
        query = query.order_by(table.c.created_at.desc(), table.c.id.desc()).limit(limit)
        if active:
            query = query.where(table.c.state.in_(("queued", "running")))
        with self.store.read() as connection:
            return [_job(row) for row in connection.execute(query)]

    # -- for the worker ----------------------------------------------------------------------------------------------

    def begin_again(self) -> None:
        """Queue the work again that a server before this one left undone; what it left three times over fails."""
        why = f"the server was stopped {_MOST_STARTS} times while this ran; start it again by hand"
        left = table.c.state == "running"
        failed = {"state": "failed", "problem": why, "ended_at": now(), "arguments": None}
        with self.store.write() as connection:
            connection.execute(update(table).where(left, table.c.starts >= _MOST_STARTS).values(**failed))
            connection.execute(update(table).where(left).values(state="queued"))

    def claim(self) -> Job | None:
        """Take the oldest job that waits, and none that is taken at the same time."""
        oldest = select(table.c.id).where(table.c.state == "queued").order_by(table.c.created_at).limit(1)
        with self.store.read() as connection:
            if connection.execute(oldest).scalar() is None:  # most looks find nothing, and should not lock
                return None
        with self.store.write() as connection:
            job = connection.execute(oldest).scalar()
            waiting = update(table).where(table.c.id == job, table.c.state == "queued")
            taken = waiting.values(state="running", started_at=now(), starts=table.c.starts + 1)
            if connection.execute(taken).rowcount != 1:
                return None
            return _job(connection.execute(select(table).where(table.c.id == job)).one())

    def note_progress(self, job: str, phase: str, done: int, total: int) -> bool:
        """Write how far a job is; gives whether it is still there: it goes when its judge is deleted."""
        with self.store.write() as connection:
            change = update(table).where(table.c.id == job).values(phase=phase, done=done, total=total)
            return connection.execute(change).rowcount == 1

    def end(self, job: str, state: str, *, result: Any = None, problem: str | None = None) -> None:
        """A job has ended; what it was given is kept no longer."""
        values = {"state": state, "ended_at": now(), "arguments": None, "problem": problem}
        with self.store.write() as connection:
            told = None if result is None else to_json(result)
            connection.execute(update(table).where(table.c.id == job).values(**values, result=told))


_PLAIN = tuple(name for name in Job.__dataclass_fields__ if name not in ("result", "arguments"))


def _job(row: Row[Any]) -> Job:
    """A row as a value; one that was read without its result and arguments has none."""
    given, gave = (from_json(getattr(row, name, None)) for name in ("arguments", "result"))
    return Job(**{name: getattr(row, name) for name in _PLAIN}, result=gave, arguments=given)
