"""Answers that a model was paid for and that no version holds yet.

Each is a row under the hash of a model and a request, and goes when the version is committed. What
a stopped align left is taken up by the next one that asks the same. An erase, an unalign and a
delete leave none of the judge's answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, bindparam, delete, insert, select

from memalign.errors import JudgeNotFound, RegistryError
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.tables import ANSWER, answers

__all__ = ["PaidAnswers"]


class PaidAnswers:
    """The answers that one running align has paid for, and those that stopped ones left.

    Opening it writes nothing.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._answers: dict[str, bytes] = {}
        self._own: set[str] = set()
        self._taken: set[str] = set()
        with database.read() as connection:
            self._head = versions.find(connection, name)
            own = ANSWER.judge == self._head.judge
            query = select(ANSWER.key, ANSWER.answer).where(own)
            for key, answer in connection.execute(query):
                self._answers[key] = answer

    @property
    def taken_up(self) -> int:
        """How many answers of earlier, stopped runs were asked for here."""
        return len(self._taken)

    def get(self, key: str) -> bytes | None:
        """Return the answer under a key, paid for by this run or an earlier one, or None."""
        if key in self._answers and key not in self._own:
            self._taken.add(key)
        return self._answers.get(key)

    async def keep(self, new: Mapping[str, bytes]) -> None:
        """Keep answers by key, in a thread of its own.

        Raises RegistryError: nothing more is to be paid for.
        """
        await asyncio.to_thread(self._write, new)

    def _write(self, new: Mapping[str, bytes]) -> None:
        judge = self._head.judge
        rows = [
            {"judge": judge, "key": key, "answer": answer}
            for key, answer in new.items()
        ]
        try:
            with self._database.write(self._name) as connection:
                if self._may_keep(connection):
                    # A row that is there already could not be read, or came from an align beside
                    # this one.
                    self._remove(connection, new)
                    connection.execute(insert(answers), rows)
        except RegistryError as error:
            raise RegistryError(
                f"cannot keep what was paid for: {error}. Nothing was committed; "
                f"{len(self._own)} answers are kept, and the same align takes them up"
            ) from error
        self._own.update(new)
        self._answers.update(new)

    def _may_keep(self, connection: Connection) -> bool:
        """Return whether nothing was forgotten since this align began.

        It may have read what went.
        """
        try:
            head = versions.find(connection, self._name)
        except JudgeNotFound:
            return False
        same = head._replace(latest=self._head.latest)
        return same == self._head

    def committed(self) -> None:
        """Remove what a version holds now: the answers that this run paid for or took up."""
        keys = self._taken | self._own
        if keys:
            with self._database.write(self._name) as connection:
                self._remove(connection, keys)

    def _remove(self, connection: Connection, keys: Iterable[str]) -> None:
        same = delete(answers).where(
            ANSWER.judge == self._head.judge,
            ANSWER.key == bindparam("of_key"),
        )
        named = [{"of_key": key} for key in keys]
        connection.execute(same, named)
