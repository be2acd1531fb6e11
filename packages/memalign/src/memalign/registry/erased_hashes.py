"""What a registry remembers of erased feedback: keyed hashes, with no word to read.

They are HMACs under a random key of the judge's own.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple

from sqlalchemy import Connection, delete, insert, select

from memalign.keys import name_key, readings
from memalign.memory import LedgerEntry, Memory
from memalign.registry.kinds import Held, values_of
from memalign.registry.residue import Residue
from memalign.registry.tables import ERASURE, JUDGE, erasures
from memalign.types import Feedback, FeedbackKey

__all__ = ["ErasedHashes", "Wording", "wordings_of"]

Wording = tuple[str, str]
"""A person, and a text of what was learned that the person wrote or confirmed."""

_ALLOW = "take it back with --allow-erased, or allow_erased=True in Python"


class _Fact(NamedTuple):
    """Something that was erased: a key, a case (its content's hash or its id), a person, a wording.

    A wording is a text, such as a guideline's, that a person wrote or confirmed, with that person.
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
        fact = f"{self.kind}\0{self.text}"
        data = fact.encode("utf-8", "surrogatepass")
        return hmac.new(key, data, hashlib.sha256).hexdigest()


class ErasedHashes:
    """The erased feedback of one judge, or of all judges (`judge=None`), as keyed hashes."""

    def __init__(self, connection: Connection, judge: int | None) -> None:
        columns = (
            JUDGE.secret,
            ERASURE.kind,
            ERASURE.digest,
            ERASURE.erased_at,
        )
        query = select(*columns).join(erasures)
        if judge is not None:
            query = query.where(JUDGE.id == judge)
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
        contents = []
        case = memory.case(row.id)
        if row.content:
            contents = [row.content_hash]
        elif case is not None:
            contents = [case.example.content_hash]
        return self._refusal(row.key, contents)

    def refusals(
        self, values: Iterable[Held], known: Iterable[Held] = ()
    ) -> dict[FeedbackKey, str]:
        """Return why what was erased may not come back, by key; of a wording by id and author.

        Args:
            values: What a judge holds.
            known: What it held before, which may stay.
        """
        held = list(values)
        before = list(known)
        contents = defaultdict[str, set[str]](set)
        for one in held:
            if one.name == "case":
                contents[one.key].add(one.value.content_hash)
        reasons: dict[FeedbackKey, str] = {}
        for key in sorted(_keys(held) - _keys(before)):
            reason = self._refusal(key, contents[key.id])
            if reason is not None:
                reasons[key] = reason
        old = wordings_of(before)
        for one in held:
            for wording in wordings_of([one]) - old:
                day = self._day(_Fact.of_wording(*wording))
                if day is None:
                    continue
                author = one.kind.author(one.value) or ""
                key = FeedbackKey(one.key, author)
                reasons[key] = f"this wording was erased on {day}; {_ALLOW}"
        return reasons

    def _refusal(self, key: FeedbackKey, contents: Iterable[str]) -> str | None:
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
        held = list(values_of(memory))
        facts = {_Fact.of_wording(*wording) for wording in wordings_of(held)}
        for name, _, value in held:
            if name == "case":
                facts.add(_Fact("case", value.content_hash))
                facts.add(_Fact("id", value.id))
            elif name == "annotation":
                facts.add(_Fact.of_key(value.key))
                facts.add(_Fact.of_person(value.source))
        known = {digest for _, digest in self._days}
        back = {fact.digest(secret) for secret in self._secrets for fact in facts}
        readmitted = delete(erasures).where(
            ERASURE.judge == judge,
            ERASURE.digest.in_(sorted(back & known)),
        )
        connection.execute(readmitted)

    def remember(
        self,
        connection: Connection,
        judge: int,
        residue: Residue,
        *,
        contents: Iterable[str],
        wordings: Iterable[Wording],
    ) -> None:
        """Keep hashes of what is erased from a judge.

        Args:
            connection: The transaction.
            judge: The judge's id.
            residue: The erased feedback, cases and people.
            contents: The hashes of the contents of erased cases that no other case has.
            wordings: The wordings of people that went.
        """
        facts = {_Fact.of_wording(*wording) for wording in wordings}
        facts.update(map(_Fact.of_key, residue.keys))
        facts.update(map(_Fact.of_person, residue.people))
        facts.update(_Fact("case", content) for content in contents)
        facts.update(_Fact("id", case) for case in residue.cases)
        own = select(JUDGE.secret).where(JUDGE.id == judge)
        secret = connection.execute(own).scalar_one()
        now = datetime.now(UTC).isoformat()
        new = []
        for fact in facts:
            digest = fact.digest(secret)
            if (fact.kind, digest) not in self._days:
                values = {
                    "judge": judge,
                    "kind": fact.kind,
                    "digest": digest,
                    "erased_at": now,
                }
                new.append(values)
        if new:
            connection.execute(insert(erasures), new)

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
            if kind != "key":
                continue
            entry = LedgerEntry(
                key=FeedbackKey(f"erased:{digest[:16]}", ""),
                state="erased",
                reason=f"erased on {day}",
            )
            found.append(entry)
        return tuple(found)

    def _day(self, fact: _Fact) -> date | None:
        for secret in self._secrets:
            day = self._days.get((fact.kind, fact.digest(secret)))
            if day is not None:
                return day
        return None


def wordings_of(values: Iterable[Held]) -> set[Wording]:
    """Return whose wordings are among values; none are of a model's own."""
    found = set()
    for one in values:
        for person in one.kind.people(one.value):
            found.add((name_key(person), one.value.text))
    return found


def _keys(values: Iterable[Held]) -> set[FeedbackKey]:
    """Return every key of feedback that values hold, and cases of which nobody says anything."""
    keys: set[FeedbackKey] = set()
    cases: set[str] = set()
    for one in values:
        keys.update(one.kind.keys(one.value))
        if one.name == "case":
            cases.add(one.key)
    spoken_of = {key.id for key in keys}
    for case in cases - spoken_of:
        keys.add(FeedbackKey(case, ""))
    return keys
