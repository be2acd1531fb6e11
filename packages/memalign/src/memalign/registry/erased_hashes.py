"""What a registry remembers of erased feedback: keyed hashes, with no word to read.

They are HMACs under a random key of the judge's own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from memalign.keys import name_key, readings
from memalign.memory import LedgerEntry, Memory
from memalign.registry.tables import erasures, judges
from memalign.types import Feedback, FeedbackKey, Guideline

__all__ = ["ErasedHashes", "Wording", "remember", "wordings_of"]

Wording = tuple[str, str]
"""A person, and the text of a guideline that the person wrote or confirmed."""

_ALLOW = "take it back with --allow-erased, or allow_erased=True in Python"


class _Fact(NamedTuple):
    """Something that was erased: a key, a case (its content's hash or its id), a person, a wording.

    A wording is the text of a guideline that a person wrote or confirmed, with that person.
    """

    kind: Literal["key", "case", "id", "person", "wording"]
    text: str

    @classmethod
    def of_key(cls, key: FeedbackKey) -> _Fact:
        return cls("key", f"{key.id}\0{name_key(key.source)}")

    @classmethod
    def of_person(cls, name: str) -> _Fact:
        return cls("person", name_key(name))

    @classmethod
    def of_wording(cls, person: str, text: str) -> _Fact:
        return cls("wording", f"{name_key(person)}\0{text}")

    def digest(self, secret: str) -> str:
        key = bytes.fromhex(secret)
        data = f"{self.kind}\0{self.text}".encode("utf-8", "surrogatepass")
        return hmac.new(key, data, hashlib.sha256).hexdigest()


class ErasedHashes:
    """The erased feedback of one judge, or of all judges (`judge=None`), as keyed hashes."""

    def __init__(self, connection: Connection, judge: int | None) -> None:
        columns = (
            judges.c.secret,
            erasures.c.kind,
            erasures.c.digest,
            erasures.c.erased_at,
        )
        query = select(*columns).join(erasures)
        if judge is not None:
            query = query.where(judges.c.id == judge)
        self._secrets = set()
        self._days = {}
        for secret, kind, digest, erased_at in connection.execute(query):
            self._secrets.add(secret)
            self._days[kind, digest] = datetime.fromisoformat(erased_at).date()

    def __bool__(self) -> bool:
        return bool(self._days)

    def row_refusal(self, row: Feedback, memory: Memory) -> str | None:
        """Return why a judge of that memory may not learn a row.

        None if it may, as it may all that it has in memory already.
        """
        annotation = memory.annotation(row.key)
        if annotation is not None and annotation.says(row):
            return None
        if row.content:
            return self.refusal(row.key, [row.content_hash])
        return self.refusal(row.key, _content_of(memory, row.key))

    def refusals(self, memory: Memory, before: Memory) -> dict[FeedbackKey, str]:
        """Return what a memory holds that was erased and is not in the one before, with reasons."""
        reasons: dict[FeedbackKey, str] = {}
        if not self._days:
            return reasons
        new = set(_keys(memory)).difference(_keys(before))
        for key in sorted(new):
            contents = []
            if memory.annotation(key):
                contents = _content_of(memory, key)
            reason = self.refusal(key, contents)
            if reason is not None:
                reasons[key] = reason
        known = wordings_of(before.guidelines)
        for guideline in memory.guidelines:
            reason = self.wording_refusal(guideline, known)
            if reason is not None:
                reasons[FeedbackKey(guideline.id, guideline.origin)] = reason
        return reasons

    def wording_refusal(
        self, guideline: Guideline, known: Collection[Wording] = ()
    ) -> str | None:
        """Return why a guideline that a person wrote or confirmed may not come back.

        None if it may, as may the wordings that are `known` already.
        """
        for wording in wordings_of([guideline]).difference(known):
            day = self._day(_Fact.of_wording(*wording))
            if day is not None:
                return f"this wording was erased on {day}; {_ALLOW}"
        return None

    def refusal(self, key: FeedbackKey, contents: Iterable[str]) -> str | None:
        """Return why feedback of a key may not come back; None if it may.

        `contents` are the hashes of what its case holds.
        """
        day = self._day(_Fact.of_key(key))
        if day is not None:
            return f"this feedback was erased on {day}; {_ALLOW}"
        for content in contents:
            day = self._day(_Fact("case", content))
            if day is not None:
                return f"a case of this content was erased on {day}; {_ALLOW}"
        return None

    def readmit(self, connection: Connection, judge: int, memory: Memory) -> None:
        """Forget the hashes of what is in `memory` again: somebody asked for it to come back."""
        facts = set()
        for case in memory.cases:
            facts.add(_Fact("case", case.example.content_hash))
            facts.add(_Fact("id", case.id))
            for annotation in case.annotations:
                facts.add(_Fact.of_key(annotation.key))
                facts.add(_Fact.of_person(annotation.source))
        for wording in wordings_of(memory.guidelines):
            facts.add(_Fact.of_wording(*wording))
        known = {digest for _, digest in self._days}
        back = set()
        for secret in self._secrets:
            for fact in facts:
                back.add(fact.digest(secret))
        readmitted = delete(erasures).where(
            erasures.c.judge == judge,
            erasures.c.digest.in_(sorted(back & known)),
        )
        connection.execute(readmitted)

    def erased_on(self, selector: str | FeedbackKey) -> date | None:
        """Return the day on which the feedback of a key, written key or id was erased, or None."""
        if isinstance(selector, FeedbackKey):
            return self._day(_Fact.of_key(selector))
        for case, source in readings(selector):
            fact = _Fact("id", case)
            if source is not None:
                fact = _Fact.of_key(FeedbackKey(case, source))
            day = self._day(fact)
            if day is not None:
                return day
        return None

    def person_erased_on(self, source: str) -> date | None:
        """Return the day on which everything of a person was erased, or None."""
        return self._day(_Fact.of_person(source))

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return a ledger entry for every erased key.

        It has the beginning of the hash for an id, and no source.
        """
        found = []
        for (kind, digest), day in sorted(self._days.items()):
            if kind == "key":
                key = FeedbackKey(f"erased:{digest[:16]}", "")
                reason = f"erased on {day}"
                entry = LedgerEntry(key=key, state="erased", reason=reason)
                found.append(entry)
        return tuple(found)

    def _day(self, fact: _Fact) -> date | None:
        for secret in self._secrets:
            day = self._days.get((fact.kind, fact.digest(secret)))
            if day is not None:
                return day
        return None


def remember(
    connection: Connection,
    judge: int,
    *,
    keys: Iterable[FeedbackKey],
    contents: Iterable[str],
    cases: Iterable[str] = (),
    person: str | None = None,
    wordings: Iterable[Wording] = (),
) -> None:
    """Keep hashes of what was erased.

    Args:
        connection: The transaction.
        judge: The judge's id.
        keys: The erased feedback.
        contents: The hashes of the contents of erased cases.
        cases: Their ids.
        person: The person whose everything was erased.
        wordings: The wordings of people that went.
    """
    query = select(judges.c.secret).where(judges.c.id == judge)
    secret = connection.execute(query).scalar_one()
    query = select(erasures.c.digest).where(erasures.c.judge == judge)
    known = set(connection.scalars(query))
    facts = [
        *map(_Fact.of_key, keys),
        *[_Fact("case", content) for content in contents],
        *[_Fact("id", case) for case in cases],
    ]
    if person is not None:
        facts.append(_Fact.of_person(person))
    facts += [_Fact.of_wording(*wording) for wording in wordings]
    at = datetime.now(UTC).isoformat()
    new = {}
    for fact in facts:
        digest = fact.digest(secret)
        if digest not in known:
            new[digest] = {
                "judge": judge,
                "kind": fact.kind,
                "digest": digest,
                "erased_at": at,
            }
    if new:
        connection.execute(insert(erasures), list(new.values()))


def wordings_of(guidelines: Iterable[Guideline]) -> set[Wording]:
    """Return whose wordings guidelines are; none are of a model's own."""
    found = set()
    for guideline in guidelines:
        for person in guideline.people:
            found.add((name_key(person), guideline.text))
    return found


def _content_of(memory: Memory, key: FeedbackKey) -> list[str]:
    """Return the hash of what the case of a key holds; nothing if there is no case."""
    case = memory.case(key.id)
    if case is None:
        return []
    return [case.example.content_hash]


def _keys(memory: Memory) -> Iterator[FeedbackKey]:
    """Yield every key of feedback that a memory holds."""
    for annotation in memory.annotations():
        yield annotation.key
    for stone in memory.tombstones:
        yield stone.key
    for guideline in memory.guidelines:
        yield from guideline.exposed_to
        yield from guideline.supported_by
