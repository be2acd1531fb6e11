"""Where a registry can lie, for tests that run on each: a SQLite file, or a database of
a PostgreSQL server."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from memalign import Registry
from tests.support import postgres
from tests.support.registry import bytes_of, intact

KINDS = ("sqlite", "postgresql") if postgres.AVAILABLE else ("sqlite",)


class OnSQLite:
    stride = 1
    """Of a test that stops at one statement after the other, every how manieth is stopped at."""
    overwrites = True
    """Whether deleted bytes are overwritten before a commit, and not only after it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"

    def registry(self, **options: Any) -> Registry:
        """The registry there, opened once more."""
        return Registry(self.url, **options)

    def another(self) -> OnSQLite:
        """An empty one of the same kind, with a secret of its own."""
        return OnSQLite(self.path.with_name(f"{uuid4()}.db"))

    def copy(self) -> OnSQLite:
        """A copy of all that was committed; nobody may have it open."""
        return OnSQLite(
            Path(shutil.copy(self.path, self.path.with_name(f"{uuid4()}.db")))
        )

    def bytes(self) -> bytes:
        """All bytes in which a deleted text could still be."""
        return bytes_of(self.path)

    def execute(self, statement: str, *values: Any) -> list[Any]:
        """Somebody else's statement, with ? for values."""
        with closing(sqlite3.connect(self.path)) as connection:
            found = connection.execute(statement, values).fetchall()
            connection.commit()
        return found

    def intact(self) -> bool:
        """Whether nothing is damaged and no row lacks its judge."""
        return intact(self.path)

    @contextmanager
    def writer(self) -> Iterator[None]:
        """A context in which another program keeps everybody from writing."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            yield
            holder.execute("ROLLBACK")


class OnPostgreSQL:
    stride = 3  # a copy takes ten times as long
    overwrites = False
    _made: str = ""

    def __init__(self, server: postgres.Server, name: str) -> None:
        self.server = server
        self.name = name
        self.url = server.url(name)
        self._opened: list[Registry] = []

    @classmethod
    def made(cls, server: postgres.Server) -> OnPostgreSQL:
        """A registry without judges: a copy of one, which is quicker than to make it."""
        if not cls._made:
            new = cls(server, server.create())
            new.registry()
            new.close()
            cls._made = new.name
        return cls(server, server.create(cls._made))

    def registry(self, **options: Any) -> Registry:
        found = Registry(self.url, **options)
        self._opened.append(found)
        return found

    def another(self) -> OnPostgreSQL:
        return OnPostgreSQL(self.server, self.server.create())

    def copy(self) -> OnPostgreSQL:
        self.close()
        return OnPostgreSQL(self.server, self.server.create(self.name))

    def close(self) -> None:
        for registry in self._opened:
            registry._database.engine.dispose()

    def bytes(self) -> bytes:
        return self.server.bytes_of(self.name)

    def execute(self, statement: str, *values: Any) -> list[Any]:
        return self.server.execute(self.name, statement.replace("?", "%s"), values)

    def intact(self) -> bool:
        (orphans,) = self.execute(
            "SELECT count(*) FROM memalign_rows r LEFT JOIN memalign_judges j ON j.id = r.judge "
            "WHERE j.id IS NULL OR r.since > j.latest"
        )
        return bool(orphans == (0,))

    @contextmanager
    def writer(self) -> Iterator[None]:
        with self.server.connect(self.name) as holder, holder.transaction():
            holder.execute("LOCK TABLE memalign_judges IN EXCLUSIVE MODE")
            yield


Place = OnSQLite | OnPostgreSQL


@contextmanager
def place_of(kind: str, folder: Path) -> Iterator[Place]:
    """A registry of that kind for one test."""
    if kind == "sqlite":
        yield OnSQLite(folder / "memalign.db")
        return
    server = postgres.shared()
    place = OnPostgreSQL.made(server)
    yield place
    place.close()
    server.drop(place.name)
