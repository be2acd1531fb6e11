"""Answers that a model was paid for and that no version holds yet: rows of the registry's PostgreSQL database.

A running align is a row of `memalign_runs`, and its answers are rows beside it. The rest is as with files: see `kept_answers`.
Several machines share a database, and an erasure on one must find what another one keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from sqlalchemy import Connection, Engine, delete, func, insert, literal, select
from sqlalchemy.exc import SQLAlchemyError

from memalign.errors import RegistryError
from memalign.registry.schema import answers, runs

__all__ = ["KeptRows", "count_kept", "earlier_answers", "forget_kept"]

_OLDEST, _OLDEST_EMPTY = timedelta(days=30), timedelta(days=1)  # what nobody took up by then goes


class KeptRows:
    """The answers of one running align; see `KeptAnswers` of the module `kept_answers`."""

    def __init__(self, engine: Engine, judge: int, explained: Callable[[Exception], str]) -> None:
        self._engine, self._explained = engine, explained
        with engine.begin() as connection:
            _forget_old(connection, judge)
            of_judge = select(answers.c.key, answers.c.answer, answers.c.run).join(runs).where(runs.c.judge == judge)
            self._earlier: dict[str, tuple[bytes, int]] = {
                key: (answer, run) for key, answer, run in connection.execute(of_judge)
            }
            new = insert(runs).values(judge=judge, started_at=datetime.now(UTC).isoformat()).returning(runs.c.id)
            self._run = int(connection.execute(new).scalar_one())
        self._own: dict[str, bytes] = {}
        self._taken: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._own:
            with suppress(SQLAlchemyError):  # an empty run goes by itself a day later
                self._remove({self._run})

    @property
    def taken_up(self) -> int:
        """How many answers of earlier, stopped runs were asked for here."""
        return len(self._taken)

    def find(self, key: str) -> bytes | None:
        """The answer of this key, paid for by this run or by an earlier one."""
        if key in self._own:
            return self._own[key]
        if key not in self._earlier:
            return None
        self._taken.add(key)
        return self._earlier[key][0]

    def keep(self, key: str, answer: bytes) -> None:
        """Keep an answer. Raises RegistryError where the server does not take it: nothing more is to be paid for."""
        if key in self._own:
            return
        # Of a run that is no longer there nothing is kept; and nobody removes it in between.
        there = select(runs.c.id, literal(key), literal(answer)).where(runs.c.id == self._run)
        there = there.with_for_update(read=True, key_share=True)
        try:
            with self._engine.begin() as connection:
                connection.execute(insert(answers).from_select(["run", "key", "answer"], there))
        except SQLAlchemyError as error:
            raise RegistryError(
                f"cannot keep what was paid for: {self._explained(error)}. Nothing was committed; {len(self._own)} "
                "answers are kept, and the same align takes them up"
            ) from error
        self._own[key] = answer

    def committed(self) -> None:
        """Remove what a version holds now: this run's answers, and those of earlier ones that it took up."""
        try:
            self._remove({self._run, *(self._earlier[key][1] for key in self._taken)})
        except SQLAlchemyError as error:
            raise RegistryError(
                f"the version is committed, and answers that led to it are still kept: {self._explained(error)}"
            ) from error

    def _remove(self, numbers: set[int]) -> None:
        with self._engine.begin() as connection:
            connection.execute(delete(runs).where(runs.c.id.in_(numbers)))


def earlier_answers(connection: Connection, judge: int) -> dict[str, bytes]:
    """The answers that stopped or running aligns of a judge have kept, by key; nothing is written."""
    query = select(answers.c.key, answers.c.answer).join(runs).where(runs.c.judge == judge)
    return {row.key: row.answer for row in connection.execute(query)}


def count_kept(connection: Connection, judge: int) -> int:
    """How many answers stopped or running aligns of a judge have kept."""
    query = select(func.count(answers.c.key.distinct())).join(runs).where(runs.c.judge == judge)
    return int(connection.execute(query).scalar_one())


def forget_kept(connection: Connection, judge: int) -> None:
    """Remove all kept answers of a judge, those of running aligns too."""
    connection.execute(delete(runs).where(runs.c.judge == judge))


def _forget_old(connection: Connection, judge: int) -> None:
    today = datetime.now(UTC)
    empty = ~select(answers.c.key).where(answers.c.run == runs.c.id).exists()
    old = runs.c.started_at < (today - _OLDEST).isoformat()
    left_empty = (runs.c.started_at < (today - _OLDEST_EMPTY).isoformat()) & empty
    connection.execute(delete(runs).where(runs.c.judge == judge, old | left_empty))
