"""A registry in one SQLite file. All that only SQLite needs is here and in `kept_answers`."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, unquote

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, update
from sqlalchemy.exc import DBAPIError

from memalign.errors import ConfigurationError, RegistryError
from memalign.io.file_lock import lock_file
from memalign.registry import kept_answers, schema
from memalign.registry.receipt import UNREACHABLE
from memalign.registry.residue import Residue

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

__all__ = ["SQLite"]

_WRITE = "memalign_write"
_TURNS: dict[tuple[int, Path], threading.Lock] = {}
"""Who may write a file, by process: a child has its own."""
_ROOM = 8_000_000
"""Bytes that must be free before an align: a version of some thousand cases."""


class SQLite:
    """A file, opened anew for every operation: threads and processes share nothing, and no handle outlives its use."""

    unreachable: tuple[str, ...] = UNREACHABLE

    def __init__(self, url: URL, *, busy_timeout: float) -> None:
        self.shown = str(url)
        self._busy_timeout = busy_timeout
        if not url.database or url.database == ":memory:" or "mode=memory" in url.database:
            raise ConfigurationError(
                f"{self.shown!r} names no file, and a registry in memory keeps nothing; use sqlite:///memalign.db"
            )
        # Absolute from here on: the process may change its folder, and connections are made anew for every operation.
        url = _as_options(url)
        database = url.database or ""
        scheme, name = ("file:", database[5:]) if database.startswith("file:") else ("", database)
        name, question, options = name.partition("?") if scheme else (name, "", "")
        self.file = Path(unquote(name) if scheme else name).absolute()
        written = quote(str(self.file)) if scheme else str(self.file)
        self.engine: Engine = create_engine(
            url.set(database=f"{scheme}{written}{question}{options}"),
            poolclass=NullPool,
            hide_parameters=True,  # an error must not print feedback
            connect_args={"timeout": busy_timeout},
        )
        # The driver's own transactions begin too late and too weak for a snapshot over several statements.
        event.listen(self.engine, "connect", _configure)
        event.listen(self.engine, "begin", _begin)

    def exists(self) -> bool:
        """Whether a registry may be there; looks at no table."""
        return self.file.exists()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction in which every statement sees the same state."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, locks: Collection[str]) -> Iterator[Connection]:  # the file has one writer
        """A transaction that is alone in writing."""
        # Threads of one process take turns. SQLite has no queue: whoever looks again at the right moment writes next, and
        # among many others somebody never does.
        turn = _TURNS.setdefault((os.getpid(), self.file), threading.Lock())
        mine = turn.acquire(timeout=self._busy_timeout)  # without it SQLite says that the file is locked
        try:
            with self.engine.connect() as connection:
                connection = connection.execution_options(**{_WRITE: True})  # noqa: PLW2901  # the same connection
                with connection.begin():
                    yield connection
        finally:
            if mine:
                turn.release()

    def prepare_tables(self, connection: Connection) -> None:
        """Nothing: SQLite's text is Unicode."""

    def check_writable(self) -> None:
        """Raise where a commit would fail later: no right to write, a lock that stays, a disk that is full."""
        with self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITE: True})  # noqa: PLW2901  # the same connection
            with connection.begin() as transaction:
                # The first changed page opens the journal beside the file.
                connection.execute(update(schema.meta).values(value=schema.meta.c.value))
                transaction.rollback()
        if (free := shutil.disk_usage(self.file.parent).free) < _ROOM:
            raise RegistryError(
                f"the disk of the registry {self.file} has {free / 1e6:.1f} MB left, and a version may take "
                f"{_ROOM / 1e6:.0f} MB; make room first. Nothing was asked and nothing was changed"
            )

    def check_erasable(self) -> None:
        """Nothing: who may write may vacuum."""

    def compact(self) -> str:
        """Rewrite the file without its free pages, and empty a write-ahead log where somebody switched one on.

        Returns nothing in words: the search of the file says more.
        """
        raw = self.engine.raw_connection()
        try:
            cursor = raw.cursor()
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.close()
        finally:
            raw.close()
        return ""

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:
        """Search the bytes of the file and of a journal or log beside it, inside a transaction: nobody writes then."""
        definitions = (str(sql).encode() for (sql,) in connection.exec_driver_sql("SELECT sql FROM sqlite_master"))
        beside = (Path(f"{self.file}{suffix}") for suffix in ("-journal", "-wal"))
        files = (self.file, *(path for path in beside if path.exists()))
        size, found = residue.in_files(files, [*live, *definitions])
        return f"{size:,} bytes of the file", found

    def earlier_answers(self, judge: int) -> dict[str, bytes]:
        """What stopped aligns of a judge have kept, by key."""
        return kept_answers.earlier_answers(self.file, judge)

    def kept_answers(self, judge: int) -> kept_answers.KeptAnswers:
        """A place for the answers of one align."""
        return kept_answers.KeptAnswers(self.file, judge)

    def count_kept(self, judge: int) -> int:
        """How many answers stopped or running aligns of a judge have kept."""
        return kept_answers.count_kept(self.file, judge)

    def forget_kept(self, judge: int) -> None:
        """Remove all kept answers of a judge."""
        kept_answers.forget_kept(self.file, judge)

    def turn(self, judge: int) -> _Turn:
        """The turn of one align of a judge; not taken yet."""
        return _Turn(self.file.with_name(f"{self.file.name}-aligning-{judge}"))

    def explained(self, error: Exception) -> str:
        """What went wrong, in words that say what to do."""
        problem = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        path, folder = self.file, self.file.parent
        if "not a database" in problem:
            return f"{path} is not a registry: the file is no SQLite database; name another file"
        if "unable to open" in problem:
            if not folder.is_dir():
                return f"cannot open the registry {path}: the folder {folder} does not exist; create it first"
            if path.is_dir():
                return f"cannot open the registry {path}: it is a folder; name a file in it, such as memalign.db"
            if not os.access(folder, os.W_OK):
                return f"cannot open the registry {path}: the folder {folder} is read-only; use one you may write to"
            return f"cannot open the registry {path}: check that you may read and write it"
        if "readonly" in problem or "read-only" in problem:
            return f"cannot write to the registry {path}: the file or its folder is read-only; nothing was changed"
        if "locked" in problem or "busy" in problem:
            return (
                f"the registry {path} is locked: another process has been writing for more than "
                f"{self._busy_timeout:g} s; nothing was changed, try again when it has finished"
            )
        if "disk is full" in problem:
            return f"cannot write to the registry {path}: the disk is full; nothing was changed"
        if "malformed" in problem:
            return f"the registry {path} is damaged ({problem}); restore it from a copy, or import an exported bundle"
        return f"the registry {path} failed: {problem}; nothing was changed"


_OPTIONS = ("cache", "immutable", "mode", "nolock", "uri", "vfs")


def _as_options(url: URL) -> URL:
    """The URL in the form in which SQLite reads its options. Raises ConfigurationError for one that would do nothing."""
    if unknown := sorted(set(url.query) - set(_OPTIONS)):
        raise ConfigurationError(
            f"{url}: SQLite knows no option {unknown[0]}; it knows {', '.join(_OPTIONS)}, such as ?mode=ro to read only"
        )
    if not url.query or str(url.database).startswith("file:"):
        return url
    path = Path(str(url.database)).absolute()
    return url.set(database=f"file:{quote(str(path))}", query={**url.query, "uri": "true"})


class _Turn:
    """A locked file beside the registry."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._one_at_a_time = threading.Lock()

    def take(self) -> bool:
        with self._one_at_a_time:
            try:
                self._file = lock_file(self._path)
            except PermissionError:  # another user's: the turn spares work and guards nothing
                return True
            return self._file is not None

    def leave(self) -> None:
        with self._one_at_a_time:
            if self._file is not None:
                self._path.unlink(missing_ok=True)
                self._file.close()
                self._file = None


def _configure(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # `_begin` begins
    cursor = connection.cursor()
    # Deleted content is overwritten with zeros at once, not only when the page is needed again.
    for pragma in ("foreign_keys=ON", "secure_delete=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    write = connection.get_execution_options().get(_WRITE)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
