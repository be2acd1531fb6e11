"""The parts of queries that cases and answers share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, exists

from memalign_server.store.rows import QueuedCase, read_row
from memalign_server.store.tables import queue, reviews

T = TypeVar("T")

AT_ONCE: Final = 500
"""Rows of one statement, and ids of one IN (…)."""
CASE: Final = queue.c
"""The columns of a case."""
SAID: Final = reviews.c
"""The columns of an answer."""
HELD_OUT: Final = CASE.held_out == 1
NOT_HELD_OUT: Final = CASE.held_out == 0
ANSWERED: Final = SAID.state == "answered"
COME_TO: Final = SAID.state != "undone"
"""Somebody answered the case, skipped it or was not sure."""
ON_CASE: Final = and_(SAID.judge == CASE.judge, SAID.case_id == CASE.case_id)
"""An answer is on a case of the queue, whatever the case holds."""
IN_QUEUE: Final = exists().where(ON_CASE, CASE.content_hash == SAID.content_hash)
"""The queue has the very content of which something was said."""


def of_judge(judge: str) -> ColumnElement[bool]:
    """Return the condition that a case is of a judge's queue."""
    return CASE.judge == judge


def said_of(judge: str, said: Any = SAID) -> ColumnElement[bool]:
    """Return the condition that an answer is on a case of a judge as it is now.

    What was said of other content under the same id is set apart.

    Args:
        judge: The judge.
        said: The columns of the answer.
    """
    return and_(said.judge == judge, said.apart == 0)


def said_by(judge: str, person: str) -> ColumnElement[bool]:
    """Return the condition that an answer is a person's on a case of a judge."""
    return and_(said_of(judge), SAID.person == person)


def said_of_case(judge: str) -> ColumnElement[bool]:
    """Return the condition that joins answers to a case of the queue."""
    return and_(said_of(judge), SAID.case_id == CASE.case_id)


def of_person(judge: str, person: str) -> ColumnElement[bool]:
    """Return the condition that joins a person's answer to a case of the queue."""
    return and_(said_of_case(judge), SAID.person == person)


def read_cases(connection: Connection, query: Select[Any]) -> list[QueuedCase]:
    """Return the cases that a query finds."""
    return [read_row(QueuedCase, queue, row) for row in connection.execute(query)]


def parts_of(values: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield the values in parts, each as long as one statement takes."""
    rest = list(values)
    for start in range(0, len(rest), size):
        yield rest[start : start + size]
