"""What a registry remembers of erased feedback: keyed hashes, from which no word can be read.

An HMAC under a random key of the registry's own: whoever has only the hashes cannot test guesses against them, and two
registries cannot be compared.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from memalign.keys import readings
from memalign.memory import Annotation, LedgerEntry, Memory
from memalign.registry.database import Database
from memalign.registry.tables import erasures
from memalign.types import Feedback, FeedbackKey

__all__ = ["ALLOW", "ErasedHashes"]

ALLOW = "take it back all the same: --allow-erased, allow_erased=True in Python"
"""What to do about feedback that is refused because it was erased once."""


class ErasedHashes:
    """The erased feedback of one judge, or of all judges of a registry (`judge=None`), as keyed hashes."""

    def __init__(self, database: Database, connection: Connection, judge: int | None) -> None:
        self._secret = bytes.fromhex(database.meta(connection, "secret"))
        self._judge = judge
        query = select(erasures.c.kind, erasures.c.digest, erasures.c.erased_at)
        if judge is not None:
            query = query.where(erasures.c.judge == judge)
        self._dates = {(row.kind, row.digest): row.erased_at for row in connection.execute(query)}

    def __bool__(self) -> bool:
        return bool(self._dates)

    def digest(self, kind: str, text: str) -> str:
        """HMAC-SHA256 of `text` (hex)."""
        data = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()

    def refusal(self, key: FeedbackKey, content: str | None = None, rationale: str | None = None) -> str | None:
        """Why feedback may not come back, or None; `content` is the content hash of its case, where known."""
        names = {
            "key": "this feedback was",
            "case": "a case of this content was",
            "words": "these words on this case were",
        }
        for kind, text in _texts(key, content, rationale):
            if at := self._dates.get((kind, self.digest(kind, text))):
                return f"{names[kind]} erased on {_day(at)}"
        return None

    def row_refusal(self, row: Feedback, memory: Memory) -> str | None:
        """Why a row may not be learned by a judge of that memory; what it has in memory already it may."""
        annotation, case = memory.annotation(row.key), memory.case(row.id)
        if annotation and annotation.says(row):
            return None
        content = row.content_hash if row.content else case.example.content_hash if case else None
        return self.refusal(row.key, content, (row.rationale or "").strip())

    def refusals(self, memory: Memory, before: Memory) -> dict[FeedbackKey, str]:
        """Everything in `memory` that was erased and is not in `before`, and why it may not come back."""
        if not self._dates:
            return {}
        candidates = dict.fromkeys(sorted(set(_named(memory)) - set(_named(before))), (None, None)) | {
            annotation.key: (case.example.content_hash, annotation.rationale)
            for case in memory.cases
            for annotation in case.annotations
            if (former := before.annotation(annotation.key)) is None or former.rationale != annotation.rationale
        }
        return {key: reason for key, words in candidates.items() if (reason := self.refusal(key, *words))}

    def remember(
        self,
        connection: Connection,
        *,
        keys: Iterable[FeedbackKey],
        annotations: Iterable[tuple[str | None, Annotation]],
        contents: Iterable[str],
        at: str,
    ) -> None:
        """Keep hashes of erased keys, of annotations with the content hash of their case, and of cases' contents."""
        wanted = {("key", _spelled(key)) for key in keys} | {("case", content) for content in contents}
        for content, annotation in annotations:
            texts = _texts(annotation.key, content, annotation.rationale)
            wanted |= {(kind, text) for kind, text in texts if kind != "case"}  # which may stay
        new = {(kind, self.digest(kind, text)) for kind, text in wanted} - self._dates.keys()
        if new:
            columns = [{"judge": self._judge, "kind": k, "digest": d, "erased_at": at} for k, d in sorted(new)]
            connection.execute(insert(erasures), columns)

    def readmit(self, connection: Connection, memory: Memory) -> None:
        """Forget the hashes of what is in `memory` again: somebody asked for it to come back."""
        texts = {
            text
            for case in memory.cases
            for annotation in case.annotations
            for text in _texts(annotation.key, case.example.content_hash, annotation.rationale)
        }
        digests = {digest for kind, text in texts if (kind, digest := self.digest(kind, text)) in self._dates}
        connection.execute(delete(erasures).where(erasures.c.judge == self._judge, erasures.c.digest.in_(digests)))

    def erased_on(self, selector: str | FeedbackKey) -> str | None:
        """The day on which the feedback of that key, or written key, was erased, or None."""
        keys = readings(selector) if isinstance(selector, str) else (selector,)
        texts = (_spelled(FeedbackKey(name, source)) for name, source in keys if source)
        days = (self._dates.get(("key", self.digest("key", text))) for text in texts)
        return next(map(_day, filter(None, days)), None)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """A ledger entry for every erased key; its key has the beginning of the hash for an id, and no source."""
        return tuple(
            LedgerEntry(key=FeedbackKey(f"erased:{digest[:16]}", ""), state="erased", reason=f"erased on {_day(at)}")
            for (kind, digest), at in sorted(self._dates.items())
            if kind == "key"
        )


def _spelled(key: FeedbackKey) -> str:
    return f"{key.id}\0{key.source}"


def _texts(key: FeedbackKey, content: str | None, rationale: str | None) -> list[tuple[str, str]]:
    """What is hashed of an annotation, by kind: its key, its case's content, and its words on that content."""
    texts = [("key", _spelled(key)), ("case", content), ("words", f"{content}\0{rationale}" if rationale else None)]
    return [(kind, text) for kind, text in texts if content is not None or kind == "key" if text is not None]


def _named(memory: Memory) -> Iterable[FeedbackKey]:
    yield from (annotation.key for annotation in memory.annotations())
    yield from (stone.key for stone in memory.tombstones)
    for guideline in memory.guidelines:
        yield from guideline.exposed_to
        yield from guideline.supported_by


def _day(moment: str) -> str:
    return datetime.fromisoformat(moment).date().isoformat()
