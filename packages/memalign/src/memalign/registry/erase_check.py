"""After an erase: compact the database and search everything that can be reached.

So a receipt can say no.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import DBAPIError

from memalign.content.walk import texts_in
from memalign.errors import RegistryError
from memalign.registry.database import Database
from memalign.registry.judge_rows import Codec
from memalign.registry.kinds import Held
from memalign.registry.other_tables import Words, other_tables
from memalign.registry.receipt import Receipt
from memalign.registry.residue import Residue
from memalign.registry.tables import (
    ANSWER,
    JUDGE,
    ROW,
    VERSION,
    answers,
    judges,
    metadata,
    our_tables,
    rows,
    versions,
)

__all__ = ["Trace", "in_other_tables", "search_again"]

_MANY = 1000  # rows at a time
_SETTINGS = ("judge", "memory")
"""Kinds of rows that are nobody's words."""


class Trace(NamedTuple):
    """Where something is left, the judge whose it is (None: no judge's), and which row of it."""

    place: str
    judge: str | None
    row: str = ""


def search_again(
    database: Database, receipt: Receipt, residue: Residue, codec: Codec
) -> Receipt:
    """Compact the database, search it, and say in the receipt whether a word is left.

    Others read and write meanwhile: rows are searched in a copy, and the file as it is; only if its
    bytes hold a trace are they searched once more while nobody writes.

    Args:
        database: The registry's.
        receipt: The receipt of what was erased.
        residue: What to search for.
        codec: Decodes rows. Those that stay were decoded for the plan already.

    Returns:
        The receipt with what was found.

    Raises:
        RegistryError: What was erased could not be wiped.
    """
    try:
        database.compact()
    except RegistryError as error:
        raise RegistryError(
            "the feedback is erased and that is committed, but what it left could not be wiped: "
            f"{error}. Then run `memalign erase NAME` without a key (compact() in Python)"
        ) from error
    own = receipt.judge
    unread: list[str] = []
    with database.snapshot() as connection:
        traces = [
            *_in_registry(connection, residue, own, codec),
            *in_other_tables(connection, residue, own),
            *_in_foreign_tables(connection, residue, unread),
        ]
        size, in_files = residue.in_files(database.files, _live(connection))
    if in_files:
        with database.read() as connection:
            size, in_files = residue.in_files(database.files, _live(connection))
    searched = "all rows of every table"
    if database.files:
        searched += f", and {size:,} bytes of the file"
    ours = [trace for trace in traces if trace.judge in (None, own)]
    rows_left = dict.fromkeys(trace.row for trace in ours if trace.row)
    # Of another judge only its name.
    others = {trace.judge for trace in traces if trace.judge not in (None, own)}
    return replace(
        receipt,
        searched=searched,
        looked_for=residue.looked_for,
        left=(*_counted(ours), *in_files),
        stays=tuple(rows_left),
        elsewhere=tuple(sorted(others)),
        unreachable=(*database.unreachable, *unread),
    )


def _counted(traces: Iterable[Trace]) -> Iterator[str]:
    """Yield every place that holds something, and in how many rows."""
    places = Counter(trace.place for trace in traces)
    for place, count in sorted(places.items()):
        noun = "row" if count == 1 else "rows"
        yield f"{place} ({count} {noun})"


def in_other_tables(
    connection: Connection, residue: Residue, own: str
) -> Iterator[Trace]:
    """Yield what other packages' tables hold of what a judge is to lose."""
    for tables in other_tables(connection):
        yield from _held(tables.words(connection), residue, own)


def _held(texts: Iterable[Words], residue: Residue, own: str) -> Iterator[Trace]:
    """Yield the texts that hold something.

    In another judge's a few words prove nothing: they are anybody's.
    """
    ours = (None, own)
    for words in texts:
        kind = words.kind
        if kind != "name" and words.judge not in ours:
            kind = "other"
        if residue.is_trace(words.text, kind):
            yield Trace(words.place, words.judge, words.row)


def _in_registry(
    connection: Connection, residue: Residue, own: str, codec: Codec
) -> Iterator[Trace]:
    columns = (JUDGE.name, ROW.kind, ROW.key, ROW.body)
    for judge, name, key, body in connection.execute(select(*columns).join(rows)):
        held = Held(name, key, codec.decode(name, body))
        if judge == own:
            keys = held.kind.keys(held.value)
            came_from = residue.concerns(keys)
        else:
            content = held.value.content_hash if name == "case" else None
            came_from = content in residue.contents
        words = _words_of_row(judge, held)
        if came_from or any(_held(words, residue, own)):
            what = f"the {key}" if name == "judge" else name
            yield Trace(f"{rows.name}.body, {what}", judge, _row(held))
    yield from _held(_other_words(connection), residue, own)


def _words_of_row(judge: str, held: Held) -> Iterator[Words]:
    texts = list(held.kind.words(held.value))
    if held.name not in _SETTINGS:
        texts.append(("id", held.key))
    for kind, text in texts:
        yield Words(place=held.name, judge=judge, text=text, kind=kind)


def _row(held: Held) -> str:
    """Return what people call a row; nothing for a setting."""
    if held.name in _SETTINGS:
        return ""
    noun = held.kind.noun or held.name
    if held.name == "pre_alignment":
        noun = "the verdict on"
    return f"{noun} {held.key}"


def _other_words(connection: Connection) -> Iterator[Words]:
    """Yield what the registry's other tables hold of people's words."""
    query = select(JUDGE.name, VERSION.number, VERSION.note).join(judges)
    noted = query.where(VERSION.note.is_not(None))
    for judge, number, note in connection.execute(noted):
        yield Words(
            place=f"{versions.name}.note",
            judge=judge,
            text=note,
            kind="sentence",
            row=f"version {number}",
        )
    place = f"{judges.name}.name"
    for name in connection.scalars(select(JUDGE.name)):
        yield Words(place=place, judge=None, text=name, kind="other")
    place = f"{answers.name}.answer"
    kept = select(JUDGE.name, ANSWER.answer).join(answers)
    for judge, answer in connection.execute(kept):
        for text in texts_in(json.loads(answer)):
            yield Words(place=place, judge=judge, text=text, kind="other")


def _in_foreign_tables(
    connection: Connection, residue: Residue, unread: list[str]
) -> Iterator[Trace]:
    """Look into everybody else's tables; `unread` gets those that may not be read."""
    inspector = inspect(connection)
    ours = (*metadata.tables, *(tables.prefix for tables in other_tables(connection)))
    for name in inspector.get_table_names():
        if name.startswith(ours):
            continue
        try:
            # An error ends this part of the transaction only.
            with connection.begin_nested():
                yield from _in_table(connection, residue, name)
        except DBAPIError:
            unread.append(
                f"the table {name} in the same database, which may not be read"
            )
    own_schemas = {inspector.default_schema_name, "information_schema", "main"}
    for name in sorted({*inspector.get_schema_names()} - own_schemas):
        if inspector.get_table_names(name):
            unread.append(f"the schema {name} of the same database")


def _in_table(connection: Connection, residue: Residue, name: str) -> Iterator[Trace]:
    quoted = connection.dialect.identifier_preparer.quote(name)
    query = f"SELECT * FROM {quoted}"  # a name that the database gave
    found = connection.exec_driver_sql(query, execution_options={"yield_per": _MANY})
    for row in found.mappings():
        for column, value in row.items():
            if isinstance(value, bytes):
                texts = [value.decode("utf-8", "replace")]
            else:
                texts = list(texts_in(value))
            if any(map(residue.in_passing, texts)):
                yield Trace(f"{name}.{column}", None)


def _live(connection: Connection) -> Iterator[bytes]:
    """Yield all bytes that our rows hold where they should, and the tables' definitions."""
    for name in (*our_tables(connection), "sqlite_master"):
        for row in connection.exec_driver_sql(f"SELECT * FROM {name}"):
            for value in row:
                if isinstance(value, bytes):
                    yield value
                else:
                    yield str(value).encode()
