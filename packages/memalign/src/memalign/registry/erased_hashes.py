"""What a registry remembers of erased feedback: keyed hashes, with no word to read.

They are HMACs under a random key of the judge's own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from memalign.keys import name_key, readings
from memalign.memory import LedgerEntry, Memory
from memalign.registry.tables import erasures, judges
from memalign.types import Feedback, FeedbackKey

__all__ = ["ErasedHashes", "remember"]

_ALLOW = "take it back with --allow-erased, or allow_erased=True in Python"


class _Fact(NamedTuple):
    """Something that was erased: a key, a case by its content's hash or its id, or a person."""

    kind: Literal["key", "case", "id", "person"]
    text: str

    @classmethod
    def of_key(cls, key: FeedbackKey) -> _Fact:
        return cls("key", f"{key.id}\0{name_key(key.source)}")

    @classmethod
    def of_person(cls, name: str) -> _Fact:
        return cls("person", name_key(name))

    def digest(self, secret: str) -> str:
        data = f"{self.kind}\0{self.text}".encode("utf-8", "surrogatepass")
        return hmac.new(bytes.fromhex(secret), data, hashlib.sha256).hexdigest()


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
        self._secrets = set[str]()
        self._days: dict[tuple[str, str], date] = {}
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
        if not self._days or (annotation and annotation.says(row)):
            return None
        if row.content:
            return self.refusal(row.key, [row.content_hash])
        case = memory.case(row.id)
        return self.refusal(row.key, [case.example.content_hash] if case else [])

    def refusals(self, memory: Memory, before: Memory) -> dict[FeedbackKey, str]:
        """Return what a memory holds that was erased and is not in the one before, with reasons."""
        reasons: dict[FeedbackKey, str] = {}
        if not self._days:
            return reasons
        for key in sorted(set(_keys(memory)) - set(_keys(before))):
            case = memory.case(key.id) if memory.annotation(key) else None
            reason = self.refusal(key, [case.example.content_hash] if case else [])
            if reason:
                reasons[key] = reason
        return reasons

    def refusal(self, key: FeedbackKey, contents: Iterable[str]) -> str | None:
        """Return why feedback of a key may not come back; None if it may.

        `contents` are the hashes of what its case holds.
        """
        if day := self._day(_Fact.of_key(key)):
            return f"this feedback was erased on {day}; {_ALLOW}"
        for content in contents:
            if day := self._day(_Fact("case", content)):
                return f"a case of this content was erased on {day}; {_ALLOW}"
        return None

    def readmit(self, connection: Connection, judge: int, memory: Memory) -> None:
        """Forget the hashes of what is in `memory` again: somebody asked for it to come back."""
        facts = set[_Fact]()
        for case in memory.cases:
            facts.update(
                (_Fact("case", case.example.content_hash), _Fact("id", case.id))
            )
            for said in case.annotations:
                facts.update((_Fact.of_key(said.key), _Fact.of_person(said.source)))
        digests = {fact.digest(secret) for secret in self._secrets for fact in facts}
        back = digests.intersection(digest for _, digest in self._days)
        same = (erasures.c.judge == judge, erasures.c.digest.in_(sorted(back)))
        connection.execute(delete(erasures).where(*same))

    def erased_on(self, selector: str | FeedbackKey) -> date | None:
        """Return the day on which the feedback of a key, written key or id was erased, or None."""
        if isinstance(selector, FeedbackKey):
            return self._day(_Fact.of_key(selector))
        for case, source in readings(selector):
            fact = (
                _Fact.of_key(FeedbackKey(case, source)) if source else _Fact("id", case)
            )
            if day := self._day(fact):
                return day
        return None

    def person_erased_on(self, source: str) -> date | None:
        """Return the day on which everything of a person was erased, or None."""
        return self._day(_Fact.of_person(source))

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return a ledger entry for every erased key.

        It has the beginning of the hash for an id, and no source.
        """
        found = list[LedgerEntry]()
        for (kind, digest), day in sorted(self._days.items()):
            if kind == "key":
                key = FeedbackKey(f"erased:{digest[:16]}", "")
                found.append(
                    LedgerEntry(key=key, state="erased", reason=f"erased on {day}")
                )
        return tuple(found)

    def _day(self, fact: _Fact) -> date | None:
        for secret in self._secrets:
            if day := self._days.get((fact.kind, fact.digest(secret))):
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
) -> None:
    """Keep hashes of what was erased.

    Args:
        connection: The transaction.
        judge: The judge's id.
        keys: The erased feedback.
        contents: The hashes of the contents of erased cases.
        cases: Their ids.
        person: The person whose everything was erased.
    """
    secret = connection.execute(
        select(judges.c.secret).where(judges.c.id == judge)
    ).scalar_one()
    known = set(
        connection.scalars(select(erasures.c.digest).where(erasures.c.judge == judge))
    )
    facts = set(map(_Fact.of_key, keys))
    facts.update(_Fact("case", content) for content in contents)
    facts.update(_Fact("id", case) for case in cases)
    if person is not None:
        facts.add(_Fact.of_person(person))
    at = datetime.now(UTC).isoformat()
    new = {(fact.kind, fact.digest(secret)) for fact in facts}
    values = list[dict[str, object]]()
    for kind, digest in sorted(new):
        if digest not in known:
            values.append(
                {"judge": judge, "kind": kind, "digest": digest, "erased_at": at}
            )
    if values:
        connection.execute(insert(erasures), values)


def _keys(memory: Memory) -> Iterator[FeedbackKey]:
    """Yield every key of feedback that a memory holds."""
    yield from (annotation.key for annotation in memory.annotations())
    yield from (stone.key for stone in memory.tombstones)
    for guideline in memory.guidelines:
        yield from (*guideline.exposed_to, *guideline.supported_by)
