"""Tables of one package in a registry's database, and their number.

A registry keeps the number of each package's tables in `memalign_meta`. A package of its own, such as a server, may keep
its tables beside the registry's: with another name, metadata and numbers, by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData

__all__ = ["Tables"]


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Tables and their number, `version`.

    `name` is that of the row in `memalign_meta`. `first` are rows of `memalign_meta` that new tables begin with.
    """

    name: str
    metadata: MetaData
    version: int
    first: Callable[[], Mapping[str, str]] = dict

    def make(self, connection: Connection) -> None:
        """Create the tables that belong on this database."""
        dialect = connection.dialect.name
        tables = [table for table in self.metadata.sorted_tables if table.info.get("only_on", dialect) == dialect]
        self.metadata.create_all(connection, tables=tables)
