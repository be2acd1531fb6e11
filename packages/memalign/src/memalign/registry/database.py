"""The database under a registry, SQLite or PostgreSQL, used in transactions."""

from __future__ import annotations

import os
import re
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from memalign.errors import (
    ConfigurationError,
    JudgeNotFound,
    RegistryError,
    RegistryTooNew,
)
from memalign.registry.receipt import UNREACHABLE, UNREACHABLE_ON_POSTGRESQL
from memalign.registry.tables import SCHEMA_VERSION, meta, metadata, our_tables

__all__ = ["Database"]

_EXAMPLES = "sqlite:///memalign.db or postgresql+psycopg://user@host/database"
_SCHEME = re.compile(r"[\w+]{2,}:")  # and not the letter of a drive
_WRITE = "memalign_write"
_COPIED = 1 << 30  # bytes
_MOMENT = 0.2  # seconds that an attempt to commit waits
_BETWEEN = 0.05  # seconds between two attempts
_AGAIN = "nothing was changed, try again when it has finished"

_READERS = """
SELECT reader FROM (
    SELECT coalesce(backend_xmin, backend_xid) AS seen,
           'process ' || pid || coalesce(' of ' || nullif(application_name, ''), '') AS reader
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()
    UNION ALL
    SELECT transaction, 'prepared transaction ' || gid FROM pg_prepared_xacts
    WHERE database = current_database()
    UNION ALL
    SELECT xmin, 'replication slot ' || slot_name FROM pg_replication_slots
) AS readers
WHERE age(seen) > age(CAST(:now AS xid8)::xid) LIMIT 1
"""
"""Who reads or writes in a PostgreSQL database since before the transaction number `now`."""


class Database:
    """One registry's database, opened on construction (and created when there is none).

    Connections to a SQLite file are opened for every operation: threads and processes share
    nothing. Those to a server stay open, and are tried before they are used again. Errors are those
    of `Registry`.

    Attributes:
        url: Its address in messages; without a password.
        engine: SQLAlchemy's engine, for what no method here does.
        files: The files that hold it, a journal or log beside it included; none of a server, which
            are out of sight.
        unreachable: What an erasure cannot reach, and how to end that.
    """

    def __init__(self, url: str, *, busy_timeout: float, create: bool = True) -> None:
        parsed = _parsed(url)
        bare = parsed.difference_update_query(["password", "sslpassword"])
        self.url = bare.render_as_string(hide_password=True).replace(":***@", "@", 1)
        path = self.url.removeprefix("sqlite:///")
        self._at = unquote(path) if path != self.url else path  # as people write it
        self._timeout = busy_timeout
        self._milliseconds = max(1, round(busy_timeout * 1000))
        self._file: Path | None = None
        if parsed.get_backend_name() == "sqlite":
            self._file = Path(
                str(parsed.database)
            ).absolute()  # the process may change its folder
            self.engine = _sqlite(parsed, self._file, busy_timeout)
        else:
            self.engine = _postgresql(parsed, busy_timeout)
            weakref.finalize(self, self.engine.dispose)
        self.files = (
            [Path(f"{self._file}{suffix}") for suffix in ("", "-journal", "-wal")]
            if self._file
            else []
        )
        self.unreachable: tuple[str, ...] = (
            UNREACHABLE if self._file else UNREACHABLE_ON_POSTGRESQL
        )
        if create or self._file is None or self._file.exists():
            with self.read() as connection:
                if self._is_ours(connection):
                    return
        if not create:
            raise JudgeNotFound(
                f"no registry is at {self._at}; `memalign create` makes one, "
                "--registry names another"
            )
        with self.write() as connection:
            if not self._is_ours(connection):  # nobody else was quicker
                self._create(connection, metadata)

    def _create(self, connection: Connection, tables: MetaData) -> None:
        tables.create_all(connection)
        connection.execute(
            insert(meta).values(name="schema_version", value=str(SCHEMA_VERSION))
        )

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction in which every statement sees the same state."""
        snapshot = (
            {} if self._file is not None else {"isolation_level": "REPEATABLE READ"}
        )
        with self._connected(**snapshot) as connection, connection.begin():
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Open a transaction to read at leisure, of a copy in memory where there is a file.

        So nobody waits to write meanwhile. A file of more than a gigabyte is read where it is.
        """
        if self._file is None or self._file.stat().st_size > _COPIED:
            with self.read() as connection:
                yield connection
            return
        copy = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            with self.read() as connection:
                # A first statement waits for whoever writes, as long as any other does; a copy
                # would wait for ever.
                connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
                source: Any = connection.connection.driver_connection
                source.backup(copy)
            engine = create_engine(
                "sqlite://",
                creator=lambda: copy,
                poolclass=StaticPool,
                hide_parameters=True,
            )
            event.listen(engine, "connect", _configure)
            event.listen(engine, "begin", _begin)
            with engine.connect() as connection, connection.begin():
                yield connection
        finally:
            copy.close()

    @contextmanager
    def write(self, *locks: str) -> Iterator[Connection]:
        """Open a transaction that is committed whole or not at all.

        No other one with the same `locks` runs beside it. These are names of your own.
        SQLite has one lock for all.
        """
        with self._connected(**{_WRITE: True}) as connection, connection.begin():
            if self._file is None:
                connection.exec_driver_sql(
                    f"SET LOCAL lock_timeout = {self._milliseconds}"
                )
                # By name: a judge that is created has no row yet. In one order, or two might wait
                # for each other.
                for lock in sorted(locks or ("",)):
                    number = "hashtextextended('memalign ' || CAST(:lock AS text), 0)"
                    connection.execute(
                        text(f"SELECT pg_advisory_xact_lock({number})"), {"lock": lock}
                    )
            yield connection

    def check_writable(self) -> None:
        """Raise RegistryError if a commit would fail later, when model calls have cost money.

        Somebody who reads a file for long keeps others from committing, as a writer does.
        """
        until = time.monotonic() + self._timeout
        while self._file is not None:
            try:
                self._try_lock("EXCLUSIVE", _MOMENT)
            except sqlite3.OperationalError as error:
                if "is locked" not in str(error):
                    break  # and the transaction below says why
                if time.monotonic() > until:
                    raise RegistryError(self._explain_lock(self._who())) from None
                time.sleep(_BETWEEN)
            else:
                break
        # In a file the first changed page opens the journal beside it.
        with self.write() as connection:
            connection.execute(update(meta).values(value=meta.c.value))
            connection.rollback()

    def _try_lock(self, kind: str, seconds: float) -> None:
        """Take a lock on the file for a moment.

        Whoever waits for it longer keeps readers out meanwhile.
        """
        connection = sqlite3.connect(
            str(self._file), timeout=min(self._timeout, seconds), isolation_level=None
        )
        try:
            connection.execute(f"BEGIN {kind}")
            connection.execute("ROLLBACK")
        finally:
            connection.close()

    def _who(self) -> str:
        """Say what the process does that holds a file."""
        try:
            self._try_lock("IMMEDIATE", 0)
        except sqlite3.OperationalError:
            return "writing"
        return "reading"

    def compact(self) -> None:
        """Rewrite our tables, other packages' too, without what was deleted.

        No transaction may see that any more.
        """
        with self._connected(isolation_level="AUTOCOMMIT") as connection:
            if self._file is not None:
                # The log is emptied too, where somebody switched one on.
                for statement in (
                    "PRAGMA wal_checkpoint(TRUNCATE)",
                    "VACUUM",
                    "PRAGMA wal_checkpoint(TRUNCATE)",
                ):
                    connection.exec_driver_sql(statement)
                return
            self._wait_for_readers(
                connection
            )  # until they have ended it would be kept for them
            quote = connection.dialect.identifier_preparer.quote
            names = map(quote, our_tables(connection))
            connection.exec_driver_sql(f"SET lock_timeout = {self._milliseconds}")
            # The server skips a table that is another user's, and only warns.
            warnings = list[str]()

            def listen(notice: Any) -> None:
                warnings.append(str(notice.message_primary))

            driver: Any = connection.connection.driver_connection
            driver.add_notice_handler(listen)
            connection.exec_driver_sql(f"VACUUM (FULL) {', '.join(names)}")
            driver.remove_notice_handler(listen)
            connection.exec_driver_sql("RESET lock_timeout")
            if warnings:
                raise RegistryError(
                    f"the server says: {warnings[0]}; let the owner of the tables do it"
                )

    def _is_ours(self, connection: Connection) -> bool:
        """Return whether a registry of this format, the first, is there.

        Raises RegistryTooNew for another one.
        """
        if not inspect(connection).has_table(meta.name):
            return False
        written = connection.execute(
            select(meta.c.value).where(meta.c.name == "schema_version")
        ).scalar()
        if written != str(SCHEMA_VERSION):
            both = f"its schema is version {written}, this one reads up to version {SCHEMA_VERSION}"
            raise RegistryTooNew(
                f"{self.url} was written by a newer memalign: {both}; upgrade memalign to open it"
            )
        return True

    def _wait_for_readers(self, connection: Connection) -> None:
        until = time.monotonic() + self._timeout
        now = connection.exec_driver_sql(
            "SELECT pg_current_xact_id()::text"
        ).scalar_one()
        while reader := connection.execute(text(_READERS), {"now": now}).scalar():
            if time.monotonic() > until:
                raise RegistryError(
                    f"the server keeps deleted rows for an earlier transaction: {reader}; end it"
                )
            time.sleep(0.1)

    @contextmanager
    def _connected(self, **options: Any) -> Iterator[Connection]:
        try:
            with self.engine.connect() as connection:
                yield connection.execution_options(**options)
        except (SQLAlchemyError, sqlite3.Error) as error:
            cause = getattr(error, "orig", None) or error
            locked = "is locked" if getattr(cause, "sqlstate", None) == "55P03" else ""
            raise RegistryError(self._explain(locked or str(cause))) from error

    def _explain_lock(self, doing: str) -> str:
        waited = f"another process has been {doing} for more than {self._timeout:g} s"
        return f"{self._at} is locked: {waited}; {_AGAIN}"

    def _explain(self, problem: str) -> str:
        """Return what went wrong, in words that say what to do."""
        if "is locked" in problem:
            return self._explain_lock("writing")
        if "not a database" in problem:
            return (
                f"{self._at} is not a registry: the file is no SQLite database; "
                "name another file"
            )
        if "unable to open" in problem:
            return (
                f"cannot open the registry {self._at}: its folder must exist, and you need the "
                "right to write there"
            )
        line = " ".join(problem.split("\n", 1)[0].split())
        return (
            f"the registry {self._at} failed: {line}; what was committed before is kept, and "
            "nothing else"
        )


def _parsed(url: str) -> URL:
    bare_path = bool(url) and not _SCHEME.match(url)  # which most write
    try:
        parsed = make_url(f"sqlite:///{url}" if bare_path else url)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        without_user = re.sub(r"(?s)(:/*).*@", r"\1", url)
        bare = without_user.partition("?")[0]
        raise ConfigurationError(
            f"{bare!r} is not a registry's URL; one looks like {_EXAMPLES}"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        if parsed.query:
            raise ConfigurationError(
                "the address of a SQLite file takes no options after a question mark"
            )
        if parsed.database in (None, "", ":memory:"):
            raise ConfigurationError(
                f"{url!r} names no file; a registry in memory keeps nothing. Use {_EXAMPLES}"
            )
        return parsed
    if parsed.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ConfigurationError(
            f"registries on {parsed.drivername} are not supported; use {_EXAMPLES}"
        )
    return parsed.set(drivername="postgresql+psycopg")


def _sqlite(url: URL, file: Path, busy_timeout: float) -> Engine:
    engine = create_engine(
        url.set(database=str(file)),
        poolclass=NullPool,
        connect_args={"timeout": busy_timeout},
        hide_parameters=True,  # an error prints no feedback
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(connection: Any, _record: Any) -> None:
    # The driver's own transactions begin too late and too weak for a snapshot over several
    # statements: `_begin` begins.
    connection.isolation_level = None
    # Deleted content is overwritten with zeros at once, not only when the page is needed again.
    for pragma in ("foreign_keys=ON", "secure_delete=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        connection.exec_driver_sql(
            "BEGIN IMMEDIATE" if options.get(_WRITE) else "BEGIN"
        )


def _postgresql(url: URL, busy_timeout: float) -> Engine:
    defaults = {
        "client_encoding": "utf8",
        "application_name": "memalign",
        "connect_timeout": "10",  # seconds
    }
    try:
        import psycopg  # noqa: F401  # SQLAlchemy's driver
    except ImportError as error:
        remedy = "pip install 'psycopg[binary]', which memalign[postgresql] brings"
        raise ConfigurationError(
            f"a registry on PostgreSQL needs psycopg ({error}): {remedy}"
        ) from None
    engine = create_engine(
        url.set(query={**defaults, **url.query}),
        hide_parameters=True,
        pool_timeout=busy_timeout,
        pool_pre_ping=True,
        # A pooler between us and the server may know no prepared statements.
        connect_args={"prepare_threshold": None},
    )
    if hasattr(os, "register_at_fork"):
        # A child opens connections of its own: two processes on one would mix their answers.
        os.register_at_fork(after_in_child=lambda: engine.dispose(close=False))
    return engine
