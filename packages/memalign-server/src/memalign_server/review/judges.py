"""Judges as pages need them: loaded once a version, not once a request."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from sqlalchemy import select

from memalign.errors import JudgeNotFound
from memalign.judge import Judge
from memalign.registry import Registry, tables
from memalign_server.store.store import Store

__all__ = ["Judges", "Loaded"]

_KEPT = 8


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """The newest version of a judge."""

    judge: Judge
    version: int


class Judges:
    """The newest versions of judges, each read from the registry once. Usable from several threads."""

    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store
        self._lock = threading.Lock()
        self._loaded: dict[tuple[str, int, str], Loaded] = {}

    def latest(self, name: str) -> Loaded:
        """The newest version of a judge. Raises JudgeNotFound."""
        judges, versions = tables.judges, tables.versions
        query = (
            select(versions.c.number, versions.c.created_at)
            .join(judges, (judges.c.id == versions.c.judge) & (judges.c.latest == versions.c.number))
            .where(judges.c.name == name)
        )
        with self._store.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise JudgeNotFound(f"no judge {name!r} in the registry")
        key = (name, row.number, row.created_at)
        if (found := self._loaded.get(key)) is not None:
            return found
        with self._lock:  # one request loads a new version, and the others wait for it
            if (found := self._loaded.get(key)) is not None:
                return found
            found = Loaded(judge=self._registry.load(name, row.number), version=row.number)
            # Of one judge one version is kept: an older one may hold what was erased since.
            left = {known: each for known, each in self._loaded.items() if known[0] != name}
            while len(left) >= _KEPT:
                del left[next(iter(left))]
            self._loaded = {**left, key: found}
        return found
