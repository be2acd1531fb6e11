"""Judges from one registry to another, as they are: every version, and what was erased from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, func, insert, select, update

from memalign.errors import InputError, JudgeExists, JudgeNotFound, RegistryError
from memalign.registry import versions
from memalign.registry.certificate import state_of
from memalign.registry.database import Database
from memalign.registry.schema import erasures, judges, meta, rows
from memalign.registry.schema import versions as versions_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["CopiedJudge", "copy_judges"]

_MANY = 500  # rows at a time


@dataclass(frozen=True, kw_only=True)
class CopiedJudge:
    """A judge that was copied: how many versions and rows, and of how much erased feedback the hashes came along."""

    name: str
    versions: int
    rows: int
    erasures: int
    replaced: bool

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def copy_judges(
    source: Database, target: Database, names: Collection[str] = (), *, overwrite: bool = False
) -> tuple[CopiedJudge, ...]:
    """Copy judges (none named: all), in one transaction or not at all.

    Versions keep their numbers, and erased feedback stays erased: its hashes come along, with the secret that they are
    under, so that receipts can be checked there too. Answers kept for an align that was stopped do not. Raises
    JudgeNotFound, JudgeExists for a judge that is there already unless `overwrite`, and RegistryError where that would
    bring back what was erased there.
    """
    if source.engine.url == target.engine.url:
        raise InputError(f"{source.url} is both the registry to copy from and the one to copy to; name two")
    with source.read() as reading:
        wanted = {row.name: row.id for row in reading.execute(select(judges).order_by(judges.c.name))}
        if missing := [name for name in names if name not in wanted]:
            raise JudgeNotFound(f"no judge {missing[0]!r} in {source.url}; judges: {', '.join(wanted) or 'none yet'}")
        wanted = {name: number for name, number in wanted.items() if not names or name in names}
        with target.write(*wanted) as writing:
            there = {row.name: row.id for row in writing.execute(select(judges)) if row.name in wanted}
            if there and not overwrite:
                raise JudgeExists(
                    f"{target.url} has judges of these names: {', '.join(there)}; --overwrite (overwrite=True) replaces "
                    "them with all their versions, or name the judges to copy. Nothing was copied"
                )
            copier = _Copier(source, target, reading, writing)
            copier.take_secret(wanted.values())
            return tuple(copier.copy(name, number, there.get(name)) for name, number in wanted.items())


@dataclass(frozen=True)
class _Copier:
    """Two registries, each in a transaction."""

    source: Database
    target: Database
    reading: Connection
    writing: Connection

    def take_secret(self, copied: Collection[int]) -> None:
        """Let the target's hashes be under the source's secret, where it has none of its own under another one."""
        secret = self.source.meta(self.reading, "secret")
        if secret == self.target.meta(self.writing, "secret"):
            return
        if not self.writing.execute(select(func.count()).select_from(erasures)).scalar_one():
            self.writing.execute(update(meta).where(meta.c.name == "secret").values(value=secret))
        elif _count(self.reading, erasures, copied):
            raise RegistryError(
                f"{self.source.url} and {self.target.url} both remember what was erased, as hashes under different "
                "secrets, which cannot be put together; copy into a registry of its own. Nothing was copied"
            )

    def copy(self, name: str, number: int, replaced: int | None) -> CopiedJudge:
        """Copy one judge, in the place of another one of its name."""
        if replaced is not None:
            self._remove(name, number, replaced)
        new = versions.add_judge(self.writing, name)
        for table in (versions_table, rows, erasures):
            for some in _rows_of(self.reading, table, number):
                self.writing.execute(insert(table), [row | {"judge": new} for row in some])
        _, latest = versions.find(self.reading, name)
        self.writing.execute(update(judges).where(judges.c.id == new).values(latest=latest))
        if state_of(self.reading, name) != state_of(self.writing, name):
            raise RegistryError(f"judge {name!r} is not the same after copying; please report this. Nothing was copied")
        return CopiedJudge(
            name=name,
            versions=latest,
            rows=_count(self.writing, rows, [new]),
            erasures=_count(self.writing, erasures, [new], kind="key"),
            replaced=replaced is not None,
        )

    def _remove(self, name: str, number: int, replaced: int) -> None:
        if lost := len(_hashes(self.writing, replaced) - _hashes(self.reading, number)):
            raise RegistryError(
                f"{lost} hashes of what was erased from judge {name!r} in {self.target.url} are not in {self.source.url}: "
                "a copy could bring it back. Erase it there too, or delete the judge here first. Nothing was copied"
            )
        self.target.forget_kept(replaced)
        versions.remove(self.writing, replaced)


def _rows_of(connection: Connection, table: Table, judge: int) -> Iterator[list[dict[str, Any]]]:
    query = select(table).where(table.c.judge == judge).execution_options(yield_per=_MANY)
    for some in connection.execute(query).mappings().partitions():
        yield [dict(row) for row in some]


def _hashes(connection: Connection, judge: int) -> set[tuple[str, str]]:
    query = select(erasures.c.kind, erasures.c.digest).where(erasures.c.judge == judge)
    return {(kind, digest) for kind, digest in connection.execute(query)}


def _count(connection: Connection, table: Table, of: Collection[int], *, kind: str = "") -> int:
    query = select(func.count()).select_from(table).where(table.c.judge.in_(of))
    return int(connection.execute(query.where(table.c.kind == kind) if kind else query).scalar_one())
