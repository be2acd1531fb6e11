"""A registry in a PostgreSQL database. All that only PostgreSQL needs is here, in its errors and in `kept_rows`."""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, inspect, text
from sqlalchemy.exc import DBAPIError

from memalign.errors import ConfigurationError, RegistryError
from memalign.registry import schema
from memalign.registry.kept_rows import KeptRows, count_kept, forget_kept
from memalign.registry.postgresql_errors import explained
from memalign.registry.receipt import UNREACHABLE_ON_POSTGRESQL

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from memalign.registry.residue import Residue

__all__ = ["PostgreSQL"]

_CONNECT_TIMEOUT = 10  # seconds; the URL's own `connect_timeout` counts before it
_POOL, _MORE = 5, 10  # connections that are kept, and those beyond them while many work at once
_VACUUMS = 0.25  # seconds between two tries


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

    def lock_tables(self, connection: Connection, names: Collection[str]) -> None:
        """Keep everybody else from these tables until the transaction ends."""
        there = set(inspect(connection).get_table_names())
        for name in sorted(there.intersection(names)):
            connection.exec_driver_sql(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")

    def check_writable(self) -> None:
        """Raise where rights are missing, or the server can only be read."""
        # Rights and a read-only server show before any row is looked at; and there is none.
        rows, judges, runs = schema.rows.name, schema.judges.name, schema.runs.name
        with self.engine.connect() as connection, connection.begin():
            connection.exec_driver_sql(f"INSERT INTO {rows} SELECT * FROM {rows} WHERE false")  # noqa: S608  # our own names
            connection.exec_driver_sql(f"UPDATE {judges} SET latest = latest WHERE false")  # noqa: S608
            connection.exec_driver_sql(f"INSERT INTO {runs} SELECT * FROM {runs} WHERE false")  # noqa: S608

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
        """VACUUM FULL of our tables, again until no deleted row is kept for a transaction that could still see it."""
        until = time.monotonic() + self._busy_timeout
        query = (
            "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = current_schema() "
            "AND starts_with(tablename, 'memalign_') ORDER BY 1"
        )
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            tables = connection.exec_driver_sql(query).scalars().all()
            with _session_timeout(connection, self._busy_timeout):
                while left := _vacuumed(connection, tables):
                    if time.monotonic() > until:
                        raise RegistryError(
                            f"{left} deleted rows are kept on the server for a transaction that began before "
                            f"({_oldest_reader(connection)}); end it"
                        )
                    time.sleep(_VACUUMS)
                connection.exec_driver_sql(f"ANALYZE {', '.join(tables)}")  # statistics quote what is there
        return f"{', '.join(tables)}, by VACUUM FULL, which left no deleted row"

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:  # noqa: ARG002
        """Search the planner's statistics, which may quote columns: files of the server are out of sight from here."""
        query = (
            "SELECT tablename || '.' || attname, concat_ws(' ', most_common_vals::text, histogram_bounds::text) "
            "FROM pg_stats WHERE schemaname = current_schema() AND starts_with(tablename, 'memalign_')"
        )
        quoted = connection.exec_driver_sql(query).all()
        return "the server's statistics", [f"statistics of {at}" for at, words in quoted if residue.in_sentence(words)]

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


def _vacuumed(connection: Connection, tables: Sequence[str]) -> int:
    """Rewrite tables, and how many deleted rows had to be kept. Raises RegistryError where the server does not say."""
    told: list[str] = []
    raw: Any = connection.connection.driver_connection

    def hear(notice: Any) -> None:
        if notice.message_detail:
            told.append(str(notice.message_detail))

    raw.add_notice_handler(hear)
    try:
        connection.exec_driver_sql(f"VACUUM (FULL, VERBOSE) {', '.join(tables)}")
    finally:
        raw.remove_notice_handler(hear)
    # In any language of the server the number of such rows comes first.
    kept = [int(number[0]) for detail in told if (number := re.search(r"\d+", detail))]
    if len(kept) != len(tables):
        raise RegistryError(f"the server did not say what VACUUM FULL left of {', '.join(tables)}; please report this")
    return sum(kept)


def _oldest_reader(connection: Connection) -> str:
    query = text(
        "SELECT pid, coalesce(nullif(application_name, ''), 'a program'), xact_start FROM pg_stat_activity "
        "WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() ORDER BY age(backend_xmin) DESC LIMIT 1"
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return "a prepared transaction or a replication slot: see pg_prepared_xacts and pg_replication_slots"
    return f"process {row[0]} of {row[1]}, since {row[2]:%Y-%m-%d %H:%M:%S}" if row[2] else f"process {row[0]}"
