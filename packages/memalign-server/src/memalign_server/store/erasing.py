"""What an erasure in the registry does to the server's tables, in the same transaction.

A row about a case, or about what somebody said of it, goes with the case or with that feedback.
Another case's row stays, without a model's words that repeat the erased text. Work of the judge
loses what it was given and what it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    Delete,
    Row,
    RowMapping,
    Table,
    Text,
    Update,
    delete,
    select,
    type_coerce,
    update,
)

from memalign.content import texts_in, values_in
from memalign.registry import Passage, Receipt, Residue, Words
from memalign.types import Example, FeedbackKey, Judgment
from memalign_server.store.answers import count_answers
from memalign_server.store.queries import CASE, SAID, of_judge
from memalign_server.store.tables import Json, from_json, jobs, people, queue, reviews
from memalign_server.store.team import delete_members

__all__ = ["ERASED", "TABLES", "forget_judgments"]

ERASED: Final = "an erasure took what this was to work on; ask again, with what is left"
"""Why work failed that an erasure took its arguments from."""
_GONE = "(erased)"
_JOB = jobs.c
_ERASES = _JOB.kind == "erase"
_RUNS = _JOB.state == "running"
_SENTENCE = 500  # characters: longer texts name no key in passing
_LABEL = 2
"""Words: a verdict of so few may be a choice of the judge's type, and is nobody's words."""
_OF_CASES = frozenset(
    ("inputs", "outputs", "expectations", "conversation", "trace", "value", "rationale")
)
_NAMES_OF_OTHERS: Mapping[str, str | None] = {
    "settled": None,
    "settled_by": _GONE,
    "overruled_by": _GONE,
    "overruled_for": _GONE,
}
"""Columns that name others than whoever answered, with what takes the place of a name."""
_WRITTEN = ("problem", "reference")
"""What of a receipt others may have written; the rest are its own fixed words."""

Holds = Callable[[str], bool]
"""Says whether a text repeats what is erased, be it in passing."""


class ServerTables:
    """The server's tables, as the registry knows them."""

    prefix = "memalign_server_"

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """Read every case and comment of a judge; of work, those that its JSON values copy."""
        example = _written_as(CASE.example)
        cases = select(CASE.case_id, CASE.content_hash, example)
        for row in connection.execute(cases.where(of_judge(judge))):
            case_id, about, written = row
            content = list(from_json(written).values())
            yield Passage(id=case_id, source=None, content=[content], about=about)
        answers = select(reviews).where(SAID.judge == judge)
        for row in connection.execute(answers):
            yield _passage(row)
        work = select(_JOB.arguments, _JOB.result)
        for row in connection.execute(work.where(_JOB.judge == judge)):
            yield from _copies(list(row))

    def forget(
        self, connection: Connection, receipt: Receipt, residue: Residue
    ) -> None:
        """Remove what is erased, and what repeats it."""
        forget_judgments(
            connection,
            receipt.judge,
            guidelines=receipt.lessons,
            cases=residue.touched,
            versions={one.number for one in receipt.versions if one.lessons},
        )
        holds = _reader(residue)
        for table in (queue, reviews):
            _forget_rows(connection, table, receipt.judge, residue, holds)
        count_answers(connection, receipt.judge)
        _leave_team(connection, receipt.judge)
        _forget_work(connection, receipt, residue, holds)

    def words(self, connection: Connection) -> Iterator[Words]:
        """Read every text of people and of judged systems, decoded."""
        for table in (people, queue, reviews, jobs):
            columns = [column for column in table.c if column.info]
            for row in connection.execute(select(table)):
                for column in columns:
                    yield from _words(row, column)


TABLES = ServerTables()
"""What the entry point names."""


# -- read ------------------------------------------------------------------------------------------


def _passage(row: Row[Any]) -> Passage:
    """Return what an answer says; a verdict without a word is feedback too."""
    words = []
    labels = []
    for value in (row.value, row.blind_value):
        if isinstance(value, str) and len(value.split()) > _LABEL:
            words.append(value)
        elif value is not None:
            labels.append(value)
    words += filter(None, (row.rationale, row.draft))
    content = words
    if labels and not words:
        content = [""]
    return Passage(
        id=row.case_id,
        source=row.person,
        content=content or None,
        labels=labels,
        about=row.content_hash,
    )


def _words(row: Row[Any], column: Column[Any]) -> Iterator[Words]:
    """Yield the texts of a column; of a receipt what others may have written."""
    value = row._mapping[column]  # SQLAlchemy's public name for it
    if column is _JOB.result and row.kind == "erase":
        value = _written(value)
    if isinstance(value, Example | Judgment):
        value = value.to_dict()
    judge = getattr(row, "judge", None)
    place = f"{column.table.name}.{column.name}"
    for text in texts_in(value):
        kind = column.info["memalign"]
        if kind == "sentence" and len(text) > _SENTENCE:
            kind = "field"
        yield Words(place=place, judge=judge, text=text, kind=kind)


def _written(receipt: Mapping[str, Any] | None) -> dict[str, Any]:
    written = {}
    for name in _WRITTEN:
        if receipt and name in receipt:
            written[name] = receipt[name]
    return written


def _copies(value: Any) -> Iterator[Passage]:
    """Yield the cases, and words on cases, that a JSON value repeats.

    They are objects with an id and a field of a case.
    """
    for part in values_in(value):
        if not isinstance(part, dict):
            continue
        content = dict(part)
        case_id = content.pop("id", None)
        source = content.pop("source", None)
        if not isinstance(case_id, str) or _OF_CASES.isdisjoint(part):
            continue
        words = list(content.values())
        yield Passage(id=case_id, source=None, content=words, copy=True)
        if isinstance(source, str):
            yield Passage(id=case_id, source=source, content=words, copy=True)


# -- forget ----------------------------------------------------------------------------------------


def _forget_rows(
    connection: Connection, table: Table, judge: str, residue: Residue, holds: Holds
) -> None:
    """Delete what was said of erased cases and by erased keys.

    Of the other rows what repeats it is emptied.
    """
    emptied = _emptied(table)
    own = set(table.primary_key) - {table.c.judge}
    read: list[Any] = [*own.union((table.c.case_id,))]
    for column in emptied:
        written = _written_as(column)
        read.append(written.label(column.name))
    of_this = table.c.judge == judge
    found = connection.execute(select(*read).where(of_this))
    for row in found.mappings().all():
        change: Delete | Update = delete(table)
        if not _goes(row, residue):
            blank = _blank(emptied, row, residue, holds)
            if not blank:
                continue
            change = update(table).values(blank)
        same = [column == row[column.name] for column in own]
        connection.execute(change.where(of_this, *same))


def _goes(row: RowMapping, residue: Residue) -> bool:
    """Return whether a case, or what was said of one, is erased."""
    case_id = row["case_id"]
    if case_id in residue.cases:
        return True
    if "person" not in row:
        return False
    key = FeedbackKey(case_id, row["person"])
    return residue.takes((key, row["content_hash"]))


def _emptied(table: Table) -> list[Column[Any]]:
    """Return the columns that are emptied, and not their row deleted.

    They hold words in passing, or names of others.
    """
    found = []
    for column in table.c:
        in_passing = column.info.get("memalign") == "sentence"
        if in_passing or column.name in _NAMES_OF_OTHERS:
            found.append(column)
    return found


def _blank(
    columns: Collection[Column[Any]],
    row: RowMapping,
    residue: Residue,
    holds: Holds,
) -> dict[str, Any]:
    """Return what takes the place of what a row repeats, by the column."""
    blank: dict[str, Any] = {}
    for column in columns:
        value = row[column.name]
        if column.name in _NAMES_OF_OTHERS:
            if _is_name(residue, value):
                blank[column.name] = _NAMES_OF_OTHERS[column.name]
            continue
        if isinstance(column.type, Json):
            value = from_json(value)
        if any(map(holds, texts_in(value))):
            blank[column.name] = None
    return blank


def _forget_work(
    connection: Connection, receipt: Receipt, residue: Residue, holds: Holds
) -> None:
    """Take all texts from the judge's work; what erases here gets the receipt, without names."""
    own = update(jobs).where(_JOB.judge == receipt.judge)
    others = own.where(~_ERASES)
    connection.execute(others.values(arguments=None, result=None))
    waiting = others.where(_JOB.state != "done")
    connection.execute(waiting.values(problem=ERASED))
    erasing = own.where(_ERASES, _RUNS)
    result = receipt.without_names()
    connection.execute(erasing.values(result=result, arguments=None))
    query = select(jobs).where(_JOB.judge == receipt.judge)
    for row in connection.execute(query).all():
        change = dict[str, Any]()
        if _is_name(residue, row.asked_by):
            change["asked_by"] = _GONE
        if row.kind == "erase":
            kept = dict(row.result or {})
            for name, text in _written(kept).items():
                if holds(text):
                    kept[name] = _GONE
                    change["result"] = kept
        if change:
            connection.execute(own.where(_JOB.id == row.id).values(change))


def _leave_team(connection: Connection, judge: str) -> None:
    """Take those out of the team who leave it with what the running job erases.

    Their sessions go with them.
    """
    erasing = select(_JOB.arguments).where(_ERASES, _RUNS)
    for arguments in connection.scalars(erasing.where(_JOB.judge == judge)):
        leaves = arguments.get("leaves") if arguments else None
        delete_members(connection, leaves or ())


def forget_judgments(
    connection: Connection,
    judge: str,
    *,
    guidelines: Collection[str],
    cases: Collection[str],
    versions: Collection[int],
) -> None:
    """Drop judgments whose prompt held one of these guidelines or cases; they are judged again.

    A model may have repeated in its reasons what it was shown, in words that no search would find.
    A judgment names the guidelines that applied; its prompt held all of its version.

    Args:
        connection: The transaction.
        judge: The judge.
        guidelines: The guidelines that go.
        cases: The cases that go.
        versions: The versions that had one of the guidelines.
    """
    empty = dict.fromkeys(("judgment", "verdict", "version"))
    text = _written_as(CASE.judgment)
    query = select(CASE.number, CASE.version, text)
    judged = query.where(of_judge(judge), CASE.judgment.is_not(None))
    for number, version, written in connection.execute(judged).all():
        shown = msgspec.json.decode(written, type=_Shown)
        of_version = version is None or version in versions
        goes = not shown.example_ids.isdisjoint(cases)
        if guidelines and of_version and shown.decided_by != "expert":
            goes = True
        if goes or not shown.applied.isdisjoint(guidelines):
            own = update(queue).where(CASE.number == number)
            connection.execute(own.values(empty))


class _Finding(msgspec.Struct):
    guideline: str = ""


class _Shown(msgspec.Struct):
    """What of a judgment says what its prompt held."""

    guideline_ids: frozenset[str] = frozenset()
    example_ids: frozenset[str] = frozenset()
    findings: list[_Finding] = []
    decided_by: str = ""

    @property
    def applied(self) -> frozenset[str]:
        """Return the guidelines that applied."""
        found = (finding.guideline for finding in self.findings)
        return self.guideline_ids.union(found)


def _written_as(column: Any) -> Any:
    """Return a column of JSON as the text that the table keeps.

    Most rows need not be made into cases and judgments.
    """
    return type_coerce(column, Text())


def _is_name(residue: Residue, name: str | None) -> bool:
    """Return whether this is the erased person's name."""
    if not name:
        return False
    return residue.is_name(name) or residue.certain(name)


def _reader(residue: Residue) -> Holds:
    """Return the function that says whether a text repeats what is erased, be it in passing.

    Most texts come many times.
    """

    @cache
    def holds(text: str) -> bool:
        if residue.copied(text):
            return True
        return len(text) <= _SENTENCE and residue.in_sentence(text)

    return holds
