"""After an erase: compact the database and search everything that can be reached, so that a receipt can say no."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import DBAPIError

from memalign.errors import RegistryError
from memalign.registry.database import Database
from memalign.registry.judge_rows import Codec
from memalign.registry.other_tables import other_tables
from memalign.registry.receipt import Receipt
from memalign.registry.residue import Residue, row_names, strings, words_of
from memalign.registry.tables import answers, judges, metadata, rows, versions

__all__ = ["in_other_tables", "search_again"]

_MANY = 1000  # rows at a time

Trace = tuple[str, str | None]
"""Where something is left, and the judge whose it is (None: no judge's)."""


def search_again(database: Database, receipt: Receipt, residue: Residue) -> Receipt:
    """Compact the database, search what is left, and say in the receipt whether and where a word is."""
    try:
        database.compact()
    except RegistryError as error:
        raise RegistryError(
            f"the feedback is erased and that is committed, but what it left could not be wiped: {error}. Then run "
            "`memalign erase NAME` without a key (compact() in Python)"
        ) from error
    name, unread = receipt.judge, list[str]()
    with database.read() as connection:
        traces = [
            *_in_registry(connection, residue, name),
            *in_other_tables(connection, residue, name),
            *_in_foreign_tables(connection, residue, unread),
        ]
        # Before the transaction ends: nobody writes to a file as long as it lasts.
        size, in_files = residue.in_files(database.files, _live(connection))
    # Of another judge only its name.
    places = Counter(place for place, judge in traces if judge in (None, name))
    return replace(
        receipt,
        searched=f"all rows of every table{f', and {size:,} bytes of the file' if database.files else ''}",
        left=(*(f"{at} ({n} row{'' if n == 1 else 's'})" for at, n in sorted(places.items())), *in_files),
        elsewhere=tuple(sorted({judge for _, judge in traces if judge not in (None, name)})),
        unreachable=(*database.unreachable, *unread),
    )


def _in_registry(connection: Connection, residue: Residue, own: str) -> Iterator[Trace]:
    codec, person = Codec(), Residue(person=residue.person)
    query = select(judges.c.name, rows.c.kind, rows.c.key, rows.c.body).join(rows)
    for judge, kind, key, body in connection.execute(query):
        words = list(words_of(codec, kind, body))
        state = [key, *(strings(codec.decode(kind, body)) if kind == "memory" else ())]
        repeats = any(map(residue.certain, [*words, *state]))
        if judge == own:
            repeats |= any(map(residue.copied, words)) or row_names(codec, residue, kind, key, body)
        else:
            # Short words are anybody's: of another judge they prove nothing.
            same = kind == "case" and codec.decode(kind, body).content_hash in residue.contents
            repeats |= same or row_names(codec, person, kind, key, body)
        if repeats:
            yield f"{rows.name}.body, {f'the {key}' if kind == 'judge' else kind}", judge
    query = select(versions.c.note).join(judges).where(judges.c.name == own, versions.c.note.is_not(None))
    yield from ((f"{versions.name}.note", own) for note in connection.scalars(query) if residue.in_sentence(note))
    for name in connection.scalars(select(judges.c.name)):
        if residue.certain(name):
            yield f"{judges.name}.name", None
    for judge, answer in connection.execute(select(judges.c.name, answers.c.answer).join(answers)):
        if any(map(residue.certain, strings(json.loads(answer)))):
            yield f"{answers.name}.answer", judge


def in_other_tables(connection: Connection, residue: Residue, own: str) -> Iterator[Trace]:
    """What other packages' tables hold of what a judge is to lose."""
    for words in (words for tables in other_tables(connection) for words in tables.words(connection)):
        text = words.text
        if words.kind == "name":
            repeats = text == residue.person or residue.certain(text)
        elif words.judge not in (None, own):
            repeats = residue.certain(text)
        elif words.kind == "id":
            repeats = text in residue.cases or residue.certain(text)
        else:
            repeats = residue.in_sentence(text) if words.kind == "sentence" else residue.copied(text)
        if repeats:
            yield words.place, words.judge


def _in_foreign_tables(connection: Connection, residue: Residue, unread: list[str]) -> Iterator[Trace]:
    """Look into the tables that are no package's of ours; `unread` gets those that may not be read."""
    inspector, quote = inspect(connection), connection.dialect.identifier_preparer.quote
    ours = (*metadata.tables, *(tables.prefix for tables in other_tables(connection)))
    for name in inspector.get_table_names():
        if name.startswith(ours):
            continue
        try:
            with connection.begin_nested():  # an error ends this part of the transaction only
                query = f"SELECT * FROM {quote(name)}"  # a name that the database gave
                for row in connection.exec_driver_sql(query, execution_options={"yield_per": _MANY}).mappings():
                    for column, value in row.items():
                        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                        if any(map(residue.in_passing, strings(text))):
                            yield f"{name}.{column}", None
        except DBAPIError:
            unread.append(f"the table {name} in the same database, which may not be read")
    other = sorted({*inspector.get_schema_names()} - {inspector.default_schema_name, "information_schema", "main"})
    unread += [f"the schema {name} of the same database" for name in other if inspector.get_table_names(name)]


def _live(connection: Connection) -> Iterator[bytes]:
    """All bytes that our rows hold where they should, and the tables' definitions."""
    names = [name for name in inspect(connection).get_table_names() if name.startswith("memalign_")]
    for name in (*names, "sqlite_master"):
        for row in connection.exec_driver_sql(f"SELECT * FROM {name}"):
            yield from (value if isinstance(value, bytes) else str(value).encode() for value in row)
