"""A registry in a PostgreSQL database. All that only PostgreSQL needs is here, in its errors and in `kept_rows`."""

from __future__ import annotations

import hashlib
import os
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from memalign.errors import ConfigurationError, RegistryError
from memalign.registry import schema
from memalign.registry.kept_rows import KeptRows, count_kept, earlier_answers, forget_kept
from memalign.registry.postgresql_errors import explained
from memalign.registry.receipt import UNREACHABLE_ON_POSTGRESQL

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from memalign.registry.residue import Residue

__all__ = ["PostgreSQL"]

_CONNECT_TIMEOUT = 10  # seconds; the URL's own `connect_timeout` counts before it
_POOL, _MORE = 5, 10  # connections that are kept, and those beyond them while many work at once
_LOOK = 0.1  # seconds between two looks at who still reads

_READERS = """
SELECT who FROM (
    SELECT backend_xmin AS seen, 'process ' || pid || coalesce(' of ' || nullif(application_name, ''), '')
           || coalesce(', since ' || xact_start::timestamp(0), '') AS who
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


class PostgreSQL:
    """A database on a server. Connections are kept and looked at before they are used again."""

    unreachable: tuple[str, ...] = UNREACHABLE_ON_POSTGRESQL

    def __init__(self, url: URL, *, busy_timeout: float) -> None:
        bare = url.difference_update_query(["password"])
        self.shown = bare.render_as_string(hide_password=True).replace(":***@", "@", 1)
        self._busy_timeout = busy_timeout
        if not url.database and "service" not in url.query:
            raise ConfigurationError(
                f"{self.shown} names no database; a registry's URL ends in one: postgresql+psycopg://user@host/database"
            )
        try:
            import psycopg  # noqa: F401  # SQLAlchemy's driver
        except ImportError as error:
            raise ConfigurationError(
                f"a registry on PostgreSQL needs psycopg ({error}): pip install 'psycopg[binary]', which memalign[postgresql] brings"
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
            _disposed_after_fork(self.engine)

    def exists(self) -> bool:
        """Whether a registry may be there; looks at no table."""
        return True

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction in which every statement sees the same state."""
        with self.engine.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")  # noqa: PLW2901  # the same one
            with connection.begin():
                yield connection

    @contextmanager
    def writing(self, locks: Collection[str]) -> Iterator[Connection]:
        """A transaction that, from its first statement on, no other with one of the same `locks` runs beside."""
        with self.engine.connect() as connection, connection.begin():
            # By name, and no row's lock: who creates a judge has no row yet. Every later statement sees what the one who
            # had the lock before has committed.
            self._timeout(connection)
            for number in sorted(
                _number("write", lock) for lock in locks
            ):  # in one order, or two might wait for each other
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": number})
            yield connection

    def prepare_tables(self, connection: Connection) -> None:
        """Raise RegistryError where the database has an encoding that cannot hold every text."""
        encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
        if encoding != "UTF8":
            raise RegistryError(
                f"{self.shown} has the encoding {encoding}, which cannot hold every text; make a database for the registry: "
                "CREATE DATABASE memalign ENCODING 'UTF8' TEMPLATE template0"
            )

    def check_writable(self) -> None:
        """Raise where rights are missing, or the server can only be read."""
        # Rights and a read-only server show before any row is looked at; and there is none.
        rows, judges, runs = schema.rows.name, schema.judges.name, schema.runs.name
        with self.engine.connect() as connection, connection.begin():
            connection.exec_driver_sql(f"INSERT INTO {rows} SELECT * FROM {rows} WHERE false")  # our own names
            connection.exec_driver_sql(f"UPDATE {judges} SET latest = latest WHERE false")
            connection.exec_driver_sql(f"INSERT INTO {runs} SELECT * FROM {runs} WHERE false")

    def check_erasable(self) -> None:
        """Raise RegistryError where another user owns the tables: only the owner may vacuum."""
        query = (
            "SELECT tablename, tableowner, current_user FROM pg_tables WHERE schemaname = current_schema() "
            "AND starts_with(tablename, 'memalign_') AND NOT pg_has_role(tableowner, 'USAGE')"
        )
        with self.engine.connect() as connection:
            others = connection.exec_driver_sql(query).all()
        if others:
            table, owner, user = others[0]
            raise RegistryError(
                f"only the owner of {table} can wipe what is erased from {self.shown}: erase as {owner!r}, or let "
                f"the owner GRANT {owner} TO {user}. Nothing was changed"
            )

    def compact(self) -> str:
        """VACUUM FULL of our tables, once nobody can see what was deleted: until then it would be kept."""
        query = (
            "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() "
            "AND starts_with(tablename, 'memalign_') ORDER BY 1"
        )
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            self._wait_for_readers(connection)
            tables = connection.exec_driver_sql(query).scalars().all()
            with _session_timeout(connection, self._busy_timeout):
                connection.exec_driver_sql(f"VACUUM (FULL) {', '.join(tables)}")
                connection.exec_driver_sql(f"ANALYZE {', '.join(tables)}")  # statistics quote what is there
        return f"{len(tables)} tables, by VACUUM FULL, when no transaction could see deleted rows any more"

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
        """Search the planner's statistics, which may quote columns: files of the server are out of sight from here."""
        query = (
            "SELECT tablename || '.' || attname, concat_ws(' ', most_common_vals::text, histogram_bounds::text) "
            "FROM pg_stats WHERE schemaname = current_schema() AND starts_with(tablename, 'memalign_')"
        )
        quoted = connection.exec_driver_sql(query).all()
        return "the server's statistics", [f"statistics of {at}" for at, words in quoted if residue.in_sentence(words)]

    def earlier_answers(self, judge: int) -> dict[str, bytes]:
        """What stopped aligns of a judge have kept, by key."""
        with self.reading() as connection:
            return earlier_answers(connection, judge)

    def kept_answers(self, judge: int) -> KeptRows:
        """A place for the answers of one align."""
        return KeptRows(self.engine, judge, self.explained)

    def count_kept(self, judge: int) -> int:
        """How many answers stopped or running aligns of a judge have kept."""
        with self.reading() as connection:
            return count_kept(connection, judge)

    def forget_kept(self, judge: int) -> None:
        """Remove all kept answers of a judge."""
        with self.engine.connect() as connection, connection.begin():
            self._timeout(connection)
            forget_kept(connection, judge)

    def turn(self, judge: int) -> _Turn:
        """The turn of one align of a judge; not taken yet."""
        return _Turn(self.engine, _number("turn", str(judge)))

    def explained(self, error: Exception) -> str:
        """What went wrong, in words that say what to do."""
        return explained(error, self.shown, self._busy_timeout)

    def _timeout(self, connection: Connection) -> None:
        milliseconds = str(max(1, round(self._busy_timeout * 1000)))
        connection.execute(text("SELECT set_config('lock_timeout', :ms, true)"), {"ms": milliseconds})


class _Turn:
    """A lock that lasts as long as a transaction. It is spared work only, so a lost connection is no error."""

    def __init__(self, engine: Engine, number: int) -> None:
        self._engine, self._number = engine, number
        self._connection: Connection | None = None
        self._one_at_a_time = threading.Lock()

    def take(self) -> bool:
        with self._one_at_a_time:
            try:
                connection = self._engine.connect()
                got = connection.execute(text("SELECT pg_try_advisory_xact_lock(:n)"), {"n": self._number}).scalar_one()
            except DBAPIError:
                return True
            if got:
                self._connection = connection
            else:
                connection.close()
            return bool(got)

    def leave(self) -> None:
        with self._one_at_a_time:
            if self._connection is not None:
                with suppress(DBAPIError):
                    self._connection.close()
                self._connection = None


def _number(kind: str, name: str) -> int:
    """The number of an advisory lock: a hash, since other programs in the database may have locks of their own."""
    digest = hashlib.sha256(f"memalign\0{kind}\0{name}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], signed=True)


def _disposed_after_fork(engine: Engine) -> None:
    """A child process opens connections of its own: two processes on one would mix their answers."""
    known = weakref.ref(engine)

    def forget() -> None:
        if (found := known()) is not None:
            found.dispose(close=False)

    os.register_at_fork(after_in_child=forget)


@contextmanager
def _session_timeout(connection: Connection, seconds: float) -> Iterator[None]:
    """Outside of transactions a setting lasts for the session, so that it is taken back."""
    connection.execute(
        text("SELECT set_config('lock_timeout', :ms, false)"), {"ms": str(max(1, round(seconds * 1000)))}
    )
    yield
    connection.exec_driver_sql("RESET lock_timeout")
