"""The server's own tables in the registry's database, created if needed, used in transactions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, insert, select

from memalign.errors import ConfigurationError, RegistryError
from memalign.io import beside, try_lock, unlock
from memalign.registry import Database, judges_table, without_statistics
from memalign_server.store.tables import metadata, server_settings, whole

__all__ = ["Store", "Transaction"]

Transaction = Connection
"""What `read()` and `write()` give: services hand it on, and only this folder makes statements."""

_columns = (column for table in metadata.sorted_tables for column in table.columns)
without_statistics(*(column for column in _columns if column.info))


_SECRET = select(server_settings.c.value).where(server_settings.c.name == "secret")
_SERVING = "SELECT pg_try_advisory_lock(hashtextextended('memalign serve', 0))"


class Store(Database):
    """The registry's database with the tables of one server.

    `read()` and `write()` are transactions. Several threads may use it at once.

    Raises:
        RegistryError: The database cannot be opened.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, busy_timeout=30.0)
        event.listen(self.engine, "before_cursor_execute", _whole_texts, retval=True)
        with self.write() as connection:
            metadata.create_all(connection)
            secret = connection.scalar(_SECRET)
            if secret is None:
                secret = secrets.token_hex(32)
                connection.execute(
                    insert(server_settings).values(name="secret", value=secret)
                )
        self.secret = bytes.fromhex(secret)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Be the one server of the database for as long as this lasts.

        A process that dies lets go of the database.

        Raises:
            ConfigurationError: Another server works on it.
        """
        if self.files:
            lock = try_lock(beside(Path(self.place), "serving"))
            self._check_claim(lock is not None)
            try:
                yield
            finally:
                if lock is not None:
                    unlock(lock)
        else:
            with self.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as connection:
                try:
                    self._check_claim(
                        bool(connection.exec_driver_sql(_SERVING).scalar())
                    )
                    yield
                finally:
                    connection.invalidate()  # the lock is the connection's, and goes with it

    @property
    def place(self) -> str:
        """Return the database's file, or its URL without a password: the same for each server."""
        return str(self.files[0].resolve()) if self.files else self.url

    def _check_claim(self, is_ours: bool) -> None:
        if not is_ours:
            raise ConfigurationError(
                f"another server works on {self.url}: stop it first, "
                "or name another registry for this one"
            )

    def check_health(self) -> None:
        """Check that the database is there, and is the one that the server was started with.

        Raises:
            RegistryError: It is gone, or another one is in its place.
        """
        if self.files and not self.files[0].exists():
            # A connection would make an empty one.
            raise RegistryError(
                f"{self.url} is gone; put it back, and start the server again"
            )
        with self.read() as connection:
            secret = connection.scalar(_SECRET)
            connection.execute(select(judges_table.c.id).limit(1)).first()
        if secret is None or bytes.fromhex(secret) != self.secret:
            raise RegistryError(
                f"{self.url} was replaced by another registry; start the server again"
            )


def _whole_texts(
    _connection: Any,
    _cursor: Any,
    statement: str,
    parameters: Any,
    _context: Any,
    is_many: bool,
) -> tuple[str, Any]:
    """Make the texts of a statement ones that a database can hold.

    A model may end its words in half a character.
    """
    if is_many:
        return statement, [_whole_row(row) for row in parameters]
    return statement, _whole_row(parameters)


def _whole_row(row: Any) -> Any:
    if isinstance(row, dict):
        return dict(zip(row, map(_whole_part, row.values()), strict=True))
    return tuple(map(_whole_part, row))


def _whole_part(value: Any) -> Any:
    return whole(value) if isinstance(value, str) else value
