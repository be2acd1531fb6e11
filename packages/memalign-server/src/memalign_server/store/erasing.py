"""What an erasure in the registry does to the server's tables, in the same transaction, and what it reads there.

A row about a case, or about what somebody said of it, goes with the case or with that feedback. Another case's row
stays, without a model's words that repeat the erased text. Work of the judge loses what it was given and what it gave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, select, update

from memalign.registry import Receipt
from memalign.registry.other_tables import Passage, TextKind, Words
from memalign.registry.residue import Residue, strings
from memalign.types import Example, FeedbackKey, Judgment
from memalign_server.problems import Refused
from memalign_server.store.tables import jobs, people, queue, reviews

__all__ = ["ERASED", "TABLES", "check_team_keeps_owner", "forget_judgments"]

ERASED: Final = "an erasure took what this was to work on; ask again, with what is left"
"""Why work failed that an erasure took its arguments from."""
_GONE = "(erased)"
_SENTENCE = 500  # characters: longer texts name no key in passing
_LABEL = 2  # words: a verdict of so few may be a choice of the judge's type, and is nobody's words
_OF_CASES = frozenset(("inputs", "outputs", "expectations", "conversation", "trace", "value", "rationale"))
_OF_MODELS = {queue: ("judgment", "verdict", "first_value", "problem"), reviews: ("judge_value",)}


class ServerTables:
    """The server's tables, as the registry knows them."""

    prefix = "memalign_server_"

    def passages(self, connection: Connection, judge: str) -> Iterator[Passage]:
        """Read every case and comment of a judge; of work, those that its JSON values copy."""
        for row in connection.execute(select(queue.c.case_id, queue.c.example).where(queue.c.judge == judge)):
            yield Passage(id=row.case_id, source=None, content=[list(row.example.to_dict().values())])
        for row in connection.execute(select(reviews).where(reviews.c.judge == judge)):
            values = [value for value in (row.value, row.blind_value) if value is not None]
            words = [value for value in values if isinstance(value, str) and len(value.split()) > _LABEL]
            content = [text for text in (*words, row.rationale, row.draft) if text]
            labels = [value for value in values if value not in words]
            if labels and not content:
                content = [""]  # a verdict without a word is feedback too
            yield Passage(id=row.case_id, source=row.person, content=content or None, labels=labels)
        for row in connection.execute(select(jobs.c.arguments, jobs.c.result).where(jobs.c.judge == judge)):
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
        for table, names in _OF_MODELS.items():
            for row in connection.execute(select(table).where(table.c.judge == receipt.judge)).all():
                this = and_(*(column == row._mapping[column] for column in table.primary_key))  # a public name
                source = row.person if table is reviews else None
                blank: dict[str, Any] = {name: None for name in names if _holds(residue, getattr(row, name))}
                if table is queue and _is_name(residue, row.settled):
                    blank["settled"] = None
                named = ("settled_by",) if table is queue else ("overruled_by", "overruled_for")
                blank |= {name: _GONE for name in named if _is_name(residue, getattr(row, name))}
                if row.case_id in residue.cases or (source and FeedbackKey(row.case_id, source) in residue.keys):
                    connection.execute(delete(table).where(this))
                elif blank:
                    connection.execute(update(table).where(this).values(blank))
                else:
                    continue
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
            yield from _texts(reviews.name, row.judge, row, ("person", "overruled_by", "overruled_for"), kind="name")
            yield from _texts(reviews.name, row.judge, row, ("value", "blind_value", "rationale", "draft"))
            yield from _texts(reviews.name, row.judge, row, _OF_MODELS[reviews], kind="sentence")
        for row in connection.execute(select(jobs)):
            yield from _texts(jobs.name, row.judge, row, ("asked_by",), kind="name")
            yield from _texts(jobs.name, row.judge, row, ("arguments", "result", "problem"), kind="sentence")


TABLES = ServerTables()
"""What the entry point names."""


def check_team_keeps_owner(connection: Connection, leaving: Collection[str]) -> None:
    """Raise InputError if the team has an owner, and none would be left without these people, by id."""
    owners = set(connection.execute(select(people.c.id).where(people.c.role == "owner")).scalars())
    if owners and owners.issubset(leaving):
        raise Refused("the team needs an owner: add another one first")


def _leave_team(connection: Connection, judge: str) -> None:
    """Take those out of the team who leave it with what the running job erases; their sessions go with them."""
    erasing = select(jobs.c.arguments).where(jobs.c.judge == judge, jobs.c.kind == "erase", jobs.c.state == "running")
    for arguments in connection.execute(erasing).scalars():
        leaving = (arguments or {}).get("leaves") or ()
        check_team_keeps_owner(connection, leaving)
        connection.execute(delete(people).where(people.c.id.in_(leaving)))


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
        applied = {*row.judgment.guideline_ids, *(finding.guideline for finding in row.judgment.findings)}
        of_version = bool(rules) and (row.version is None or row.version in versions)
        by_model = of_version and row.judgment.decided_by != "expert"
        if by_model or rules & applied or examples & set(row.judgment.example_ids):
            connection.execute(update(queue).where(queue.c.number == row.number).values(empty))
            count += 1
    return count


def _texts(
    table: str, judge: str | None, row: Row[Any], names: Sequence[str], *, kind: TextKind = "field"
) -> Iterator[Words]:
    """The texts of a row's columns; of a receipt what others may have written, for the rest are its own fixed words."""
    receipt = table == jobs.name and row.kind == "erase"
    for name in names:
        value = _written(row) if receipt and name == "result" else getattr(row, name)
        for text in _strings(value):
            short = kind != "sentence" or len(text) <= _SENTENCE
            yield Words(place=f"{table}.{name}", judge=judge, text=text, kind=kind if short else "field")


def _written(row: Row[Any]) -> dict[str, Any]:
    result = row.result if row.kind == "erase" and row.result else {}
    return {name: result[name] for name in ("problem", "reference") if name in result}


def _strings(value: Any) -> Iterator[str]:
    return strings(value.to_dict() if isinstance(value, Example | Judgment) else value)


def _is_name(residue: Residue, name: str | None) -> bool:
    """Whether somebody goes who has this name."""
    return residue.is_name(name) or (bool(name) and residue.certain(str(name)))


def _holds(residue: Residue, value: Any) -> bool:
    """Whether a value repeats what is erased, be it in passing."""
    texts = _strings(value)
    return any(residue.copied(text) or (len(text) <= _SENTENCE and residue.in_sentence(text)) for text in texts)


def _copies(value: Any) -> Iterator[Passage]:
    """The cases, and words on cases, that a JSON value repeats: objects with an id and a field of a case or verdict."""
    if isinstance(value, dict) and isinstance(value.get("id"), str) and not _OF_CASES.isdisjoint(value):
        content = [field for name, field in value.items() if name not in ("id", "source")]
        yield Passage(id=value["id"], source=None, content=content, copy=True)
        if isinstance(value.get("source"), str):
            yield Passage(id=value["id"], source=value["source"], content=content, copy=True)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _copies(part)
