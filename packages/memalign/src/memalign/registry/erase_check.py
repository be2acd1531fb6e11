"""After an erase: compact the database and search everything that can be reached, so that a receipt can say no."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, inspect, select

from memalign.errors import RegistryError
from memalign.registry.database import Database
from memalign.registry.erase import Erasure
from memalign.registry.judge_rows import Codec
from memalign.registry.other_tables import Words, other_tables
from memalign.registry.receipt import Receipt
from memalign.registry.residue import Residue, row_names, state_words, strings, words_of
from memalign.registry.tables import answers, judges, metadata, rows, versions

__all__ = ["search_again"]

_MANY = 1000  # rows at a time


@dataclass
class _Traces:
    """How many rows were read, the places where something is left, and the judges that keep some of it."""

    places: Counter[str] = field(default_factory=Counter)
    judges: set[str] = field(default_factory=set)
    rows: int = 0

    def add(self, place: str, judge: str | None, erased: str) -> None:
        """Note what is left at a place: of another judge than the `erased` one only its name."""
        if judge in (None, erased):
            self.places[place] += 1
        elif judge is not None:
            self.judges.add(judge)


def search_again(database: Database, erasure: Erasure) -> Receipt:
    """Compact the database, search what is left, and say in the receipt whether and where a word is.

    Raises RegistryError where what is erased could not be wiped.
    """
    try:
        compacted = database.compact()
    except RegistryError as error:
        raise RegistryError(
            f"the feedback is erased and that is committed, but what it left could not be wiped: {error}. Then run "
            "`memalign erase NAME` without a key (compact() in Python)"
        ) from error
    traces = _Traces()
    with database.read() as connection:
        _search_registry(connection, erasure, traces)
        _search_other_tables(connection, erasure, traces)
        unread = _search_foreign_tables(connection, erasure.residue, traces)
        # Before the transaction ends: nobody writes to a file as long as it lasts.
        beside, traces_beside = database.search(connection, erasure.residue, _live(connection))
    places = [f"{place} ({count} row{'' if count == 1 else 's'})" for place, count in sorted(traces.places.items())]
    rewritten = f"; rewritten: {compacted}" if compacted else ""
    return replace(
        erasure.receipt,
        searched=f"{traces.rows:,} rows of every table{beside}{rewritten}",
        left=(*places, *traces_beside),
        elsewhere=tuple(sorted({*erasure.receipt.elsewhere, *traces.judges})),
        unreachable=(*database.unreachable, *unread),
    )


def _search_registry(connection: Connection, erasure: Erasure, traces: _Traces) -> None:
    residue, codec, erased = erasure.residue, Codec(), erasure.receipt.judge
    query = select(rows.c.judge, rows.c.kind, rows.c.key, rows.c.body)
    for judge, kind, key, body in connection.execute(query):
        traces.rows += 1
        if judge == erasure.judge and (
            any(map(residue.copied, words_of(codec, kind, body)))
            or any(map(residue.certain, state_words(codec, kind, key, body)))
            or row_names(codec, residue, kind, key, body)
        ):
            traces.add(f"{rows.name}.body, {f'the {key}' if kind == 'judge' else kind}", None, erased)
    for version in connection.execute(select(versions)):
        traces.rows += 1
        notes = [text for text in (version.summary, version.note) if text]
        if version.judge == erasure.judge and any(map(residue.in_sentence, notes)):
            traces.add(f"{versions.name}.note", None, erased)
    for name in connection.execute(select(judges.c.name)).scalars():
        if residue.certain(name):
            traces.add(f"{judges.name}.name", None, erased)
    for judge, answer in connection.execute(select(judges.c.name, answers.c.answer).join(answers)):
        traces.rows += 1
        if any(map(residue.certain, strings(json.loads(answer)))):
            traces.add(f"{answers.name}.answer", judge, erased)


def _search_other_tables(connection: Connection, erasure: Erasure, traces: _Traces) -> None:
    judge = erasure.receipt.judge
    for tables in other_tables(connection):
        for words in tables.words(connection):
            traces.rows += 1
            if _is_left(words, erasure.residue, judge):
                traces.add(words.place, words.judge, judge)


def _is_left(words: Words, residue: Residue, judge: str) -> bool:
    if words.is_name:
        return words.text == residue.person or residue.certain(words.text)
    if words.judge not in (None, judge):
        return residue.certain(words.text)
    if words.is_id:
        return words.text in residue.cases or residue.certain(words.text)
    return residue.in_sentence(words.text) if words.is_sentence else residue.copied(words.text)


def _search_foreign_tables(connection: Connection, residue: Residue, traces: _Traces) -> list[str]:
    """Look into the tables that are no package's of ours, in every schema; gives those that may not be read."""
    unread = []
    inspector, quote = inspect(connection), connection.dialect.identifier_preparer.quote
    ours = tuple(tables.prefix for tables in other_tables(connection))
    here = [name for name in inspector.get_table_names() if name not in metadata.tables]
    names = [(name, quote(name)) for name in here if not (ours and name.startswith(ours))]
    for schema in sorted({*inspector.get_schema_names()} - {inspector.default_schema_name, "information_schema"}):
        below = inspector.get_table_names(schema)
        if below and not _may(connection, "schema", "USAGE", schema):
            unread.append(f"the schema {schema} of the same database, which may not be used")
            continue
        names += [(f"{schema}.{name}", f"{quote(schema)}.{quote(name)}") for name in below]
    for name, quoted in names:
        if not _may(connection, "table", "SELECT", quoted):
            unread.append(f"the table {name} in the same database, which may not be read")
            continue
        # The name is one that the database gave, and quoted.
        result = connection.exec_driver_sql(f"SELECT * FROM {quoted}", execution_options={"yield_per": _MANY})
        columns = list(result.keys())
        for row in result:
            traces.rows += 1
            for column, value in zip(columns, row, strict=True):
                if any(map(residue.in_foreign, _texts(value))):
                    traces.places[f"{name}.{column}"] += 1
    return unread


def _may(connection: Connection, kind: str, right: str, name: str) -> bool:
    if connection.dialect.name != "postgresql":
        return True
    query = f"SELECT has_{kind}_privilege(CAST(%(name)s AS text), '{right}')"
    return bool(connection.exec_driver_sql(query, {"name": name}).scalar())


def _texts(value: Any) -> Iterator[str]:
    """The texts of a column of any type."""
    if isinstance(value, bytes | memoryview):
        yield bytes(value).decode("utf-8", "replace")
    else:
        yield from strings(value)


def _live(connection: Connection) -> Iterator[bytes]:
    """All bytes that rows hold where they should: read again, since all of them may be gigabytes."""
    for key, body in connection.execute(select(rows.c.key, rows.c.body)):
        yield key.encode()
        yield body
    for texts in connection.execute(select(versions.c.summary, versions.c.note)):
        yield from (text.encode() for text in texts if text)
    for name in connection.execute(select(judges.c.name)).scalars():
        yield name.encode()
    for key, answer in connection.execute(select(answers.c.key, answers.c.answer)):
        yield key.encode()
        yield answer
    for tables in other_tables(connection):
        yield from tables.texts(connection)
