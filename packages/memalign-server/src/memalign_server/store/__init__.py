"""The server's own tables in the registry's database: created where they are not there, and used in transactions."""

from __future__ import annotations

import secrets

from sqlalchemy import insert, select

from memalign.registry.database import Database
from memalign.registry.tables import without_statistics
from memalign_server.store.tables import metadata, server_settings

__all__ = ["Store"]

_columns = (column for table in metadata.sorted_tables for column in table.columns)
without_statistics(*(column for column in _columns if column.info))


class Store(Database):
    """The registry's database with the tables of one server: `read()` and `write()` are transactions.

    Usable from several threads at once. Raises RegistryError for a database that cannot be opened.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, busy_timeout=30.0)
        key = server_settings.c.name == "secret"
        with self.write() as connection:
            metadata.create_all(connection)
            secret = connection.execute(select(server_settings.c.value).where(key)).scalar()
            if secret is None:
                secret = secrets.token_hex(32)
                connection.execute(insert(server_settings).values(name="secret", value=secret))
        self.secret = bytes.fromhex(secret)
