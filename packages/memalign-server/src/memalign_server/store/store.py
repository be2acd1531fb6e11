"""The server's tables in the registry's database: opened, created, and used in transactions."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, insert, select

from memalign.errors import RegistryTooNew
from memalign.registry.database import Database
from memalign_server.store.columns import metadata
from memalign_server.store.tables import server_settings

__all__ = ["SCHEMA_VERSION", "Store"]

SCHEMA_VERSION = 1


class Store:
    """The tables of one server, or of several that share a database. Usable from several threads at once.

    Raises RegistryTooNew, and RegistryError as the registry does.
    """

    def __init__(self, url: str, *, busy_timeout: float = 30.0) -> None:
        self._database = Database(url, busy_timeout=busy_timeout)
        with self._database.write() as connection:
            metadata.create_all(connection)
            for index in (index for table in metadata.sorted_tables for index in table.indexes):
                index.create(connection, checkfirst=True)  # tables of before lack the newest
            found = connection.execute(
                select(server_settings.c.value).where(server_settings.c.name == "schema_version")
            ).scalar()
            if found is None:
                named = {"schema_version": str(SCHEMA_VERSION), "secret": secrets.token_hex(32)}
                connection.execute(
                    insert(server_settings), [{"name": name, "value": value} for name, value in named.items()]
                )
            elif int(found) > SCHEMA_VERSION:
                raise RegistryTooNew(
                    f"the tables of memalign-server in {url} are version {found}, and this one knows version "
                    f"{SCHEMA_VERSION}; upgrade memalign-server"
                )
            secret = select(server_settings.c.value).where(server_settings.c.name == "secret")
            self.secret = bytes.fromhex(str(connection.execute(secret).scalar_one()))

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
