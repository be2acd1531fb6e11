"""Work that a team shares: how many answers a case wants, and who has which case open.

A case that somebody has open is served to nobody else for ten minutes, unless it wants several answers. One server
works on a database, so what is open is in its memory and in no table; a restart forgets it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    case,
    delete,
    func,
    insert,
    literal,
    select,
)

from memalign_server.problems import Refused
from memalign_server.store.tables import judge_settings, queue, reviews

__all__ = [
    "OPEN_SECONDS",
    "THUMB",
    "OpenCases",
    "Turn",
    "answers_of",
    "answers_wanted",
    "needed",
    "set_answers_wanted",
]

OPEN_SECONDS: Final = 600.0
THUMB: Final = "thumb"
"""In place of a form: a thumb of an application, which takes no expert's answer away."""
CHOICES: Final = (1, 2, 3)
_MEASURING: Final = 2
"""Answers that a case wants at least which measures the judge: there people are compared among themselves."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What others and the person who asks have open, while nobody else is served.

    Attributes:
        own: The cases that the person has open.
        others: How many other people have a case open.
    """

    own: frozenset[str] = frozenset()
    others: Mapping[str, int] = field(default_factory=dict)


class OpenCases:
    """Who has which case open. Safe for several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._lock = threading.RLock()
        self._until: dict[tuple[str, str, str], float] = {}  # by judge, case and person

    @contextmanager
    def turn(self, judge: str, person: str) -> Iterator[Turn]:
        """Let one person be served while nobody else is: what they are served must be opened before this ends."""
        with self._lock:
            now = self.clock()
            self._until = {key: until for key, until in self._until.items() if until > now}
            here = [(case_id, who) for of, case_id, who in self._until if of == judge]
            own = frozenset(case_id for case_id, who in here if who == person)
            yield Turn(own=own, others=Counter(case_id for case_id, who in here if who != person))

    def open(self, judge: str, case_id: str, person: str) -> None:
        """Note that a person has a case open, from now for ten minutes."""
        with self._lock:
            self._until[judge, case_id, person] = self.clock() + OPEN_SECONDS

    def close(self, judge: str, case_id: str, person: str) -> None:
        """Note that a person has a case open no longer: they answered it, or went on."""
        with self._lock:
            self._until.pop((judge, case_id, person), None)


def answers_wanted(connection: Connection, judge: str) -> int:
    """Return how many people's answers a case of a judge wants."""
    query = select(judge_settings.c.answers_wanted).where(judge_settings.c.judge == judge)
    return int(connection.execute(query).scalar() or 1)


def set_answers_wanted(connection: Connection, judge: str, wanted: int) -> None:
    """Set how many people's answers a case wants: 1, 2 or 3. Raises InputError for another number."""
    if wanted not in CHOICES:
        raise Refused("a case wants 1, 2 or 3 answers")
    connection.execute(delete(judge_settings).where(judge_settings.c.judge == judge))
    connection.execute(insert(judge_settings).values(judge=judge, answers_wanted=wanted))


def needed(wanted: int) -> ColumnElement[int]:
    """The number of answers that a row of the queue wants; one that measures the judge wants two at least."""
    return case(
        (queue.c.held_out == 1, literal(max(wanted, _MEASURING), Integer)),
        else_=literal(wanted, Integer),
    )


def answers_of(judge: str) -> ColumnElement[int]:
    """The number of experts' answers that a row of the queue has."""
    given = reviews.alias()  # the query around it may read `reviews` too
    of_case = (given.c.judge == judge, given.c.case_id == queue.c.case_id)
    said = (given.c.state == "answered", given.c.form != THUMB)
    return (
        select(func.count())
        .select_from(given)
        .where(*of_case, *said)
        .correlate(queue)
        .scalar_subquery()
    )
