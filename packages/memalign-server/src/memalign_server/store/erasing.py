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
from memalign_server.store.tables import Json, from_json, jobs, people, queue, reviews
from memalign_server.store.team import delete_members

__all__ = ["ERASED", "TABLES", "forget_judgments"]

ERASED: Final = "an erasure took what this was to work on; ask again, with what is left"
"""Why work failed that an erasure took its arguments from."""
_GONE = "(erased)"
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
        example = _written_as(queue.c.example)
        cases = select(queue.c.case_id, queue.c.content_hash, example)
        of_judge = cases.where(queue.c.judge == judge)
        for case_id, about, written in connection.execute(of_judge):
            content = list(from_json(written).values())
            yield Passage(id=case_id, source=None, content=[content], about=about)
        for row in connection.execute(select(reviews).where(reviews.c.judge == judge)):
            yield _passage(row)
        work = select(jobs.c.arguments, jobs.c.result).where(jobs.c.judge == judge)
        for row in connection.execute(work):
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
                judge = row.judge if "judge" in table.c else None
                for column in columns:
                    yield from _words(table, column, judge, row)


TABLES = ServerTables()
"""What the entry point names."""


# -- read ------------------------------------------------------------------------------------------


def _passage(row: Row[Any]) -> Passage:
    """Return what an answer says; a verdict without a word is feedback too."""
    words = list[str]()
    labels = list[Any]()
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


def _words(
    table: Table, column: Column[Any], judge: str | None, row: Row[Any]
) -> Iterator[Words]:
    """Yield the texts of a column; of a receipt what others may have written."""
    value = row._mapping[column]  # SQLAlchemy's public name for it
    if column is jobs.c.result and row.kind == "erase":
        value = _written(value)
    if isinstance(value, Example | Judgment):
        value = value.to_dict()
    place = f"{table.name}.{column.name}"
    for text in texts_in(value):
        kind = column.info["memalign"]
        if kind == "sentence" and len(text) > _SENTENCE:
            kind = "field"
        yield Words(place=place, judge=judge, text=text, kind=kind)


def _written(receipt: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: receipt[name] for name in _WRITTEN if receipt and name in receipt}


def _copies(value: Any) -> Iterator[Passage]:
    """Yield the cases, and words on cases, that a JSON value repeats.

    They are objects with an id and a field of a case.
    """
    for part in values_in(value):
        if not isinstance(part, dict) or _OF_CASES.isdisjoint(part):
            continue
        content = dict(part)
        case_id = content.pop("id", None)
        source = content.pop("source", None)
        if not isinstance(case_id, str):
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
    own = [column for column in table.primary_key if column.name != "judge"]
    read: list[Any] = list(dict.fromkeys((table.c.case_id, *own)))
    for column in emptied:
        read.append(_written_as(column).label(column.name))
    of_judge = table.c.judge == judge
    for row in connection.execute(select(*read).where(of_judge)).mappings().all():
        change: Delete | Update = delete(table)
        if not _goes(row, residue):
            blank = _blank(emptied, row, residue, holds)
            if not blank:
                continue
            change = update(table).values(blank)
        same = [column == row[column.name] for column in own]
        connection.execute(change.where(of_judge, *same))


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
    found = list[Column[Any]]()
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
    own = jobs.c.judge == receipt.judge
    erases = jobs.c.kind == "erase"
    emptied = update(jobs).where(own, ~erases)
    connection.execute(emptied.values(arguments=None, result=None))
    connection.execute(emptied.where(jobs.c.state != "done").values(problem=ERASED))
    erasing = update(jobs).where(own, erases, jobs.c.state == "running")
    connection.execute(erasing.values(result=receipt.without_names(), arguments=None))
    for row in connection.execute(select(jobs).where(own)).all():
        change = dict[str, Any]()
        if _is_name(residue, row.asked_by):
            change["asked_by"] = _GONE
        written = _written(row.result) if row.kind == "erase" else {}
        repeating = [name for name, text in written.items() if holds(text)]
        if repeating:
            change["result"] = row.result | dict.fromkeys(repeating, _GONE)
        if change:
            same = jobs.c.id == row.id
            connection.execute(update(jobs).where(same).values(change))


def _leave_team(connection: Connection, judge: str) -> None:
    """Take those out of the team who leave it with what the running job erases.

    Their sessions go with them.
    """
    query = select(jobs.c.arguments).where(jobs.c.judge == judge)
    query = query.where(jobs.c.kind == "erase", jobs.c.state == "running")
    for arguments in connection.scalars(query):
        delete_members(connection, (arguments or {}).get("leaves") or ())


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
    written = select(queue.c.number, _written_as(queue.c.judgment), queue.c.version)
    judged = written.where(queue.c.judge == judge, queue.c.judgment.is_not(None))
    for number, text, version in connection.execute(judged).all():
        shown = msgspec.json.decode(text, type=_Shown)
        held = version is None or version in versions
        by_model = bool(guidelines) and held and shown.decided_by != "expert"
        examples = not shown.example_ids.isdisjoint(cases)
        if by_model or examples or not shown.applied.isdisjoint(guidelines):
            own = update(queue).where(queue.c.number == number)
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
    return residue.is_name(name) or (bool(name) and residue.certain(str(name)))


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
