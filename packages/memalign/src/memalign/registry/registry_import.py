"""Judges of another registry as they are: every version, and what was erased from them."""

from __future__ import annotations

from sqlalchemy import Connection, exists, insert, select, update

from memalign.errors import InputError, JudgeExists, RegistryError
from memalign.registry.database import Database
from memalign.registry.tables import erasures, judges, meta, rows, versions
from memalign.registry.versions import JudgeSummary, add_judge, summaries

__all__ = ["import_judges"]

_MANY = 500  # rows at a time


def import_judges(source: Database, target: Database) -> tuple[JudgeSummary, ...]:
    """Copy all judges of `source` into `target`, in one transaction or not at all; see `Registry.import_registry`."""
    if source.engine.url == target.engine.url:
        raise InputError(f"{source.url} is both the registry to import and the one to import into; name two")
    with source.read() as reading:
        listed = summaries(reading)
        with target.write(*(judge.name for judge in listed)) as writing:
            if taken := {judge.name for judge in listed} & set(writing.execute(select(judges.c.name)).scalars()):
                raise JudgeExists(
                    f"{target.url} has judges of these names: {', '.join(sorted(taken))}. Nothing was imported; delete "
                    "them first, or export and import single judges with --name"
                )
            _take_secret(source, target, reading, writing)
            for row in reading.execute(select(judges)).all():
                new = add_judge(writing, row.name)
                for table in (versions, rows, erasures):
                    query = select(table).where(table.c.judge == row.id).execution_options(yield_per=_MANY)
                    for batch in reading.execute(query).mappings().partitions():
                        writing.execute(insert(table), [{**values, "judge": new} for values in batch])
                writing.execute(update(judges).where(judges.c.id == new).values(latest=row.latest))
    return listed


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
