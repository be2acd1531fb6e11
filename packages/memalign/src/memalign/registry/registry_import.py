"""Judges of another registry as they are: every version, and what was erased from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, exists, insert, select, update

from memalign.errors import InputError, JudgeExists, RegistryError
from memalign.registry.database import Database
from memalign.registry.tables import erasures, judges, meta, rows, versions
from memalign.registry.versions import add_judge

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
    """Copy all judges of `source` into `target`, in one transaction or not at all; see `Registry.import_registry`."""
    if source.engine.url == target.engine.url:
        raise InputError(f"{source.url} is both the registry to import and the one to import into; name two")
    with source.read() as reading:
        listed = reading.execute(select(judges.c.name, judges.c.id, judges.c.latest).order_by(judges.c.name)).all()
        with target.write(*(name for name, _, _ in listed)) as writing:
            if taken := {name for name, _, _ in listed} & set(writing.execute(select(judges.c.name)).scalars()):
                raise JudgeExists(
                    f"{target.url} has judges of these names: {', '.join(sorted(taken))}. Nothing was imported; delete "
                    "them first, or export and import single judges with --name"
                )
            _take_secret(source, target, reading, writing)
            return tuple(_copy(reading, writing, *judge) for judge in listed)


def _take_secret(source: Database, target: Database, reading: Connection, writing: Connection) -> None:
    """Let the target's hashes be under the source's secret, where it has none of its own under another one."""
    secret = source.meta(reading, "secret")
    if secret == target.meta(writing, "secret"):
        return
    any_erasure = select(exists().select_from(erasures))
    if not writing.execute(any_erasure).scalar_one():
        writing.execute(update(meta).where(meta.c.name == "secret").values(value=secret))
    elif reading.execute(any_erasure).scalar_one():
        raise RegistryError(
            f"{source.url} and {target.url} both remember what was erased, as hashes under different secrets, which "
            "cannot be put together; import into a registry of its own. Nothing was imported"
        )


def _copy(reading: Connection, writing: Connection, name: str, number: int, latest: int) -> ImportedJudge:
    new, row_count, keys = add_judge(writing, name), 0, 0
    for table in (versions, rows, erasures):
        query = select(table).where(table.c.judge == number).execution_options(yield_per=_MANY)
        for batch in reading.execute(query).mappings().partitions():
            writing.execute(insert(table), [{**row, "judge": new} for row in batch])
            row_count += len(batch) if table is rows else 0
            keys += sum(row["kind"] == "key" for row in batch) if table is erasures else 0
    writing.execute(update(judges).where(judges.c.id == new).values(latest=latest))
    return ImportedJudge(name=name, versions=latest, rows=row_count, erasures=keys)
