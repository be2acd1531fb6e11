"""The database under a registry, SQLite or PostgreSQL: opened or created, and used in transactions."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sqlite3
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from sqlalchemy import (
    Connection,
    Engine,
    MetaData,
    NullPool,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from memalign.errors import ConfigurationError, JudgeNotFound, RegistryError, RegistryTooNew
from memalign.registry.receipt import UNREACHABLE, UNREACHABLE_ON_POSTGRESQL
from memalign.registry.tables import SCHEMA_VERSION, answers, judges, meta, metadata, rows

if TYPE_CHECKING:
    from memalign.registry.residue import Residue

__all__ = ["Database"]

_EXAMPLES = "sqlite:///memalign.db or postgresql+psycopg://user@host/database"
_SCHEME = re.compile(r"[\w+]{2,}:")  # and not the letter of a drive
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")


class Database:
    """One registry's database, opened on construction (and created when there is none).

    Attributes:
        url: Its address in messages; without a password.
        engine: SQLAlchemy's engine, for what no method here does.
        unreachable: What an erasure cannot reach, and how to end that.

    Args:
        url: SQLAlchemy's address of it, or the path of a SQLite file.
        busy_timeout: How many seconds to wait for others who write.
        create: Whether it may be made.

    Raises:
        ConfigurationError: The URL cannot be one.
        JudgeNotFound: There is no registry, and none may be made.
        RegistryTooNew: A newer memalign wrote it.
        RegistryError: It cannot be opened, or is none of ours.
    """

    def __init__(self, url: str, *, busy_timeout: float, create: bool = True) -> None:
        self._backend = _backend(url, busy_timeout)
        self.url, self.engine = self._backend.address, self._backend.engine
        self.unreachable = self._backend.unreachable
        missing = JudgeNotFound(
            f"there is no registry at {self.url.removeprefix('sqlite:///')}. `memalign create` makes one; --registry "
            "or MEMALIGN_REGISTRY names another"
        )
        if not create and not self._backend.exists():
            raise missing
        with self.read() as connection:
            if self._is_ours(connection):
                return
        if not create:
            raise missing
        with self.write() as connection:
            if not self._is_ours(connection):  # nobody else was quicker
                self._create(connection, metadata)

    def _create(self, connection: Connection, tables: MetaData) -> None:
        self._backend.check_encoding(connection)
        tables.create_all(connection)
        first = {"schema_version": str(SCHEMA_VERSION), "secret": secrets.token_hex(32)}
        connection.execute(insert(meta), [{"name": name, "value": value} for name, value in first.items()])

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction in which every statement sees the same state."""
        with self._errors(), self._backend.reading() as connection:
            yield connection

    @contextmanager
    def write(self, *locks: str) -> Iterator[Connection]:
        """A transaction that is committed whole or not at all.

        From its first statement on no other one runs beside it that has one of its `locks`, names of your own, or none
        as this one. SQLite has one lock for all.
        """
        with self._errors(), self._backend.writing(locks or ("",)) as connection:
            yield connection

    def check_writable(self) -> None:
        """Raise RegistryError where a commit would fail later: no right to write, a lock, a disk that is full.

        Called before model calls that cost money. Nothing is changed.
        """
        with self._errors():
            self._backend.check_writable()

    def check_erasable(self) -> None:
        """Raise RegistryError where what is erased could not be wiped. Nothing is changed."""
        with self._errors():
            self._backend.check_erasable()

    def compact(self) -> str:
        """Rewrite our tables, other packages' too, without what was deleted; returns what, in words for a receipt."""
        with self._errors():
            return self._backend.compact()

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:
        """What was searched outside the rows, in words, and what of the erased was found there.

        `live` are all bytes that rows hold: what is found in them was searched for already.
        """
        return self._backend.search(connection, residue, live)

    def meta(self, connection: Connection, name: str) -> str:
        """One value of the meta table."""
        value = connection.execute(select(meta.c.value).where(meta.c.name == name)).scalar()
        if value is None:
            raise RegistryError(f"{self.url} is damaged: its meta table has no {name}")
        return str(value)

    def _is_ours(self, connection: Connection) -> bool:
        """Whether a registry of this format is there. Raises RegistryTooNew and RegistryError for another one."""
        if not inspect(connection).has_table(meta.name):
            return False
        written, ours = self.meta(connection, "schema_version"), SCHEMA_VERSION
        if written == str(ours):
            return True
        if written.isdecimal() and int(written) > ours:
            raise RegistryTooNew(
                f"{self.url} was written by a newer memalign: its schema is version {written}, this one reads up to "
                f"version {ours}; upgrade memalign to open it"
            )
        raise RegistryError(f"{self.url} has a registry of the format {written!r}, which this memalign cannot read")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise RegistryError(self._backend.explain(error)) from error


def _backend(url: str, busy_timeout: float) -> _SQLite | _PostgreSQL:
    try:
        # A bare path is what most people write first.
        parsed = make_url(f"sqlite:///{url}" if url and not _SCHEME.match(url) else url)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        scheme, slashes, rest = url.partition("://")
        bare = f"{scheme}{slashes}{rest.rpartition('@')[2]}"  # without user and password
        raise ConfigurationError(f"{bare!r} is not a registry's URL; one looks like {_EXAMPLES}") from None
    if parsed.get_backend_name() == "sqlite":
        return _SQLite(parsed, busy_timeout)
    if parsed.drivername not in _POSTGRESQL:
        raise ConfigurationError(f"registries on {parsed.drivername} are not supported; use {_EXAMPLES}")
    return _PostgreSQL(parsed.set(drivername="postgresql+psycopg"), busy_timeout)


# -- SQLite ----------------------------------------------------------------------------------------------------------

_WRITE = "memalign_write"
_WRITERS: dict[tuple[int, Path], threading.Lock] = {}
"""The right to write a file, by process: a child has its own."""
_ROOM = 8_000_000
"""Bytes that must be free before an align: a version of some thousand cases."""
_OPTIONS = ("cache", "immutable", "mode", "nolock", "uri", "vfs")


class _SQLite:
    """A file, opened for every operation: threads and processes share nothing, and no handle outlives its use."""

    unreachable = UNREACHABLE

    def __init__(self, url: URL, busy_timeout: float) -> None:
        self.address = str(url)
        self._busy_timeout = busy_timeout
        if not url.database or url.database == ":memory:" or "mode=memory" in url.database:
            raise ConfigurationError(
                f"{self.address!r} names no file, and a registry in memory keeps nothing; use sqlite:///memalign.db"
            )
        # Absolute from here on: the process may change its folder, and connections are opened for every operation.
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
        return self.file.exists()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, locks: Collection[str]) -> Iterator[Connection]:  # the file has one writer
        # Threads of one process queue here. SQLite has no queue: whoever looks again at the right moment writes next,
        # and among many others somebody never does.
        lock = _WRITERS.setdefault((os.getpid(), self.file), threading.Lock())
        locked = lock.acquire(timeout=self._busy_timeout)  # without it SQLite says that the file is locked
        try:
            with self.engine.connect() as connection:
                writer = connection.execution_options(**{_WRITE: True})
                with writer.begin():
                    yield writer
        finally:
            if locked:
                lock.release()

    def check_encoding(self, connection: Connection) -> None:
        """Nothing: SQLite's text is Unicode."""

    def check_writable(self) -> None:
        with self.writing(()) as connection:
            # The first changed page opens the journal beside the file.
            connection.execute(update(meta).values(value=meta.c.value))
            connection.rollback()
        if (free := shutil.disk_usage(self.file.parent).free) < _ROOM:
            raise RegistryError(
                f"the disk of the registry {self.file} has {free / 1e6:.1f} MB left, and a version may take "
                f"{_ROOM / 1e6:.0f} MB; make room first. Nothing was asked and nothing was changed"
            )

    def check_erasable(self) -> None:
        """Nothing: who may write may vacuum."""

    def compact(self) -> str:
        """Rewrite the file without its free pages, and empty a write-ahead log where somebody switched one on."""
        raw = self.engine.raw_connection()
        try:
            cursor = raw.cursor()
            for statement in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                cursor.execute(statement)
            cursor.close()
        finally:
            raw.close()
        return ""  # the search of the file says more

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:
        """The bytes of the file and of a journal or log beside it, inside a transaction: nobody writes then."""
        definitions = [str(sql).encode() for (sql,) in connection.exec_driver_sql("SELECT sql FROM sqlite_master")]
        beside = (Path(f"{self.file}{suffix}") for suffix in ("-journal", "-wal"))
        files = (self.file, *(path for path in beside if path.exists()))
        size, traces = residue.in_files(files, chain(live, definitions))
        return f"{size:,} bytes of the file", traces

    def explain(self, error: Exception) -> str:
        """What went wrong, in words that say what to do."""
        problem = str(error.orig) if isinstance(error, DBAPIError) else str(error)
        path, folder = self.file, self.file.parent
        if "not a database" in problem:
            return f"{path} is not a registry: the file is no SQLite database; name another file"
        if "unable to open" in problem:
            advice = "check that you may read and write it"
            if not folder.is_dir():
                advice = f"the folder {folder} does not exist; create it first"
            elif path.is_dir():
                advice = "it is a folder; name a file in it, such as memalign.db"
            elif not os.access(folder, os.W_OK):
                advice = f"the folder {folder} is read-only; use one you may write to"
            return f"cannot open the registry {path}: {advice}"
        if "readonly" in problem or "read-only" in problem:
            return f"cannot write to the registry {path}: the file or its folder is read-only; nothing was changed"
        if "locked" in problem or "busy" in problem:
            return _locked(f"the registry {path}", self._busy_timeout)
        if "disk is full" in problem:
            return f"cannot write to the registry {path}: the disk is full; nothing was changed"
        if "malformed" in problem:
            return f"the registry {path} is damaged ({problem}); restore it from a copy, or import an exported bundle"
        return f"the registry {path} failed: {problem}; nothing was changed"


def _as_options(url: URL) -> URL:
    """The URL in which SQLite reads its options. Raises ConfigurationError for one that would do nothing."""
    if unknown := sorted(set(url.query) - set(_OPTIONS)):
        raise ConfigurationError(
            f"{url}: SQLite knows no option {unknown[0]}; it knows {', '.join(_OPTIONS)}, such as ?mode=ro to read only"
        )
    if not url.query or str(url.database).startswith("file:"):
        return url
    path = Path(str(url.database)).absolute()
    return url.set(database=f"file:{quote(str(path))}", query={**url.query, "uri": "true"})


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


# -- PostgreSQL ------------------------------------------------------------------------------------------------------

_CONNECT_TIMEOUT = 10  # seconds; the URL's own `connect_timeout` counts before it
_POOL, _MORE = 5, 10  # connections that stay open, and those beyond them while many work at once
_LOOK = 0.1  # seconds between two looks at who still reads

_READERS = """
SELECT reader FROM (
    SELECT backend_xmin AS seen, 'process ' || pid || coalesce(' of ' || nullif(application_name, ''), '')
           || coalesce(', since ' || xact_start::timestamp(0), '') AS reader
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
    UNION ALL
    SELECT backend_xid, 'process ' || pid
    FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (datname = current_database() OR datname IS NULL)
    UNION ALL
    SELECT transaction, 'prepared transaction ' || gid FROM pg_prepared_xacts WHERE database = current_database()
    UNION ALL
    SELECT xmin, 'replication slot ' || slot_name FROM pg_replication_slots
) AS readers
WHERE seen IS NOT NULL AND age(seen) > age(CAST(:now AS xid8)::xid)
ORDER BY age(seen) DESC LIMIT 1
"""
"""Whoever reads, or writes, since before the transaction number `now`: the oldest one."""

_OUR_TABLES = "FROM pg_tables WHERE schemaname = current_schema() AND starts_with(tablename, 'memalign_')"


class _PostgreSQL:
    """A database on a server. Connections stay open and are tried before they are used again."""

    unreachable = UNREACHABLE_ON_POSTGRESQL

    def __init__(self, url: URL, busy_timeout: float) -> None:
        bare = url.difference_update_query(["password"])
        self.address = bare.render_as_string(hide_password=True).replace(":***@", "@", 1)
        self._busy_timeout = busy_timeout
        if not url.database and "service" not in url.query:
            raise ConfigurationError(
                f"{self.address} names no database; a registry's URL ends in one: "
                "postgresql+psycopg://user@host/database"
            )
        try:
            import psycopg  # noqa: F401  # SQLAlchemy's driver
        except ImportError as error:
            raise ConfigurationError(
                f"a registry on PostgreSQL needs psycopg ({error}): pip install 'psycopg[binary]', which "
                "memalign[postgresql] brings"
            ) from None
        self.engine: Engine = create_engine(
            url,
            hide_parameters=True,  # an error must not print feedback
            pool_size=_POOL,
            max_overflow=_MORE,
            pool_timeout=busy_timeout,
            pool_pre_ping=True,
            connect_args={
                "client_encoding": "utf8",
                "application_name": "memalign",
                "prepare_threshold": None,  # a pooler between us and the server may know none of them
                **({} if "connect_timeout" in url.query else {"connect_timeout": _CONNECT_TIMEOUT}),
            },
        )
        weakref.finalize(self, self.engine.dispose)
        if hasattr(os, "register_at_fork"):
            _dispose_after_fork(self.engine)

    def exists(self) -> bool:
        return True  # its tables say more

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            snapshot = connection.execution_options(isolation_level="REPEATABLE READ")
            with snapshot.begin():
                yield snapshot

    @contextmanager
    def writing(self, locks: Collection[str]) -> Iterator[Connection]:
        with self.engine.connect() as connection, connection.begin():
            # By name, and no row's lock: a judge that is created has no row yet. Every later statement sees what
            # whoever had the lock before has committed.
            self._set_timeout(connection, of_transaction=True)
            # In one order, or two might wait for each other.
            for number in sorted(map(_number, locks)):
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": number})
            yield connection

    def check_encoding(self, connection: Connection) -> None:
        """Raise RegistryError where the database has an encoding that cannot hold every text."""
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise RegistryError(
                f"{self.address} has the encoding {encoding}, which cannot hold every text; make a database for the "
                "registry: CREATE DATABASE memalign ENCODING 'UTF8' TEMPLATE template0"
            )

    def check_writable(self) -> None:
        # Rights and a read-only server show before any row is looked at; and there is none.
        with self.engine.connect() as connection, connection.begin():
            for table in (rows.name, answers.name):
                connection.exec_driver_sql(f"INSERT INTO {table} SELECT * FROM {table} WHERE false")  # our own names
            connection.exec_driver_sql(f"UPDATE {judges.name} SET latest = latest WHERE false")

    def check_erasable(self) -> None:
        """Raise RegistryError where another user owns the tables: only the owner may vacuum."""
        query = f"SELECT tablename, tableowner, current_user {_OUR_TABLES} AND NOT pg_has_role(tableowner, 'USAGE')"
        with self.engine.connect() as connection:
            others = connection.exec_driver_sql(query).all()
        if others:
            table, owner, user = others[0]
            raise RegistryError(
                f"only the owner of {table} can wipe what is erased from {self.address}: erase as {owner!r}, or let "
                f"the owner GRANT {owner} TO {user}. Nothing was changed"
            )

    def compact(self) -> str:
        """VACUUM FULL of our tables, once nobody can see what was deleted: until then it would be kept."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            self._wait_for_readers(connection)
            query = f"SELECT quote_ident(tablename) {_OUR_TABLES} ORDER BY 1"
            names = connection.exec_driver_sql(query).scalars().all()
            self._set_timeout(connection, of_transaction=False)
            connection.exec_driver_sql(f"VACUUM (FULL) {', '.join(names)}")
            connection.exec_driver_sql(f"ANALYZE {', '.join(names)}")  # statistics quote what is there
            connection.exec_driver_sql("RESET lock_timeout")
        return f"{len(names)} tables, by VACUUM FULL, when no transaction could see deleted rows any more"

    def _wait_for_readers(self, connection: Connection) -> None:
        """Until every transaction of before has ended, also those on standbys that ask for rows to be kept."""
        until = time.monotonic() + self._busy_timeout
        now = connection.exec_driver_sql("SELECT pg_current_xact_id()::text").scalar_one()
        while reader := connection.execute(text(_READERS), {"now": now}).scalar():
            if time.monotonic() > until:
                raise RegistryError(
                    f"the server keeps deleted rows for a transaction that began before: {reader}; end it"
                )
            time.sleep(_LOOK)

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:
        """The planner's statistics, which may quote columns: files of the server are out of sight from here."""
        query = (
            "SELECT tablename || '.' || attname, concat_ws(' ', most_common_vals::text, histogram_bounds::text) "
            "FROM pg_stats WHERE schemaname = current_schema() AND starts_with(tablename, 'memalign_')"
        )
        quoted = connection.exec_driver_sql(query).all()
        return "the server's statistics", [f"statistics of {at}" for at, words in quoted if residue.in_sentence(words)]

    def _set_timeout(self, connection: Connection, *, of_transaction: bool) -> None:
        milliseconds = str(max(1, round(self._busy_timeout * 1000)))
        query = text("SELECT set_config('lock_timeout', :milliseconds, :of_transaction)")
        connection.execute(query, {"milliseconds": milliseconds, "of_transaction": of_transaction})

    def explain(self, error: Exception) -> str:
        """What went wrong, in words that say what to do: by the server's code, else by libpq's words."""
        if isinstance(error, PoolTimeout):
            return f"all connections of this process to {self.address} were busy for {self._busy_timeout:g} s"
        if not isinstance(error, DBAPIError):
            return f"the registry {self.address} failed: {error}; nothing was changed"
        problem, code = str(error.orig), getattr(error.orig, "sqlstate", None) or ""
        line = " ".join(problem.split("\n", 1)[0].split())
        if code == "55P03":
            return _locked(self.address, self._busy_timeout)
        for codes, words, advice in _ADVICE:
            if code in codes or (not code and any(part in problem for part in words)):
                database = self.address.rpartition("/")[2].partition("?")[0]
                return advice.format(at=self.address, problem=line, database=database)
        if "connection failed" in line or code.startswith(("08", "28", "53", "57")):
            return f"cannot open the registry {self.address}: {line}"
        return f"the registry {self.address} failed: {line}; nothing was changed"


_ADVICE: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    (
        ("57P01", "57P02", "08000", "08003", "08006", "25P03"),
        ("server closed the connection", "connection is lost", "terminating connection", "connection not open"),
        "the connection to {at} was lost ({problem}); what was committed is kept, and nothing else: `memalign history` "
        "shows the newest version. Try again when the server is back",
    ),
    (("25006",), (), "{at} can only be read: the server or the session is read-only; nothing was changed"),
    (("53100",), (), "the disk of the server is full; nothing was changed"),
    (
        ("42501",),
        (),
        "the user may not do this ({problem}); the owner of the database can allow it, such as by GRANT ALL ON SCHEMA "
        "public TO the_user; nothing was changed",
    ),
    (("42P01",), (), "{at} is damaged: {problem}; restore it from a backup, or import an exported bundle"),
    (
        ("54000",),
        (),
        "an id, a source or a name is too long for PostgreSQL, which takes about 2,600 bytes ({problem}); shorten it",
    ),
    (("22021",), ("NUL",), "an id, a name or a note holds the character 0, which PostgreSQL cannot keep; take it out"),
    (
        ("3D000",),
        ("does not exist",),
        "cannot open the registry {at}: the server has no database of that name; create it first, such as by "
        "`createdb {database}`, or name another",
    ),
    (
        ("28P01",),
        ("password authentication failed",),
        "cannot open the registry {at}: the user or the password is wrong; check both, PGPASSWORD and ~/.pgpass",
    ),
    (
        (),
        ("no password supplied",),
        "cannot open the registry {at}: a password is needed: in the URL, in PGPASSWORD or in ~/.pgpass",
    ),
    (
        (),
        ("Connection refused", "No such file", "timeout expired", "translate host name", "resolve host"),
        "cannot open the registry {at}: no server answers there; check host and port, that it is running, and a "
        "firewall between",
    ),
)
"""What an error means: by the server's code, or where there is none by what the driver says."""


def _locked(registry: str, patience: float) -> str:
    return (
        f"{registry} is locked: another process has been writing for more than {patience:g} s; nothing was changed, "
        "try again when it has finished"
    )


def _number(lock: str) -> int:
    """The number of an advisory lock: a hash, since other programs in the database may have locks of their own."""
    digest = hashlib.sha256(f"memalign\0{lock}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], signed=True)


def _dispose_after_fork(engine: Engine) -> None:
    """A child process opens connections of its own: two processes on one would mix their answers."""
    reference = weakref.ref(engine)

    def dispose() -> None:
        if (engine := reference()) is not None:
            engine.dispose(close=False)

    os.register_at_fork(after_in_child=dispose)
