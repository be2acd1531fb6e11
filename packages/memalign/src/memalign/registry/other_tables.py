"""Tables of other packages in a registry's database: they forget what the registry erases, in the same transaction.

A package names its tables by an entry point of the group `memalign.tables`. Where such tables are there and their
package is not, nothing can be erased: a receipt would not be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, cast

from sqlalchemy import inspect

from memalign.errors import RegistryError
from memalign.registry.schema import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from memalign.registry.receipt import Receipt
    from memalign.registry.residue import Residue

__all__ = ["OtherTables", "other_tables"]


class OtherTables(Protocol):
    """The tables of one package, all of whose names begin with `prefix`."""

    prefix: str

    def forget(self, connection: Connection, receipt: Receipt, residue: Residue) -> int:
        """Remove what repeats `residue` or belongs to the receipt's keys and cases; how many rows were touched."""
        ...

    def texts(self, connection: Connection) -> Iterator[bytes]:
        """Every value that the tables hold, as the file spells it."""
        ...


def other_tables(connection: Connection) -> tuple[OtherTables, ...]:
    """Those whose tables are in this database. Raises RegistryError for tables whose package is not installed."""
    strangers = [
        name
        for name in inspect(connection).get_table_names()
        if name.startswith("memalign_") and name not in metadata.tables
    ]
    if not strangers:
        return ()
    known = cast("Iterable[OtherTables]", (entry.load() for entry in entry_points(group="memalign.tables")))
    found = tuple(each for each in known if any(name.startswith(each.prefix) for name in strangers))
    if left := [name for name in strangers if not any(name.startswith(each.prefix) for each in found)]:
        raise RegistryError(
            f"the registry's database has tables of another package ({', '.join(left[:5])}), which may hold the same "
            "texts: install that package here, such as memalign-server, and erase again; nothing was erased"
        )
    return found
