"""The server's tables in the registry's database: created where they are not there, and used in transactions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, insert, select

from memalign.registry.database import Database
from memalign.registry.tables import without_statistics
from memalign_server.store.columns import JUDGE, metadata
from memalign_server.store.tables import server_settings

__all__ = ["Store"]

_columns = (column for table in metadata.sorted_tables for column in table.columns)
without_statistics(*(column for column in _columns if column.info and column.info != JUDGE))


class Store:
    """The tables of one server. Usable from several threads at once.

    Args:
        url: The registry's URL.
        busy_timeout: How many seconds to wait for others who write.

    Raises:
        RegistryError: The database cannot be opened.
    """

    def __init__(self, url: str, *, busy_timeout: float = 30.0) -> None:
        self._database = Database(url, busy_timeout=busy_timeout)
        key = server_settings.c.name == "secret"
        with self._database.write() as connection:
            metadata.create_all(connection)
            secret = connection.execute(select(server_settings.c.value).where(key)).scalar()
            if secret is None:
                secret = secrets.token_hex(32)
                connection.execute(insert(server_settings).values(name="secret", value=secret))
        self.secret = bytes.fromhex(secret)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction in which every statement sees the same state."""
        with self._database.read() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that is committed whole or not at all."""
        with self._database.write() as connection:
            yield connection
