"""Judges of another registry as they are: every version, and what was erased from them."""

from __future__ import annotations

from sqlalchemy import insert, select

from memalign.errors import InputError, JudgeExists
from memalign.registry.database import Database
from memalign.registry.tables import erasures, judges, rows, versions
from memalign.registry.versions import JudgeSummary, summaries

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
            for judge in reading.execute(select(judges)).mappings().all():
                values = {name: value for name, value in judge.items() if name != "id"}
                new = writing.execute(insert(judges).values(values).returning(judges.c.id)).scalar_one()
                for table in (versions, rows, erasures):
                    query = select(table).where(table.c.judge == judge["id"]).execution_options(yield_per=_MANY)
                    for batch in reading.execute(query).mappings().partitions():
                        writing.execute(insert(table), [{**row, "judge": new} for row in batch])
    return listed
