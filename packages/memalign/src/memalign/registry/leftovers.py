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
from memalign.registry.other_tables import other_tables
from memalign.registry.receipt import Receipt
from memalign.registry.residue import Residue, strings
from memalign.registry.row_words import row_names, state_words, words_of
from memalign.registry.tables import answers, judges, metadata, rows, versions

__all__ = ["searched"]

_ROWS = 1000  # of a foreign table, read at a time


@dataclass
class _Search:
    """What was read, where something was found, and all bytes that rows hold where they should."""

    left: Counter[str] = field(default_factory=Counter)
    elsewhere: set[str] = field(default_factory=set)
    live: list[bytes] = field(default_factory=list)
    rows: int = 0


def searched(database: Database, erasure: Erasure) -> Receipt:
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
    residue, search = erasure.residue, _Search()
    with database.read() as connection:
        _search_registry(connection, erasure, search)
        _search_other_tables(connection, erasure, search)
        unread = _search_foreign_tables(connection, residue, search)
        # Before the transaction ends: nobody writes to a file as long as it lasts.
        beside, traces = database.search(connection, residue, search.live)
    left = [f"{place} ({number} row{'' if number == 1 else 's'})" for place, number in sorted(search.left.items())]
    said = f"{search.rows:,} rows of every table, and {beside}"
    if compacted:
        said += f"; rewritten: {compacted}"
    return replace(
        erasure.receipt,
        searched=said,
        left=(*left, *traces),
        elsewhere=tuple(sorted({*erasure.receipt.elsewhere, *search.elsewhere})),
        unreachable=(*database.unreachable, *unread),
    )


def _search_registry(connection: Connection, erasure: Erasure, search: _Search) -> None:
    residue, codec = erasure.residue, Codec()
    for judge, kind, key, body in connection.execute(select(rows.c.judge, rows.c.kind, rows.c.key, rows.c.body)):
        search.rows += 1
        search.live += [key.encode(), body]
        if judge == erasure.judge and (
            any(map(residue.copied, words_of(codec, kind, body)))
            or any(map(residue.certain, state_words(codec, kind, key, body)))
            or row_names(codec, residue, kind, key, body)
        ):
            search.left[f"{rows.name}.body, {f'the {key}' if kind == 'judge' else kind}"] += 1
    for version in connection.execute(select(versions)):
        search.rows += 1
        notes = [text for text in (version.summary, version.note) if text]
        search.live += [text.encode() for text in notes]
        if version.judge == erasure.judge and any(map(residue.in_sentence, notes)):
            search.left[f"{versions.name}.note"] += 1
    for name, key, answer in connection.execute(
        select(judges.c.name, answers.c.key, answers.c.answer).join(judges, judges.c.id == answers.c.judge)
    ):
        search.rows += 1
        search.live += [key.encode(), answer]
        if any(map(residue.certain, strings(json.loads(answer)))):
            if name == erasure.receipt.judge:
                search.left[f"{answers.name}.answer"] += 1
            else:
                search.elsewhere.add(name)
    for name in connection.execute(select(judges.c.name)).scalars():
        search.live.append(name.encode())
        if residue.certain(name):
            search.left[f"{judges.name}.name"] += 1


def _search_other_tables(connection: Connection, erasure: Erasure, search: _Search) -> None:
    residue, judge = erasure.residue, erasure.receipt.judge
    for tables in other_tables(connection):
        search.live += tables.texts(connection)
        for words in tables.words(connection):
            search.rows += 1
            if words.is_name:
                is_left = words.text == residue.person or residue.certain(words.text)
            elif words.judge not in (None, judge):
                is_left = residue.certain(words.text)
            elif words.is_id:
                is_left = words.text in residue.cases or residue.certain(words.text)
            else:
                is_left = residue.in_sentence(words.text) if words.is_sentence else residue.copied(words.text)
            if not is_left:
                continue
            if words.judge in (None, judge):
                search.left[words.place] += 1
            else:
                search.elsewhere.add(words.judge)


def _search_foreign_tables(connection: Connection, residue: Residue, search: _Search) -> list[str]:
    """Look into the tables that are no package's of ours; gives those that may not be read."""
    unread = []
    quoted = connection.dialect.identifier_preparer.quote
    ours = tuple(tables.prefix for tables in other_tables(connection))
    for name in inspect(connection).get_table_names():
        if name in metadata.tables or (ours and name.startswith(ours)):
            continue
        if not _may_read(connection, name):
            unread.append(f"the table {name} in the same database, which may not be read")
            continue
        # The name is one that the database gave, and quoted.
        found = connection.execution_options(yield_per=_ROWS).exec_driver_sql(f"SELECT * FROM {quoted(name)}")
        columns = list(found.keys())
        for row in found:
            search.rows += 1
            for column, value in zip(columns, row, strict=True):
                if any(map(residue.in_foreign, _texts(value))):
                    search.left[f"{name}.{column}"] += 1
    return unread


def _may_read(connection: Connection, name: str) -> bool:
    if connection.dialect.name != "postgresql":
        return True
    quoted = connection.dialect.identifier_preparer.quote(name)
    asked = "SELECT has_table_privilege(CAST(%(name)s AS text), 'SELECT')"
    return bool(connection.exec_driver_sql(asked, {"name": quoted}).scalar())


def _texts(value: Any) -> Iterator[str]:
    """The texts of a column of any type."""
    if isinstance(value, bytes | memoryview):
        yield bytes(value).decode("utf-8", "replace")
    else:
        yield from strings(value)
