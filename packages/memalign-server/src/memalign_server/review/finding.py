"""Cases that hold a text, taught or not, and the text by which a person knows a case again."""

from __future__ import annotations

from itertools import islice

from sqlalchemy import Connection, select

from memalign.judge import Judge
from memalign.registry.residue import strings
from memalign.types import Example
from memalign_server.store.columns import from_json, to_json
from memalign_server.store.tables import queue

__all__ = ["case_text", "find_cases"]

MOST = 20
"""Cases of one answer."""


def case_text(example: Example) -> str:
    """The text whose first line tells a person which case it is: the reply, the request, or whatever there is."""
    whole = [text for text in (example.outputs, example.inputs) if isinstance(text, str) and text.strip()]
    return next(iter(whole or strings(list(example.content.values()))), "")


def find_cases(connection: Connection, judge: Judge, text: str) -> list[Example]:
    """The cases of the queue and of the memory that hold a text, in whatever letters and with whatever blanks."""
    wanted = _plain(text)
    if not wanted:
        return []
    query = select(queue.c.example).where(queue.c.judge == judge.name).order_by(queue.c.number)
    words = [to_json(word)[1:-1] for word in wanted.split()]  # as JSON spells them: most rows need not be read
    rows = (row for row in connection.execute(query).scalars() if all(word in row.casefold() for word in words))
    queued = (Example.from_dict(from_json(row)) for row in rows)
    cases = {case.id: case for case in (*queued, *(case.example for case in judge.memory.cases))}
    holding = (case for case in cases.values() if wanted in _plain(" ".join(strings(list(case.content.values())))))
    return list(islice(holding, MOST))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
