"""What a registry asks of a database: the part that SQLite and PostgreSQL do each in their own way."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from memalign.judge.paid_calls import Answers

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from memalign.registry.residue import Residue

__all__ = ["Backend", "KeptAnswers", "Turn", "hidden"]


class KeptAnswers(Answers, AbstractContextManager["KeptAnswers"], Protocol):
    """The answers that one running align has paid for, and those that stopped ones left."""

    @property
    def taken_up(self) -> int:
        """How many answers of earlier, stopped runs were asked for here."""
        ...

    def committed(self) -> None:
        """Remove what a version holds now: this run's answers, and those of the runs that it took some from."""
        ...


class Turn(Protocol):
    """The right to commit an align of one judge. Taken and left from any thread; whoever dies has left it."""

    def take(self) -> bool:
        """Whether it is ours now; False while another has it."""
        ...

    def leave(self) -> None:
        """Let others go on; nothing where it was never ours."""
        ...


class Backend(Protocol):
    """One database of a registry. What it raises are the driver's errors and SQLAlchemy's, for `explained`."""

    engine: Engine
    shown: str
    """Its address in messages; without a password."""
    unreachable: tuple[str, ...]
    """What an erasure cannot reach, and how to end that."""

    def exists(self) -> bool:
        """Whether a registry may be there; looks at no table."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A transaction in which every statement sees the same state."""
        ...

    def writing(self, locks: Collection[str]) -> AbstractContextManager[Connection]:
        """A transaction that, from its first statement on, no other with one of the same `locks` runs beside."""
        ...

    def prepare_tables(self, connection: Connection) -> None:
        """Raise RegistryError where tables made here could not hold every text."""
        ...

    def check_writable(self) -> None:
        """Raise where a commit would fail later. Nothing is changed."""
        ...

    def check_erasable(self) -> None:
        """Raise RegistryError where `compact` would fail for ever. Nothing is changed."""
        ...

    def compact(self) -> str:
        """Rewrite our tables, other packages' too, without what was deleted; returns what, in words for a receipt."""
        ...

    def search(self, connection: Connection, residue: Residue, live: Iterable[bytes]) -> tuple[str, list[str]]:
        """What was searched outside the rows, in words, and what of the erased was found there.

        `live` are all bytes that rows hold: what is found in them was searched for already.
        """
        ...

    def explained(self, error: Exception) -> str:
        """What went wrong, in words that say what to do."""
        ...

    def earlier_answers(self, judge: int) -> dict[str, bytes]:
        """What stopped aligns of a judge have kept, by key; nothing is written."""
        ...

    def kept_answers(self, judge: int) -> KeptAnswers:
        """A place for the answers of one align."""
        ...

    def count_kept(self, judge: int) -> int:
        """How many answers stopped or running aligns of a judge have kept."""
        ...

    def forget_kept(self, judge: int) -> None:
        """Remove all kept answers of a judge. Running aligns go on, and keep nothing more."""
        ...

    def turn(self, judge: int) -> Turn:
        """The turn of one align of a judge; not taken yet."""
        ...


def hidden(url: str) -> str:
    """A URL without the user and password in it."""
    scheme, slashes, rest = url.partition("://")
    return f"{scheme}{slashes}{rest.rpartition('@')[2]}" if slashes else url
