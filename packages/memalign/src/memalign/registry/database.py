"""The database under a registry: opened or created, and used in transactions."""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from memalign.errors import ConfigurationError, JudgeNotFound, RegistryError, RegistryTooNew
from memalign.registry import schema
from memalign.registry.backend import Backend, KeptAnswers, Turn, hidden
from memalign.registry.sqlite import SQLite
from memalign.registry.table_versions import Tables

if TYPE_CHECKING:
    from memalign.registry.residue import Residue

__all__ = ["Database"]

EXAMPLES = "sqlite:///memalign.db or postgresql+psycopg://user@host/database"
_SCHEME = re.compile(r"[\w+]{2,}:")  # and not the letter of a drive
_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")

TABLES = Tables(
    name="schema_version",
    metadata=schema.metadata,
    version=schema.SCHEMA_VERSION,
    first=lambda: {"secret": secrets.token_hex(32)},
)
"""The registry's own."""


class Database:
    """One registry's database, opened on construction (and created when there is none).

    Raises ConfigurationError for a URL that cannot be one, RegistryTooNew, and RegistryError with what to do when it
    cannot be opened or is none of ours. Where it may not `create`, raises JudgeNotFound for a registry that is not there.
    """

    def __init__(self, url: str, *, busy_timeout: float, create: bool = True) -> None:
        self._backend = _backend(url, busy_timeout)
        self._may_create = create
        if not create and not self._backend.exists():
            raise self._missing()
        self.open_tables(TABLES)

    @property
    def url(self) -> str:
        """Its address in messages; without a password."""
        return self._backend.shown

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's engine, for what no method here does."""
        return self._backend.engine

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
        """Raise RegistryError where a commit would fail later: no right to write, a lock that stays, a disk that is full.

        Asked before model calls that cost money. Nothing is changed.
        """
        with self._errors():
            self._backend.check_writable()

    def check_erasable(self) -> None:
        """Raise RegistryError where what is erased could not be wiped. Asked before an erasure; nothing is changed."""
        with self._errors():
            self._backend.check_erasable()

    def compact(self) -> str:
        """Rewrite our tables, other packages' too, without what was deleted; returns what, in words for a receipt."""
        with self._errors():
            return self._backend.compact()

    @property
    def unreachable(self) -> tuple[str, ...]:
        """What an erasure cannot reach, and how to end that."""
        return self._backend.unreachable

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:
        """What was searched outside the rows, in words, and what was found of the erased; `live` are the rows' bytes."""
        return self._backend.search(connection, residue, live)

    # -- aligns that are under way -------------------------------------------------------------------------------

    def earlier_answers(self, judge: int) -> dict[str, bytes]:
        """What stopped aligns of a judge have kept, by key; nothing is written."""
        with self._errors():
            return self._backend.earlier_answers(judge)

    def kept_answers(self, judge: int) -> KeptAnswers:
        """A place for the answers of one align. Raises RegistryError where nothing can be kept."""
        with self._errors():
            return self._backend.kept_answers(judge)

    def count_kept(self, judge: int) -> int:
        """How many answers stopped or running aligns of a judge have kept."""
        with self._errors():
            return self._backend.count_kept(judge)

    def forget_kept(self, judge: int) -> None:
        """Remove all kept answers of a judge. Running aligns go on, and keep nothing more."""
        with self._errors():
            self._backend.forget_kept(judge)

    def turn(self, judge: int) -> Turn:
        """The turn of one align of a judge; not taken yet."""
        return self._backend.turn(judge)

    # -- opening -------------------------------------------------------------------------------------------------

    def open_tables(self, tables: Tables) -> None:
        """Create these tables where there are none. Raises RegistryTooNew."""
        with self.read() as connection:
            found = self._version(connection, tables)
        if found is not None:
            return
        if not self._may_create:
            raise self._missing()
        with self.write() as connection:
            if self._version(connection, tables) is None:  # nobody else was quicker
                self._create(connection, tables)

    def _create(self, connection: Connection, tables: Tables) -> None:
        self._backend.prepare_tables(connection)
        tables.make(connection)
        values = {tables.name: str(tables.version), **tables.first()}
        connection.execute(insert(schema.meta), [{"name": name, "value": value} for name, value in values.items()])

    def _version(self, connection: Connection, tables: Tables) -> int | None:
        """The tables' version, or None where there are none yet. Raises RegistryTooNew."""
        if not inspect(connection).has_table(schema.meta.name):
            return None
        query = select(schema.meta.c.value).where(schema.meta.c.name == tables.name)
        written = connection.execute(query).scalar()
        if written is None and tables is not TABLES:
            return None
        found = int(self.meta(connection, tables.name) if written is None else written)
        if found > tables.version:
            raise RegistryTooNew(
                f"{self.url} was written by a newer memalign: its schema is version {found}, this one reads up to "
                f"version {tables.version}; upgrade memalign to open it"
            )
        return found

    def meta(self, connection: Connection, name: str) -> str:
        """One value of the meta table."""
        value = connection.execute(select(schema.meta.c.value).where(schema.meta.c.name == name)).scalar()
        if value is None:
            raise RegistryError(f"{self.url} is damaged: its meta table has no {name}")
        return str(value)

    def _missing(self) -> JudgeNotFound:
        return JudgeNotFound(
            f"there is no registry at {self.url.removeprefix('sqlite:///')}. `memalign create` makes one; --registry or "
            "MEMALIGN_REGISTRY names another"
        )

    # -- errors --------------------------------------------------------------------------------------------------

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error) as error:
            raise RegistryError(self._backend.explained(error)) from error


def _backend(url: str, busy_timeout: float) -> Backend:
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        return SQLite(parsed, busy_timeout=busy_timeout)
    if parsed.drivername not in _POSTGRESQL:
        raise ConfigurationError(f"registries on {parsed.drivername} are not supported; use {EXAMPLES}")
    from memalign.registry.postgresql import PostgreSQL

    return PostgreSQL(parsed.set(drivername="postgresql+psycopg"), busy_timeout=busy_timeout)


def _parsed(url: str) -> URL:
    try:
        # A bare path is what most people write first.
        return make_url(f"sqlite:///{url}" if url and not _SCHEME.match(url) else url)
    except (ArgumentError, ValueError):  # ValueError: a port that is no number
        raise ConfigurationError(f"{hidden(url)!r} is not a registry's URL; one looks like {EXAMPLES}") from None
