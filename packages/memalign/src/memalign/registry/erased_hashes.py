"""What a registry remembers of erased feedback: HMACs under a random key of the judge's own, with no word to read."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

from sqlalchemy import Connection, delete, insert, select

from memalign.keys import name_key, readings
from memalign.memory import LedgerEntry, Memory
from memalign.registry.tables import erasures, judges
from memalign.types import Feedback, FeedbackKey

__all__ = ["ErasedHashes", "remember"]

_ALLOW = "take it back with --allow-erased, or allow_erased=True in Python"


class ErasedHashes:
    """The erased feedback of one judge, or of all judges of a registry (`judge=None`), as keyed hashes."""

    def __init__(self, connection: Connection, judge: int | None) -> None:
        query = select(
            judges.c.secret, erasures.c.kind, erasures.c.digest, erasures.c.erased_at
        ).join(erasures)
        erased = connection.execute(
            query if judge is None else query.where(judges.c.id == judge)
        ).all()
        self._secrets = {row.secret for row in erased}
        self._days = {
            (row.kind, row.digest): datetime.fromisoformat(row.erased_at).date() for row in erased
        }

    def __bool__(self) -> bool:
        return bool(self._days)

    def row_refusal(self, row: Feedback, memory: Memory) -> str | None:
        """Why a row may not be learned by a judge of that memory; what it has in memory already it may."""
        annotation, case = memory.annotation(row.key), memory.case(row.id)
        if not self._days or (annotation and annotation.says(row)):
            return None
        known = [case.example.content_hash] if case else []
        return self.refusal(row.key, [row.content_hash] if row.content else known)

    def refusals(self, memory: Memory, before: Memory) -> dict[FeedbackKey, str]:
        """Everything in `memory` that was erased and is not in `before`, and why it may not come back."""
        if not self._days:
            return {}
        contents = {
            one.key: [case.example.content_hash]
            for case in memory.cases
            for one in case.annotations
        }
        new = sorted(set(_keys(memory)) - set(_keys(before)))
        return {key: reason for key in new if (reason := self.refusal(key, contents.get(key, ())))}

    def readmit(self, connection: Connection, judge: int, memory: Memory) -> None:
        """Forget the hashes of what is in `memory` again: somebody asked for it to come back."""
        texts = [("key", _spelled(annotation.key)) for annotation in memory.annotations()]
        texts += [("person", name_key(annotation.source)) for annotation in memory.annotations()]
        for case in memory.cases:
            texts += [("case", case.example.content_hash), ("id", case.id)]
        digests = {_digest(secret, *text) for secret in self._secrets for text in texts}
        readmitted = erasures.c.digest.in_(
            [digest for _, digest in self._days if digest in digests]
        )
        connection.execute(delete(erasures).where(erasures.c.judge == judge, readmitted))

    def erased_on(self, selector: str | FeedbackKey) -> date | None:
        """Return the day on which the feedback of that key, or written key or id, was erased, or None."""
        keys = readings(selector) if isinstance(selector, str) else [(selector.id, selector.source)]
        for name, source in keys:
            text = ("key", _spelled(FeedbackKey(name, source))) if source else ("id", name)
            if day := self._day(*text):
                return day
        return None

    def person_erased_on(self, source: str) -> date | None:
        """Return the day on which everything of a person was erased, or None."""
        return self._day("person", name_key(source))

    def entries(self) -> tuple[LedgerEntry, ...]:
        """A ledger entry for every erased key; its key has the beginning of the hash for an id, and no source."""
        return tuple(
            LedgerEntry(
                key=FeedbackKey(f"erased:{digest[:16]}", ""),
                state="erased",
                reason=f"erased on {day}",
            )
            for (kind, digest), day in sorted(self._days.items())
            if kind == "key"
        )

    def refusal(self, key: FeedbackKey, contents: Iterable[str]) -> str | None:
        """Return why feedback of that key, on a case of these contents (hashes), may not come back; None if it may."""
        if day := self._day("key", _spelled(key)):
            return f"this feedback was erased on {day}; {_ALLOW}"
        day = next(filter(None, (self._day("case", content) for content in contents)), None)
        return f"a case of this content was erased on {day}; {_ALLOW}" if day else None

    def _day(self, kind: str, text: str) -> date | None:
        days = (self._days.get((kind, _digest(secret, kind, text))) for secret in self._secrets)
        return next(filter(None, days), None)


def remember(
    connection: Connection,
    judge: int,
    *,
    keys: Iterable[FeedbackKey],
    contents: Iterable[str],
    cases: Iterable[str] = (),
    person: str | None = None,
) -> None:
    """Keep hashes of erased keys, of erased cases' contents and ids, and of the person whose everything was erased."""
    secret = connection.execute(select(judges.c.secret).where(judges.c.id == judge)).scalar_one()
    query = select(erasures.c.digest).where(erasures.c.judge == judge)
    digests, at = set(connection.execute(query).scalars()), datetime.now(UTC).isoformat()
    texts = {("key", _spelled(key)) for key in keys} | {("case", content) for content in contents}
    texts |= {("id", case) for case in cases} | (
        {("person", name_key(person))} if person is not None else set()
    )
    new = sorted(
        (kind, digest)
        for kind, text in texts
        if (digest := _digest(secret, kind, text)) not in digests
    )
    if new:
        values = [
            {"judge": judge, "kind": kind, "digest": digest, "erased_at": at}
            for kind, digest in new
        ]
        connection.execute(insert(erasures), values)


def _digest(secret: str, kind: str, text: str) -> str:
    data = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hmac.new(bytes.fromhex(secret), data, hashlib.sha256).hexdigest()


def _spelled(key: FeedbackKey) -> str:
    return f"{key.id}\0{name_key(key.source)}"


def _keys(memory: Memory) -> Iterator[FeedbackKey]:
    yield from (annotation.key for annotation in memory.annotations())
    yield from (stone.key for stone in memory.tombstones)
    for guideline in memory.guidelines:
        yield from (*guideline.exposed_to, *guideline.supported_by)
