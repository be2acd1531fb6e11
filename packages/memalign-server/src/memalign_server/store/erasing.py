"""What an erasure in the registry does to the server's tables, in the same transaction, and what it reads there.

A row about a case, or about what somebody said of it, goes with the case or with that feedback. Another case's row
stays: what it shares with the erased text, people wrote of their own accord. Everything else that repeats the erased
text, such as a job's result, loses it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Column, Connection, Row, Table, delete, inspect, select, update

from memalign.registry.other_tables import Erased, Passage, Words
from memalign.registry.residue import strings
from memalign.types import FeedbackKey
from memalign_server.store import tables as marks
from memalign_server.store.tables import from_json, jobs, metadata, queue, to_json

_ERASED = "(erased)"
_SENTENCE = 500  # characters: longer texts name no key in passing
_LABEL = 2  # words: a verdict of so few may be a choice of the judge's type, and is nobody's words
_NOT_OURS = ("problem", "reference")  # of a receipt: what others may have written; the rest are its own fixed words
_OF_CASES = frozenset(("inputs", "outputs", "expectations", "conversation", "trace", "value", "rationale"))


class ServerTables:
    """The server's tables, as the registry knows them."""

    prefix = "memalign_server_"

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """Read every case and comment of a judge; of work, those that its JSON values copy."""
        for table in _tables(connection):
            if table.judge is None:
                continue
            for row in table.rows(connection, judge):
                if table.case is None:
                    for column in table.people:
                        yield from _copies(_json(row, column))
                else:
                    yield table.passage(row)

    def forget(self, connection: Connection, erased: Erased) -> int:
        """Remove what is erased, and what repeats it; returns how many rows were touched."""
        receipt = erased.receipt
        touched = forget_judgments(
            connection,
            receipt.judge,
            guidelines=receipt.guidelines,
            cases=erased.cases | {key.id for key in erased.keys},
            versions={version.number for version in receipt.versions if version.guidelines},
        )
        touched += sum(table.forget(connection, erased) for table in _tables(connection))
        # Work that erases here gets the receipt in the same transaction, without names, and loses its arguments.
        erasing = (jobs.c.judge == receipt.judge, jobs.c.kind == "erase", jobs.c.state == "running")
        result = to_json(receipt.without_names())
        connection.execute(update(jobs).where(*erasing).values(result=result, arguments=None))
        return touched

    def words(self, connection: Connection) -> Iterator[Words]:
        """Read every text of people and of judged systems, decoded."""
        for table in _tables(connection):
            for row in connection.execute(select(table.table)):
                yield from table.words(row)


TABLES = ServerTables()
"""What the entry point names."""


def forget_judgments(
    connection: Connection,
    judge: str,
    *,
    guidelines: Collection[str],
    cases: Collection[str],
    versions: Collection[int],
) -> int:
    """Drop judgments whose prompt held one of these guidelines or cases, which wait to be judged again: how many.

    A model may have repeated in its reasons what it was shown, in words that no search would find. A judgment names the
    guidelines that applied; its prompt held all of its version, and `versions` are those that had one of these.
    """
    rules, examples, count = set(guidelines), set(cases), 0
    empty: dict[str, Any] = {"judgment": None, "verdict": None, "version": None, "rank": 0.5}
    judged = (queue.c.judge == judge, queue.c.judgment.is_not(None))
    for row in connection.execute(select(queue.c.number, queue.c.judgment, queue.c.version).where(*judged)).all():
        judgment = from_json(row.judgment)
        applied = {*judgment["guideline_ids"], *(finding["guideline"] for finding in judgment["findings"])}
        of_version = bool(rules) and (row.version is None or row.version in versions)
        by_model = of_version and judgment["decided_by"] != "expert"
        if by_model or rules & applied or examples & set(judgment["example_ids"]):
            connection.execute(update(queue).where(queue.c.number == row.number).values(empty))
            count += 1
    return count


class _MarkedTable:
    """A table, by the marks of its columns."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.judge, self.case, self.source = (
            next(self._marked(mark), None) for mark in (marks.JUDGE, marks.CASE_ID, marks.SOURCE)
        )
        self.people, self.models, self.persons, self.searched = (
            list(self._marked(mark)) for mark in (marks.TEXT, marks.MODEL_TEXT, marks.PERSON, marks.SEARCHED)
        )

    def _marked(self, mark: dict[str, str]) -> Iterator[Column[Any]]:
        return (column for column in self.table.columns if column.info == mark)

    def rows(self, connection: Connection, judge: str) -> list[Row[Any]]:
        """The rows of a judge; all of a table that is of none."""
        query = select(self.table)
        return list(connection.execute(query if self.judge is None else query.where(self.judge == judge)))

    def passage(self, row: Row[Any]) -> Passage:
        """The case of a row, or what somebody said of it."""
        content, labels = list[Any](), list[Any]()
        for column in self.people:
            value = _json(row, column)
            # A choice such as "A" is kept as JSON, with its quotes; people's words are kept as they are.
            choice = isinstance(value, str) and value != _text(row, column) and len(value.split()) <= _LABEL
            if choice or isinstance(value, bool | int | float):
                labels.append(value)
            elif value:
                content.append(list(value.values()) if isinstance(value, dict) else value)
        if labels and not content:
            content = [""]  # a verdict without a word is feedback too
        source = _text(row, self.source)
        return Passage(id=str(_text(row, self.case)), source=source, content=content or None, labels=labels)

    def forget(self, connection: Connection, erased: Erased) -> int:
        """Delete rows of what is erased, and empty columns that repeat it; returns how many rows were touched."""
        touched = 0
        for row in self.rows(connection, erased.receipt.judge):
            same = [key == row._mapping[key] for key in self.table.primary_key]  # SQLAlchemy's public name for it
            if self._goes(row, erased):
                connection.execute(delete(self.table).where(*same))
            elif blank := self._blank(row, erased):
                connection.execute(update(self.table).where(*same).values(blank))
            else:
                continue
            touched += 1
        return touched

    def _goes(self, row: Row[Any], erased: Erased) -> bool:
        case, source = _text(row, self.case), _text(row, self.source)
        if case is None or not source:
            return case in erased.cases
        return case in erased.cases or FeedbackKey(case, source) in erased.keys

    def _blank(self, row: Row[Any], erased: Erased) -> dict[str, Any]:
        """The columns of a row that repeat what is erased, with what takes its place."""
        empty = dict[str, Any]()
        for column in (*self.models, *(self.people if self.case is None else ())):
            if _holds(erased, _without_fixed_words(row, column)):
                value = _json(row, column)
                receipt = column is jobs.c.result and row.kind == "erase" and isinstance(value, dict)
                blanked = {name: _ERASED for name in _NOT_OURS if receipt and _holds(erased, value.get(name))}
                empty[column.name] = to_json({**value, **blanked}) if receipt else None  # a receipt is for good
        for column in self.persons:
            name = _text(row, column)
            if name and (name == erased.residue.person or erased.residue.certain(name)):
                empty[column.name] = None if column.nullable else _ERASED
        return empty

    def words(self, row: Row[Any]) -> Iterator[Words]:
        """Every text of a row's marked columns."""
        judge = _text(row, self.judge)
        for column in (*self.persons, *self.searched, self.source, self.case):
            if column is not None and (text := _text(row, column)):
                is_id = column is self.case
                yield Words(place=str(column), judge=judge, text=text, is_id=is_id, is_name=not is_id)
        for column in (*self.people, *self.models):
            of_person = self.case is not None and column in self.people
            for text in strings(_without_fixed_words(row, column)):
                in_passing = not of_person and len(text) <= _SENTENCE
                yield Words(place=str(column), judge=judge, text=text, is_sentence=in_passing)


def _tables(connection: Connection) -> list[_MarkedTable]:
    """Our tables that this database has: another version of this package may have made it."""
    names = set(inspect(connection).get_table_names())
    return [_MarkedTable(table) for table in metadata.sorted_tables if table.name in names]


def _text(row: Row[Any], column: Column[Any] | None) -> str | None:
    return None if column is None else row._mapping[column]


def _json(row: Row[Any], column: Column[Any]) -> Any:
    """The value of a column: of JSON, or the text itself."""
    text = _text(row, column)
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def _without_fixed_words(row: Row[Any], column: Column[Any]) -> Any:
    """The value of a column; of a receipt only what it does not say of every erasure."""
    value = _json(row, column)
    if column is jobs.c.result and row.kind == "erase" and isinstance(value, dict):
        return [value.get(name) for name in _NOT_OURS]
    return value


def _within(value: Any) -> Iterator[Any]:
    """A JSON value and all that it is made of."""
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _within(part)


def _copies(value: Any) -> Iterator[Passage]:
    """The cases, and words on cases, that a JSON value repeats: objects with an id and a field of a case or verdict."""
    for part in _within(value):
        if isinstance(part, dict) and isinstance(part.get("id"), str) and not _OF_CASES.isdisjoint(part):
            content = [field for name, field in part.items() if name not in ("id", "source")]
            yield Passage(id=part["id"], source=None, content=content, copy=True)
            if isinstance(part.get("source"), str):
                yield Passage(id=part["id"], source=part["source"], content=content, copy=True)


def _holds(erased: Erased, value: Any) -> bool:
    """Whether a JSON value names what is erased, or repeats words of it, be it in passing."""
    residue = erased.residue
    return any(_names(erased, part) for part in _within(value)) or any(
        residue.copied(text) or (len(text) <= _SENTENCE and residue.in_sentence(text)) for text in strings(value)
    )


def _names(erased: Erased, value: Any) -> bool:
    """Whether this names an erased case or key: an object with an id, or a list of an id and a source."""
    case, source = None, None
    if isinstance(value, dict):
        case, source = value.get("id"), value.get("source")
        if isinstance(case, str) and case in erased.cases:
            return True
    elif isinstance(value, list) and len(value) == 2:
        case, source = value
    return isinstance(case, str) and isinstance(source, str) and FeedbackKey(case, source) in erased.keys
