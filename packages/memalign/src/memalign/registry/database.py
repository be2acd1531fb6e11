"""The database under a registry: connections, transactions, and errors that say what to do.

All that only SQLite needs is in this file.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, insert, inspect, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from memalign.errors import ConfigurationError, RegistryError, RegistryTooNew
from memalign.registry import schema
from memalign.registry.old_formats import migrate_from_1

__all__ = ["Database"]

_WRITE = "memalign_write"


class Database:
    """One registry's database, opened on construction (and created when there is none).

    Raises ConfigurationError for a URL that cannot be one, RegistryTooNew, and RegistryError with what to do when the
    file cannot be opened or is none of ours.
    """

    def __init__(self, url: str, *, busy_timeout: float) -> None:
        self.url = url
        self.busy_timeout = busy_timeout
        parsed = _parsed(url)
        # One connection an operation: threads and processes share nothing, and no handle outlives its use.
        self.engine: Engine = create_engine(
            parsed,
            poolclass=NullPool,
            hide_parameters=True,  # an error must not print feedback
            connect_args={"timeout": busy_timeout},
        )
        # The driver's own transactions begin too late and too weak for a snapshot over several statements.
        event.listen(self.engine, "connect", _configure)
        event.listen(self.engine, "begin", _begin)
        self.path = Path(parsed.database or "")
        self._open()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction in which every statement sees the same state."""
        with self._errors(), self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is alone in writing from its first statement on, and is committed whole or not at all."""
        with self._errors(), self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITE: True})  # noqa: PLW2901  # the same connection
            with connection.begin():
                yield connection

    def check_writable(self) -> None:
        """Raise RegistryError where a commit would fail later: no right to write, a lock that stays, a disk that is full.

        Asked before model calls that cost money. Nothing is changed.
        """
        with self._errors(), self.engine.connect() as connection:
            connection = connection.execution_options(**{_WRITE: True})  # noqa: PLW2901  # the same connection
            with connection.begin() as transaction:
                # The first changed page opens the journal beside the file.
                connection.execute(update(schema.meta).values(value=schema.meta.c.value))
                transaction.rollback()
        folder = self._file().absolute().parent
        if (free := shutil.disk_usage(folder).free) < _ROOM:
            raise RegistryError(
                f"the disk of the registry {self._file()} has {free / 1e6:.1f} MB left, and a version may take "
                f"{_ROOM / 1e6:.0f} MB; make room first. Nothing was asked and nothing was changed"
            )

    def compact(self) -> None:
        """Rewrite the file without its free pages, and empty a write-ahead log where somebody switched one on."""
        with self._errors():
            raw = self.engine.raw_connection()
            try:
                cursor = raw.cursor()
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                cursor.execute("VACUUM")
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                cursor.close()
            finally:
                raw.close()

    def definitions(self, connection: Connection) -> tuple[bytes, ...]:
        """The texts in which the file defines its tables."""
        return tuple(str(sql).encode() for (sql,) in connection.exec_driver_sql("SELECT sql FROM sqlite_master"))

    @property
    def file(self) -> Path:
        """The database's main file."""
        return self._file()

    @property
    def files(self) -> tuple[Path, ...]:
        """The database's files that exist now: itself, and a journal or log beside it."""
        name = self._file()
        beside = (Path(f"{name}{suffix}") for suffix in ("-journal", "-wal"))
        return (name, *(path for path in beside if path.exists()))

    # -- opening -------------------------------------------------------------------------------------------------

    def _file(self) -> Path:
        text = str(self.path)
        return Path(text.removeprefix("file:").partition("?")[0]) if text.startswith("file:") else self.path

    def _open(self) -> None:
        with self.read() as connection:
            found = self._version(connection)
        if found == schema.SCHEMA_VERSION:
            return
        try:
            with self.write() as connection:
                found = self._version(connection)  # somebody else may have been quicker
                if found is None:
                    self._create(connection)
                elif found < schema.SCHEMA_VERSION:
                    migrate_from_1(connection)
        except RegistryError as error:
            if found is None:
                raise
            raise RegistryError(
                f"{self.url} has the format of an older memalign and is rewritten when it is opened; copy it to where you "
                f"may write, or try again: {error}"
            ) from error

    def _create(self, connection: Connection) -> None:
        schema.metadata.create_all(connection)
        values = {"schema_version": str(schema.SCHEMA_VERSION), "secret": secrets.token_hex(32)}
        connection.execute(insert(schema.meta), [{"name": name, "value": value} for name, value in values.items()])

    def _version(self, connection: Connection) -> int | None:
        """The schema's version, or None where there is no registry yet. Raises RegistryTooNew."""
        if not inspect(connection).has_table(schema.meta.name):
            return None
        found = int(self.meta(connection, "schema_version"))
        if found > schema.SCHEMA_VERSION:
            raise RegistryTooNew(
                f"{self.url} was written by a newer memalign: its schema is version {found}, this one reads up to "
                f"version {schema.SCHEMA_VERSION}; upgrade memalign to open it"
            )
        return found

    def meta(self, connection: Connection, name: str) -> str:
        """One value of the meta table."""
        value = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == name)).scalar()
        if value is None:
            raise RegistryError(f"{self.url} is damaged: its meta table has no {name}")
        return str(value)

    # -- errors --------------------------------------------------------------------------------------------------

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise RegistryError(self._explained(str(error.orig))) from error
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise RegistryError(self._explained(str(error))) from error

    def _explained(self, problem: str) -> str:
        path, folder = self._file(), self._file().absolute().parent
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
                f"{self.busy_timeout:g} s; nothing was changed, try again when it has finished"
            )
        if "disk is full" in problem:
            return f"cannot write to the registry {path}: the disk is full; nothing was changed"
        if "malformed" in problem:
            return f"the registry {path} is damaged ({problem}); restore it from a copy, or import an exported bundle"
        return f"the registry {path} failed: {problem}; nothing was changed"


_ROOM = 8_000_000
"""Bytes that must be free before an align: a version of some thousand cases."""
_SCHEME = re.compile(r"[\w+]{2,}:")  # and not the letter of a drive


def _parsed(url: str) -> URL:
    example = "sqlite:///memalign.db"
    try:
        # A bare path is what most people write first.
        parsed = make_url(f"sqlite:///{url}" if url and not _SCHEME.match(url) else url)
    except ArgumentError:
        raise ConfigurationError(f"{url!r} is not a registry's URL; one looks like {example}") from None
    if parsed.get_backend_name() != "sqlite":
        raise ConfigurationError(f"{parsed.get_backend_name()} registries are not supported yet; use {example}")
    if not parsed.database or parsed.database == ":memory:" or "mode=memory" in parsed.database:
        raise ConfigurationError(f"{url!r} names no file, and a registry in memory keeps nothing; use {example}")
    # Absolute from here on: the process may change its folder, and connections are made anew for every operation.
    scheme, name = ("file:", parsed.database[5:]) if parsed.database.startswith("file:") else ("", parsed.database)
    return parsed.set(database=f"{scheme}{Path(name).absolute()}")


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
