"""What an erasure in the registry does to the server's tables, in the same transaction, and what it finds there.

A row about a case, or about what somebody said of it, goes with the case or with that feedback. Another case's row
stays: what it shares with the erased text, people wrote of their own accord. Everything else that repeats the erased
text, such as a job's result, loses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, delete, inspect, select, update

from memalign.registry.other_tables import Erased, Passage, Words
from memalign.registry.residue import strings
from memalign.types import FeedbackKey
from memalign_server.store.columns import (
    CASE_ID,
    JUDGE,
    MODEL_ROW,
    MODEL_TEXT,
    PERSON,
    SEARCHED,
    SOURCE,
    TEXT,
    TEXT_ROW,
    metadata,
    to_json,
)
from memalign_server.store.judgment_erasing import forget_judgments
from memalign_server.store.tables import jobs, queue

__all__ = ["TABLES", "ServerTables"]

_GONE = "(erased)"
_BLANK = json.dumps(_GONE)
_SENTENCE = 500  # characters: longer texts name no key in passing
_LABEL = 2  # words: a verdict of so few may be a choice of the judge's type, and is no one's words
_OF_CASES = frozenset(("inputs", "outputs", "expectations", "conversation", "trace", "value", "rationale"))


class ServerTables:
    """The server's tables, as the registry knows them."""

    prefix = "memalign_server_"

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """Every case of a judge in the tables, and everything that somebody said of one."""
        for table in _tables(connection):
            yield from table.passages(connection, judge)

    def forget(self, connection: Connection, erased: Erased) -> int:
        """Remove what is erased, and what repeats it; how many rows were touched."""
        receipt = erased.receipt
        tables = _tables(connection)
        touched = 0
        if any(table.table is queue for table in tables):
            shown = erased.cases | {key.id for key in erased.keys}
            touched += forget_judgments(
                connection,
                receipt.judge,
                guidelines=receipt.guidelines,
                cases=shown,
                versions={version.number for version in receipt.versions if version.guidelines},
            )
        for table in tables:
            touched += table.forget(connection, erased)
        # Work that erases here gets the receipt in the same transaction, without names, and loses what it was given.
        erasing = (jobs.c.judge == receipt.judge, jobs.c.kind == "erase", jobs.c.state == "running")
        if any(table.table is jobs for table in tables):
            receipt_text = to_json(receipt.without_names())
            connection.execute(update(jobs).where(*erasing).values(result=receipt_text, arguments=None))
        return touched

    def words(self, connection: Connection) -> Iterator[Words]:
        """Every text of people and of judged systems that the tables hold."""
        for table in _tables(connection):
            yield from table.words(connection)

    def texts(self, connection: Connection) -> Iterator[bytes]:
        """Every value that the tables hold, as the file spells it."""
        for table in _tables(connection):
            for row in connection.execute(select(table.table)):
                yield from (
                    value if isinstance(value, bytes) else str(value).encode() for value in row if value is not None
                )


TABLES = ServerTables()
"""What the entry point names."""


def _tables(connection: Connection) -> list[_Marked]:
    """Our tables that this database has: another version of this package may have made it."""
    there = set(inspect(connection).get_table_names())
    return [_Marked(table) for table in metadata.sorted_tables if table.name in there]


class _Marked:
    """A table, by the marks of its columns."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.judge = next(iter(self._marked(JUDGE)), None)
        self.case = next(iter(self._marked(CASE_ID)), None)
        self.source = next(iter(self._marked(SOURCE)), None)
        self.texts = self._marked(TEXT)
        self.row_texts = self._marked(TEXT_ROW)
        self.model_texts = self._marked(MODEL_TEXT)
        self.model_rows = self._marked(MODEL_ROW)
        self.persons = self._marked(PERSON)
        self.searched = self._marked(SEARCHED)

    def _marked(self, mark: dict[str, str]) -> list[Column[Any]]:
        return [column for column in self.table.columns if column.info == mark]

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """The cases and people's words in a judge's rows; of other tables, the cases that their texts copy."""
        if self.case is None:
            if self.judge is None:
                return
            for row in self._rows(connection, judge):
                for column in (*self.texts, *self.row_texts):
                    yield from _copies(_parsed(_value(row, column)))
            return
        for row in self._rows(connection, judge):
            content, labels = list[Any](), list[Any]()
            for column in (*self.texts, *self.row_texts):
                value = _parsed(_value(row, column))
                if (
                    isinstance(value, str) and value != _value(row, column) and len(value.split()) <= _LABEL
                ) or isinstance(value, bool | int | float):
                    labels.append(value)
                elif value:
                    content.append(list(value.values()) if isinstance(value, dict) else value)
            spoken = content if content or not labels else [""]
            source = _value(row, self.source)
            yield Passage(id=_value(row, self.case), source=source, content=spoken or None, labels=labels)

    def forget(self, connection: Connection, erased: Erased) -> int:
        """Rows of an erased case or feedback go, and other rows lose what repeats it."""
        touched, residue = 0, erased.residue
        for row in self._rows(connection, erased.receipt.judge):
            if self._goes(row, erased):
                connection.execute(delete(self.table).where(self._same(row)))
                touched += 1
                continue
            own = self.model_texts if self.case is not None else (*self.texts, *self.model_texts)
            blank: dict[str, Any] = {
                column.name: None if column.nullable else _BLANK
                for column in own
                if _holds(erased, _value(row, column), sentences=True)
            }
            blank |= {
                column.name: None if column.nullable else _GONE
                for column in self.persons
                if (name := _value(row, column)) and (name == residue.person or residue.certain(name))
            }
            if blank:
                connection.execute(update(self.table).where(self._same(row)).values(blank))
                touched += 1
        return touched

    def _goes(self, row: Row[Any], erased: Erased) -> bool:
        if self.case is not None:
            case, source = _value(row, self.case), _value(row, self.source)
            if case in erased.cases or (source is not None and FeedbackKey(case, source) in erased.keys):
                return True
        whole = self.model_rows if self.case is not None else (*self.row_texts, *self.model_rows)
        return any(_holds(erased, _value(row, column)) for column in whole)

    def words(self, connection: Connection) -> Iterator[Words]:
        """Every text of the marked columns, decoded."""
        named = ((self.persons, {"is_name": True}), (self.searched, {"is_name": True}))
        ids = ([self.case] if self.case is not None else [], {"is_id": True})
        sources = ([self.source] if self.source is not None else [], {"is_name": True})
        people = [] if self.case is None else [*self.texts, *self.row_texts]
        rest = [*self.model_texts, *self.model_rows, *([] if people else [*self.texts, *self.row_texts])]
        for row in connection.execute(select(self.table)):
            judge = _value(row, self.judge)
            for columns, kind in (*named, ids, sources):
                for column in columns:
                    if value := _value(row, column):
                        yield Words(place=self._place(column), judge=judge, text=value, **kind)
            for column in (*people, *rest):
                for text in strings(_parsed(_value(row, column))):
                    in_passing = column in rest and len(text) <= _SENTENCE
                    yield Words(place=self._place(column), judge=judge, text=text, is_sentence=in_passing)

    def _place(self, column: Column[Any]) -> str:
        return f"{self.table.name}.{column.name}"

    def _rows(self, connection: Connection, judge: str) -> list[Row[Any]]:
        query = select(self.table)
        if self.judge is not None:
            query = query.where((self.judge == judge) | self.judge.is_(None))
        return list(connection.execute(query))

    def _same(self, row: Row[Any]) -> Any:
        keys = list(self.table.primary_key)
        same = keys[0] == _value(row, keys[0])
        for key in keys[1:]:
            same &= key == _value(row, key)
        return same


def _value(row: Row[Any], column: Column[Any] | None) -> Any:
    return None if column is None else row._mapping[column]  # SQLAlchemy's public name for it


def _parsed(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def _copies(value: Any) -> Iterator[Passage]:
    """The cases, and words on cases, that a JSON value repeats: objects with an id and a field of a case or verdict."""
    if isinstance(value, dict):
        case, source = value.get("id"), value.get("source")
        if isinstance(case, str) and not _OF_CASES.isdisjoint(value):
            content = [part for name, part in value.items() if name not in ("id", "source")]
            yield Passage(id=case, source=None, content=content, copy=True)
            if isinstance(source, str):
                yield Passage(id=case, source=source, content=content, copy=True)
        for part in value.values():
            yield from _copies(part)
    elif isinstance(value, list):
        for part in value:
            yield from _copies(part)


def _holds(erased: Erased, text: str | None, *, sentences: bool = False) -> bool:
    if not text:
        return False
    value, residue = _parsed(text), erased.residue
    return any(
        residue.copied(each) or (sentences and len(each) <= _SENTENCE and residue.in_sentence(each))
        for each in strings(value)
    ) or _names(erased, value)


def _names(erased: Erased, value: Any) -> bool:
    """Whether a JSON value names an erased case or key: an object with an id, or a list of an id and a source."""
    if isinstance(value, dict):
        case, source = value.get("id"), value.get("source")
        if isinstance(case, str) and case in erased.cases:
            return True
        if isinstance(case, str) and isinstance(source, str) and FeedbackKey(case, source) in erased.keys:
            return True
        return any(_names(erased, part) for part in value.values())
    if isinstance(value, list):
        if len(value) == 2 and all(isinstance(part, str) for part in value) and FeedbackKey(*value) in erased.keys:
            return True
        return any(_names(erased, part) for part in value)
    return False
