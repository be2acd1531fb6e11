"""What an erasure in the registry does to the server's tables, in the same transaction, and what it reads there.

A row about a case, or about what somebody said of it, goes with the case or with that feedback. Another case's row
stays, without a model's words that repeat the erased text. Work of the judge loses what it was given and what it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    Row,
    Table,
    Text,
    and_,
    delete,
    select,
    type_coerce,
    update,
)

from memalign.content.walk import texts_in
from memalign.registry import Receipt
from memalign.registry.other_tables import Passage, TextKind, Words
from memalign.registry.residue import Residue
from memalign.types import Example, FeedbackKey, Judgment
from memalign_server.store.tables import Json, from_json, jobs, people, queue, reviews
from memalign_server.store.team import delete_members

__all__ = ["ERASED", "TABLES", "forget_judgments"]

ERASED: Final = "an erasure took what this was to work on; ask again, with what is left"
"""Why work failed that an erasure took its arguments from."""
_GONE = "(erased)"
_SENTENCE = 500  # characters: longer texts name no key in passing
_LABEL = 2  # words: a verdict of so few may be a choice of the judge's type, and is nobody's words
_OF_CASES = frozenset(
    ("inputs", "outputs", "expectations", "conversation", "trace", "value", "rationale")
)
_OF_MODELS = {queue: ("judgment", "verdict", "first_value", "problem"), reviews: ("judge_value",)}

_NAMES_OF_OTHERS: dict[Table, dict[str, str | None]] = {
    queue: {"settled": None, "settled_by": _GONE},
    reviews: {"overruled_by": _GONE, "overruled_for": _GONE},
}
"""Columns that name people other than whoever answered, with what stands there when the name has gone."""


class ServerTables:
    """The server's tables, as the registry knows them."""

    prefix = "memalign_server_"

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """Read every case and comment of a judge; of work, those that its JSON values copy."""
        cases = select(queue.c.case_id, _written_as(queue.c.example).label("example"))
        for row in connection.execute(cases.where(queue.c.judge == judge)):
            yield Passage(
                id=row.case_id, source=None, content=[list(from_json(row.example).values())]
            )
        for row in connection.execute(select(reviews).where(reviews.c.judge == judge)):
            values = [value for value in (row.value, row.blind_value) if value is not None]
            words = [
                value for value in values if isinstance(value, str) and len(value.split()) > _LABEL
            ]
            content = [text for text in (*words, row.rationale, row.draft) if text]
            labels = [value for value in values if value not in words]
            if labels and not content:
                content = [""]  # a verdict without a word is feedback too
            yield Passage(id=row.case_id, source=row.person, content=content or None, labels=labels)
        for row in connection.execute(
            select(jobs.c.arguments, jobs.c.result).where(jobs.c.judge == judge)
        ):
            yield from _copies([row.arguments, row.result])

    def forget(self, connection: Connection, receipt: Receipt, residue: Residue) -> int:
        """Remove what is erased, and what repeats it; returns how many rows were touched."""
        touched = forget_judgments(
            connection,
            receipt.judge,
            guidelines=receipt.guidelines,
            cases=residue.cases | {key.id for key in residue.keys},
            versions={version.number for version in receipt.versions if version.guidelines},
        )
        repeats = _reader(residue)
        for table, names in _OF_MODELS.items():
            people = _NAMES_OF_OTHERS[table]
            columns = [*table.primary_key, table.c.case_id.label("of_case")]
            columns += [table.c[name].label(f"{name}_name") for name in people]
            columns += [_written_as(table.c[name]).label(f"{name}_text") for name in names]
            for row in connection.execute(
                select(*columns).where(table.c.judge == receipt.judge)
            ).all():
                source = row.person if table is reviews else None
                written = {name: getattr(row, f"{name}_text") for name in names}
                blank: dict[str, Any] = {
                    name: None for name, text in written.items() if repeats(table.c[name], text)
                }
                for name, gone in people.items():
                    if _is_name(residue, getattr(row, f"{name}_name")):
                        blank[name] = gone
                goes = row.of_case in residue.cases or (
                    source and FeedbackKey(row.of_case, source) in residue.keys
                )
                if not (goes or blank):
                    continue
                this = and_(
                    *(column == row._mapping[column] for column in table.primary_key)
                )  # a public name
                change = delete(table) if goes else update(table).values(blank)
                connection.execute(change.where(this))
                touched += 1
        _leave_team(connection, receipt.judge)
        self._forget_work(connection, receipt, residue)
        return touched

    def _forget_work(self, connection: Connection, receipt: Receipt, residue: Residue) -> None:
        """Take all texts from the judge's work; work that erases here gets the receipt, without names."""
        own, erases = jobs.c.judge == receipt.judge, jobs.c.kind == "erase"
        emptied = update(jobs).where(own, ~erases)
        connection.execute(emptied.values(arguments=None, result=None))
        connection.execute(emptied.where(jobs.c.state != "done").values(problem=ERASED))
        erasing = update(jobs).where(own, erases, jobs.c.state == "running")
        connection.execute(erasing.values(result=receipt.without_names(), arguments=None))
        for row in connection.execute(select(jobs).where(own)).all():
            this = update(jobs).where(jobs.c.id == row.id)
            if _is_name(residue, row.asked_by):
                connection.execute(this.values(asked_by=_GONE))
            if texts := [name for name, text in _written(row).items() if _holds(residue, text)]:
                connection.execute(this.values(result=row.result | dict.fromkeys(texts, _GONE)))

    def words(self, connection: Connection) -> Iterator[Words]:
        """Read every text of people and of judged systems, decoded."""
        for row in connection.execute(select(people)):
            yield from _texts(people.name, None, row, ("name", "name_key"), kind="name")
            yield from _texts(people.name, None, row, ("subject",), kind="sentence")
        for row in connection.execute(select(queue)):
            yield from _texts(queue.name, row.judge, row, ("case_id",), kind="id")
            yield from _texts(queue.name, row.judge, row, ("settled", "settled_by"), kind="name")
            yield from _texts(queue.name, row.judge, row, ("example",))
            yield from _texts(queue.name, row.judge, row, _OF_MODELS[queue], kind="sentence")
        for row in connection.execute(select(reviews)):
            yield from _texts(reviews.name, row.judge, row, ("case_id",), kind="id")
            yield from _texts(
                reviews.name,
                row.judge,
                row,
                ("person", "overruled_by", "overruled_for"),
                kind="name",
            )
            yield from _texts(
                reviews.name, row.judge, row, ("value", "blind_value", "rationale", "draft")
            )
            yield from _texts(reviews.name, row.judge, row, _OF_MODELS[reviews], kind="sentence")
        for row in connection.execute(select(jobs)):
            yield from _texts(jobs.name, row.judge, row, ("asked_by",), kind="name")
            yield from _texts(
                jobs.name, row.judge, row, ("arguments", "result", "problem"), kind="sentence"
            )


TABLES = ServerTables()
"""What the entry point names."""


def _leave_team(connection: Connection, judge: str) -> None:
    """Take those out of the team who leave it with what the running job erases; their sessions go with them."""
    erasing = select(jobs.c.arguments).where(
        jobs.c.judge == judge, jobs.c.kind == "erase", jobs.c.state == "running"
    )
    for arguments in connection.execute(erasing).scalars():
        leaving = (arguments or {}).get("leaves") or ()
        delete_members(connection, leaving)


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
    empty: dict[str, Any] = {"judgment": None, "verdict": None, "version": None}
    judged = (queue.c.judge == judge, queue.c.judgment.is_not(None))
    written = select(queue.c.number, _written_as(queue.c.judgment).label("text"), queue.c.version)
    for row in connection.execute(written.where(*judged)).all():
        shown = msgspec.json.decode(row.text, type=_Shown)
        applied = {*shown.guideline_ids, *(finding.guideline for finding in shown.findings)}
        of_version = bool(rules) and (row.version is None or row.version in versions)
        by_model = of_version and shown.decided_by != "expert"
        if by_model or rules & applied or examples & set(shown.example_ids):
            connection.execute(update(queue).where(queue.c.number == row.number).values(empty))
            count += 1
    return count


class _Finding(msgspec.Struct):
    guideline: str = ""


class _Shown(msgspec.Struct):
    """What of a judgment says what its prompt held."""

    guideline_ids: list[str] = []
    example_ids: list[str] = []
    findings: list[_Finding] = []
    decided_by: str = ""


def _written_as(column: Any) -> Any:
    """A column of JSON as the text that the table keeps: most rows need not be made into cases and judgments."""
    return type_coerce(column, Text())


def _reader(residue: Residue) -> Callable[[Column[Any], str | None], bool]:
    """Return the function that says whether what a column holds repeats what is erased; most texts come many times."""
    known: dict[str, bool] = {}

    def holds(text: str) -> bool:
        if text not in known:
            known[text] = _holds(residue, text)
        return known[text]

    def repeats(column: Column[Any], written: str | None) -> bool:
        if not written:
            return False
        value = from_json(written) if isinstance(column.type, Json) else written
        return any(map(holds, texts_in(value)))

    return repeats


def _texts(
    table: str, judge: str | None, row: Row[Any], names: Sequence[str], *, kind: TextKind = "field"
) -> Iterator[Words]:
    """The texts of a row's columns; of a receipt what others may have written, for the rest are its own fixed words."""
    receipt = table == jobs.name and row.kind == "erase"
    for name in names:
        value = _written(row) if receipt and name == "result" else getattr(row, name)
        for text in _strings(value):
            short = kind != "sentence" or len(text) <= _SENTENCE
            yield Words(
                place=f"{table}.{name}", judge=judge, text=text, kind=kind if short else "field"
            )


def _written(row: Row[Any]) -> dict[str, Any]:
    result = row.result if row.kind == "erase" and row.result else {}
    return {name: result[name] for name in ("problem", "reference") if name in result}


def _strings(value: Any) -> Iterator[str]:
    return texts_in(value.to_dict() if isinstance(value, Example | Judgment) else value)


def _is_name(residue: Residue, name: str | None) -> bool:
    """Whether somebody goes who has this name."""
    return residue.is_name(name) or (bool(name) and residue.certain(str(name)))


def _holds(residue: Residue, value: Any) -> bool:
    """Whether a value repeats what is erased, be it in passing."""
    texts = _strings(value)
    return any(
        residue.copied(text) or (len(text) <= _SENTENCE and residue.in_sentence(text))
        for text in texts
    )


def _copies(value: Any) -> Iterator[Passage]:
    """The cases, and words on cases, that a JSON value repeats: objects with an id and a field of a case or verdict."""
    if (
        isinstance(value, dict)
        and isinstance(value.get("id"), str)
        and not _OF_CASES.isdisjoint(value)
    ):
        content = [field for name, field in value.items() if name not in ("id", "source")]
        yield Passage(id=value["id"], source=None, content=content, copy=True)
        if isinstance(value.get("source"), str):
            yield Passage(id=value["id"], source=value["source"], content=content, copy=True)
    for part in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from _copies(part)
