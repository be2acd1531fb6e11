"""Tables of other packages in a registry's database.

They forget what the registry erases, in the same transaction.

A package names its tables by an entry point of the group `memalign.tables`. Where such tables are
there and their package is not, nothing can be erased: a receipt would not be true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, cast

from memalign.errors import RegistryError
from memalign.registry.kinds import TextKind
from memalign.registry.tables import metadata, our_tables
from memalign.types import FeedbackKey

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from memalign.memory.text_search import Finder
    from memalign.registry.receipt import Receipt
    from memalign.registry.residue import Residue, Said

__all__ = ["OtherTables", "Passage", "TextKind", "Words", "other_tables"]


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A case, or what somebody said of one, in another package's tables.

    `source` is who spoke, None for the case itself. `content` is the words, as a JSON value;
    `labels` are verdicts, which are searched and are nobody's words. A `copy`, as in the result of
    work, is not where words are kept. `about` is the hash of the case's content, where an id may
    have had several; what was said of one of them is a passage of its own.
    """

    id: str
    source: str | None
    content: Any
    labels: Any = None
    copy: bool = False
    about: str = ""

    @property
    def key(self) -> FeedbackKey:
        """Whose words on which case they are."""
        return FeedbackKey(self.id, self.source or "")

    @property
    def said(self) -> Said:
        """Whose words on which case they are, and the hash of the content that they are about."""
        return self.key, self.about

    def held_by(self, finder: Finder) -> bool:
        """Return whether a text is anywhere in it."""
        return finder.within([self.id, self.source, self.content, self.labels])


@dataclass(frozen=True, kw_only=True)
class Words:
    """A text of a table: where it is, the judge whose it is (None: none's), and what it is."""

    place: str
    judge: str | None
    text: str
    kind: TextKind = "field"
    row: str = ""


class OtherTables(Protocol):
    """The tables of one package, all of whose names begin with `prefix`."""

    prefix: str

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """Every case of a judge that the tables hold, and everything that somebody said of one."""
        ...

    def forget(
        self, connection: Connection, receipt: Receipt, residue: Residue
    ) -> None:
        """Remove what is erased, and what repeats it."""
        ...

    def words(self, connection: Connection) -> Iterator[Words]:
        """Every text of people and of judged systems that the tables hold."""
        ...


def other_tables(connection: Connection) -> list[OtherTables]:
    """Return those whose tables are in this database.

    Raises RegistryError for tables whose package is not installed.
    """
    strangers = set(our_tables(connection)).difference(metadata.tables)
    installed = list[OtherTables]()
    for entry in entry_points(group="memalign.tables") if strangers else ():
        tables = cast("OtherTables", entry.load())
        if own := {name for name in strangers if name.startswith(tables.prefix)}:
            installed.append(tables)
            strangers -= own
    if strangers:
        raise RegistryError(
            "nothing was erased: tables of another package may hold the same texts "
            f"({', '.join(sorted(strangers))}); install that package here, such as "
            "memalign-server, and erase again"
        )
    return installed
