"""What an erasure in the registry does to the server's tables, in the same transaction.

A row about a case, or about what somebody said of it, goes with the case or with that feedback. Another case's row
stays: what it shares with the erased text, people wrote of their own accord. Everything else that repeats the erased
text, such as a job's result, loses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, delete, inspect, select, update

from memalign.registry.receipt import Receipt
from memalign.registry.residue import Residue, strings
from memalign.types import FeedbackKey
from memalign_server.store import people_tables, work_tables
from memalign_server.store.columns import CASE_ID, JUDGE, MODEL_TEXT, SOURCE, TEXT, TEXT_ROW, metadata, to_json
from memalign_server.store.judgment_erasing import forget_judgments
from memalign_server.store.review_tables import queue

__all__ = ["ERASING", "TABLES", "ServerTables"]

ERASING: ContextVar[str | None] = ContextVar("memalign_server_erasing", default=None)
"""The id of the job that erases here; its row gets the receipt in the same transaction, whatever becomes of the server."""

_BLANK = json.dumps("(erased)")
_SENTENCE = 500  # characters: longer texts name no key in passing
_ = people_tables, work_tables  # their import is what puts them into the metadata


class ServerTables:
    """The server's tables, as the registry knows them."""

    prefix = "memalign_server_"

    def forget(self, connection: Connection, receipt: Receipt, residue: Residue) -> int:
        """Remove what repeats `residue` or belongs to the receipt's keys and cases; how many rows were touched."""
        touched = 0
        present = _present(connection)
        if queue in present:
            erased = {*receipt.cases, *(key.id for key in receipt.keys)}
            touched += forget_judgments(connection, receipt.judge, guidelines=receipt.guidelines, cases=erased)
        tables = [_Marked(table) for table in present]
        for table in tables:
            if table.case is not None:
                touched += table.forget_cases(connection, receipt, residue)
        for table in tables:
            columns = table.model_texts if table.case is not None else (*table.texts, *table.model_texts)
            if columns or table.row_texts:
                touched += table.forget_texts(connection, receipt.judge, residue, columns)
        job = ERASING.get()
        if job is not None:
            mine = update(work_tables.jobs).where(work_tables.jobs.c.id == job)
            connection.execute(mine.values(result=to_json(receipt.to_dict())))
        return touched

    def texts(self, connection: Connection) -> Iterator[bytes]:
        """Every value that the tables hold, as the file spells it."""
        for table in _present(connection):
            for row in connection.execute(select(table)):
                yield from (
                    value if isinstance(value, bytes) else str(value).encode() for value in row if value is not None
                )


TABLES = ServerTables()
"""What the entry point names."""


def _present(connection: Connection) -> list[Table]:
    """Our tables that this database has: another version of this package may have made it."""
    there = set(inspect(connection).get_table_names())
    return [table for table in metadata.sorted_tables if table.name in there]


class _Marked:
    """A table, by the marks of its columns."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.judge = self._one(JUDGE)
        self.case = self._one(CASE_ID)
        self.source = self._one(SOURCE)
        self.texts = self._all(TEXT)
        self.model_texts = self._all(MODEL_TEXT)
        self.row_texts = self._all(TEXT_ROW)

    def _all(self, mark: dict[str, str]) -> list[Column[Any]]:
        return [column for column in self.table.columns if column.info == mark]

    def _one(self, mark: dict[str, str]) -> Column[Any] | None:
        return next(iter(self._all(mark)), None)

    def forget_cases(self, connection: Connection, receipt: Receipt, residue: Residue) -> int:
        """Rows of an erased case or feedback go; the texts of others are survivors', and no longer searched for."""
        keys, cases, gone = set(receipt.keys), set(receipt.cases), 0
        for row in self._rows(connection, receipt.judge):
            case = self._value(row, self.case)
            source = self._value(row, self.source)
            if case in cases or (source is not None and FeedbackKey(case, source) in keys):
                gone += self._delete(connection, row)
            else:
                texts = [self._value(row, column) for column in (*self.texts, *self.row_texts)]
                residue.share(text for each in texts if each for text in strings(_parsed(each)))
        return gone

    def forget_texts(self, connection: Connection, judge: str, residue: Residue, columns: Iterable[Column[Any]]) -> int:
        """Rows that repeat erased text in these columns, or name an erased key, lose it."""
        touched = 0
        for row in self._rows(connection, judge):
            own = self.row_texts if self.case is None else ()
            if any(_holds(residue, self._value(row, column)) for column in own):
                touched += self._delete(connection, row)
                continue
            values = {column: self._value(row, column) for column in columns}
            blank = {
                column.name: None if column.nullable else _BLANK
                for column, value in values.items()
                if _holds(residue, value, sentences=True)
            }
            if blank:
                connection.execute(update(self.table).where(self._same(row)).values(blank))
                touched += 1
        return touched

    def _rows(self, connection: Connection, judge: str) -> list[Row[Any]]:
        query = select(self.table)
        if self.judge is not None:
            query = query.where((self.judge == judge) | self.judge.is_(None))
        return list(connection.execute(query))

    def _delete(self, connection: Connection, row: Row[Any]) -> int:
        connection.execute(delete(self.table).where(self._same(row)))
        return 1

    def _same(self, row: Row[Any]) -> Any:
        keys = list(self.table.primary_key)
        same = keys[0] == row._mapping[keys[0]]  # SQLAlchemy's public name for it
        for key in keys[1:]:
            same &= key == row._mapping[key]  # the same
        return same

    def _value(self, row: Row[Any], column: Column[Any] | None) -> Any:
        return None if column is None else row._mapping[column]  # the same


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _holds(residue: Residue, text: str | None, *, sentences: bool = False) -> bool:
    if not text:
        return False
    value = _parsed(text)
    return any(
        residue.copied(each) or (sentences and len(each) <= _SENTENCE and residue.in_sentence(each))
        for each in strings(value)
    ) or any(key in residue.keys for key in _keys(value))


def _keys(value: Any) -> Iterator[FeedbackKey]:
    """Every key of feedback in a JSON value: a list of id and source, or an object that has both."""
    if isinstance(value, dict):
        case, source = value.get("id"), value.get("source")
        if isinstance(case, str) and isinstance(source, str):
            yield FeedbackKey(case, source)
        for part in value.values():
            yield from _keys(part)
    elif isinstance(value, list):
        if len(value) == 2 and all(isinstance(part, str) for part in value):
            yield FeedbackKey(*value)
        for part in value:
            yield from _keys(part)
