"""After an erase: compact the database and search everything that can be reached, so that a receipt can say no."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, inspect, select
from sqlalchemy.exc import DBAPIError

from memalign.content.walk import texts_in
from memalign.errors import RegistryError
from memalign.registry.database import Database
from memalign.registry.judge_rows import Codec
from memalign.registry.kinds import names_in, words_of
from memalign.registry.other_tables import Words, other_tables
from memalign.registry.receipt import Receipt
from memalign.registry.residue import Residue, row_names
from memalign.registry.tables import answers, judges, metadata, rows, versions

__all__ = ["Trace", "in_other_tables", "search_again"]

_MANY = 1000  # rows at a time
_NOUNS = {"annotation": "comment", "pre_alignment": "the verdict on"}


class Trace(NamedTuple):
    """Where something is left, the judge whose it is (None: no judge's), and which row of it."""

    place: str
    judge: str | None
    row: str = ""


def search_again(database: Database, receipt: Receipt, residue: Residue) -> Receipt:
    """Compact the database, search what is left, and say in the receipt whether and where a word is.

    Others read and write meanwhile: rows are searched in a copy, and the file as it is; only if its bytes hold a trace
    are they searched once more while nobody writes.
    """
    try:
        database.compact()
    except RegistryError as error:
        raise RegistryError(
            f"the feedback is erased and that is committed, but what it left could not be wiped: {error}. Then run "
            "`memalign erase NAME` without a key (compact() in Python)"
        ) from error
    name, unread = receipt.judge, list[str]()
    with database.snapshot() as connection:
        traces = [
            *_in_registry(connection, residue, name),
            *in_other_tables(connection, residue, name),
            *_in_foreign_tables(connection, residue, unread),
        ]
        size, in_files = residue.in_files(database.files, _live(connection))
    if in_files:
        with database.read() as connection:
            size, in_files = residue.in_files(database.files, _live(connection))
    # Of another judge only its name.
    own = [trace for trace in traces if trace.judge in (None, name)]
    places = Counter(trace.place for trace in own)
    return replace(
        receipt,
        searched=f"all rows of every table{f', and {size:,} bytes of the file' if database.files else ''}",
        looked_for=residue.looked_for,
        left=(
            *(f"{at} ({n} row{'' if n == 1 else 's'})" for at, n in sorted(places.items())),
            *in_files,
        ),
        stays=tuple(dict.fromkeys(trace.row for trace in own if trace.row)),
        elsewhere=tuple(
            sorted({trace.judge for trace in traces if trace.judge not in (None, name)})
        ),
        unreachable=(*database.unreachable, *unread),
    )


def _in_registry(connection: Connection, residue: Residue, own: str) -> Iterator[Trace]:
    codec = Codec()
    query = select(judges.c.name, rows.c.kind, rows.c.key, rows.c.body).join(rows)
    for judge, kind, key, body in connection.execute(query):
        held = (
            _held_in_own(codec, residue, kind, key, body)
            if judge == own
            else _held(codec, residue, kind, key, body)
        )
        if held:
            place = f"{rows.name}.body, {f'the {key}' if kind == 'judge' else kind}"
            yield Trace(
                place,
                judge,
                f"{_NOUNS.get(kind, kind)} {key}" if kind not in ("judge", "memory") else "",
            )
    noted = (
        select(judges.c.name, versions.c.number, versions.c.note)
        .join(judges)
        .where(versions.c.note.is_not(None))
    )
    for version in connection.execute(noted):
        own_note = version.name == own and residue.in_sentence(version.note)
        if own_note or residue.certain(version.note) or residue.names_person(version.note):
            yield Trace(f"{versions.name}.note", version.name, f"version {version.number}")
    for name in connection.scalars(select(judges.c.name)):
        if residue.certain(name) or residue.names_person(name):
            yield Trace(f"{judges.name}.name", None)
    for judge, answer in connection.execute(select(judges.c.name, answers.c.answer).join(answers)):
        if any(
            residue.certain(text) or residue.names_person(text)
            for text in texts_in(json.loads(answer))
        ):
            yield Trace(f"{answers.name}.answer", judge)


def _held_in_own(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    """Return whether a row of the judge itself holds anything of what was erased."""
    if any(map(residue.copied, words_of(codec, kind, body))) or row_names(
        codec, residue, kind, key, body
    ):
        return True
    return _held_by_chance(codec, residue, kind, key, body)


def _held(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    """Return the same of a row of another judge. Short words are anybody's there: they prove nothing."""
    if kind == "case" and codec.decode(kind, body).content_hash in residue.contents:
        return True
    if any(map(residue.is_name, names_in(codec, kind, key, body))):
        return True
    return _held_by_chance(codec, residue, kind, key, body)


def _held_by_chance(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    state = [key, *(texts_in(codec.decode(kind, body)) if kind == "memory" else ())]
    texts = [*words_of(codec, kind, body), *state]
    return any(residue.certain(text) or residue.names_person(text) for text in texts)


def in_other_tables(connection: Connection, residue: Residue, own: str) -> Iterator[Trace]:
    """Yield what other packages' tables hold of what a judge is to lose."""
    for words in (
        words for tables in other_tables(connection) for words in tables.words(connection)
    ):
        if _is_held(words, residue, own):
            yield Trace(words.place, words.judge)


def _is_held(words: Words, residue: Residue, own: str) -> bool:
    text = words.text
    if words.kind == "name":
        return residue.is_name(text)
    if residue.certain(text) or residue.names_person(text):
        return True
    if words.judge not in (None, own):
        return False
    if words.kind == "id":
        return text in residue.cases
    return residue.in_sentence(text) if words.kind == "sentence" else residue.copied(text)


def _in_foreign_tables(
    connection: Connection, residue: Residue, unread: list[str]
) -> Iterator[Trace]:
    """Look into the tables that are no package's of ours; `unread` gets those that may not be read."""
    inspector, quote = inspect(connection), connection.dialect.identifier_preparer.quote
    ours = (*metadata.tables, *(tables.prefix for tables in other_tables(connection)))
    for name in inspector.get_table_names():
        if name.startswith(ours):
            continue
        try:
            with connection.begin_nested():  # an error ends this part of the transaction only
                query = f"SELECT * FROM {quote(name)}"  # a name that the database gave
                for row in connection.exec_driver_sql(
                    query, execution_options={"yield_per": _MANY}
                ).mappings():
                    for column, value in row.items():
                        text = (
                            value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                        )
                        if any(map(residue.in_passing, texts_in(text))):
                            yield Trace(f"{name}.{column}", None)
        except DBAPIError:
            unread.append(f"the table {name} in the same database, which may not be read")
    other = sorted(
        {*inspector.get_schema_names()}
        - {inspector.default_schema_name, "information_schema", "main"}
    )
    unread += [
        f"the schema {name} of the same database"
        for name in other
        if inspector.get_table_names(name)
    ]


def _live(connection: Connection) -> Iterator[bytes]:
    """All bytes that our rows hold where they should, and the tables' definitions."""
    names = [name for name in inspect(connection).get_table_names() if name.startswith("memalign_")]
    for name in (*names, "sqlite_master"):
        for row in connection.exec_driver_sql(f"SELECT * FROM {name}"):
            yield from (value if isinstance(value, bytes) else str(value).encode() for value in row)
