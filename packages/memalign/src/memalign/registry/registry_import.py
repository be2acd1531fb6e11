"""Judges of another registry as they are: every version, and what was erased from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Table, func, insert, select, update

from memalign.errors import InputError, JudgeExists, RegistryError
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.tables import erasures, judges, meta, rows
from memalign.registry.tables import versions as versions_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["ImportedJudge", "import_judges"]

_MANY = 500  # rows at a time


@dataclass(frozen=True, kw_only=True)
class ImportedJudge:
    """A judge that was imported.

    Attributes:
        name: Its name.
        versions: How many versions came along.
        rows: How many rows hold them.
        erasures: Of how much erased feedback the hashes came along.
    """

    name: str
    versions: int
    rows: int
    erasures: int

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)


def import_judges(source: Database, target: Database) -> tuple[ImportedJudge, ...]:
    """Copy all judges of `source` into `target`, in one transaction or not at all.

    Versions keep their numbers, and erased feedback stays erased: its hashes come along, with the secret that they are
    under. Answers kept for an align that was stopped do not.

    Raises:
        JudgeExists: The target has a judge of one of the names.
        RegistryError: Both registries remember what was erased, under different secrets.
        InputError: Both are the same registry.
    """
    if source.engine.url == target.engine.url:
        raise InputError(f"{source.url} is both the registry to import and the one to import into; name two")
    with source.read() as reading:
        numbers = {row.name: row.id for row in reading.execute(select(judges).order_by(judges.c.name))}
        with target.write(*numbers) as writing:
            taken = [name for name in writing.execute(select(judges.c.name)).scalars() if name in numbers]
            if taken:
                raise JudgeExists(
                    f"{target.url} has judges of these names: {', '.join(sorted(taken))}. Nothing was imported; delete "
                    "them first, or export and import single judges with --name"
                )
            _take_secret(source, target, reading, writing)
            return tuple(_imported(reading, writing, name, number) for name, number in numbers.items())


def _take_secret(source: Database, target: Database, reading: Connection, writing: Connection) -> None:
    """Let the target's hashes be under the source's secret, where it has none of its own under another one."""
    secret = source.meta(reading, "secret")
    if secret == target.meta(writing, "secret"):
        return
    if not writing.execute(select(func.count()).select_from(erasures)).scalar_one():
        writing.execute(update(meta).where(meta.c.name == "secret").values(value=secret))
    elif reading.execute(select(func.count()).select_from(erasures)).scalar_one():
        raise RegistryError(
            f"{source.url} and {target.url} both remember what was erased, as hashes under different secrets, which "
            "cannot be put together; import into a registry of its own. Nothing was imported"
        )


def _imported(reading: Connection, writing: Connection, name: str, number: int) -> ImportedJudge:
    new = versions.add_judge(writing, name)
    for table in (versions_table, rows, erasures):
        for batch in _batches(reading, table, number):
            writing.execute(insert(table), [row | {"judge": new} for row in batch])
    _, latest = versions.find(reading, name)
    writing.execute(update(judges).where(judges.c.id == new).values(latest=latest))
    return ImportedJudge(
        name=name,
        versions=latest,
        rows=_count(writing, rows, [new]),
        erasures=_count(writing, erasures, [new], kind="key"),
    )


def _batches(connection: Connection, table: Table, judge: int) -> Iterator[list[dict[str, Any]]]:
    query = select(table).where(table.c.judge == judge).execution_options(yield_per=_MANY)
    for batch in connection.execute(query).mappings().partitions():
        yield [dict(row) for row in batch]


def _count(connection: Connection, table: Table, of: Collection[int], *, kind: str = "") -> int:
    query = select(func.count()).select_from(table).where(table.c.judge.in_(of))
    return int(connection.execute(query.where(table.c.kind == kind) if kind else query).scalar_one())
