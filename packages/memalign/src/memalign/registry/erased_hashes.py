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
from memalign.memory import LedgerEntry, Memory
from memalign.registry.tables import erasures
from memalign.types import Feedback, FeedbackKey

__all__ = ["ALLOW", "ErasedHashes"]

ALLOW = "take it back all the same: --allow-erased, allow_erased=True in Python"
"""What to do about feedback that is refused because it was erased once."""


class ErasedHashes:
    """The erased feedback of one judge, or of all judges of a registry (`judge=None`), as keyed hashes."""

    def __init__(self, connection: Connection, secret: str, judge: int | None) -> None:
        self._secret = bytes.fromhex(secret)
        self._judge = judge
        query = select(erasures.c.kind, erasures.c.digest, erasures.c.erased_at)
        if judge is not None:
            query = query.where(erasures.c.judge == judge)
        self._known = {(row.kind, row.digest): row.erased_at for row in connection.execute(query)}

    def __bool__(self) -> bool:
        return bool(self._known)

    def digest(self, kind: str, text: str) -> str:
        """HMAC-SHA256 of `text` (hex)."""
        data = f"{kind}\0{text}".encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()

    def refusal(self, key: FeedbackKey, content: str | None = None) -> str | None:
        """Why feedback may not come back, or None; `content` is the content hash of its case, where known."""
        if at := self._known.get(("key", self.digest("key", _spelled(key)))):
            return f"this feedback was erased on {_day(at)}"
        if content is not None and (at := self._known.get(("case", self.digest("case", content)))):
            return f"a case of this content was erased on {_day(at)}"
        return None

    def row_refusal(self, row: Feedback, memory: Memory) -> str | None:
        """Why a row may not be learned by a judge of that memory; what it has in memory already it may."""
        annotation, case = memory.annotation(row.key), memory.case(row.id)
        if annotation and annotation.says(row):
            return None
        content = row.content_hash if row.content else case.example.content_hash if case else None
        return self.refusal(row.key, content)

    def refusals(self, memory: Memory, before: Memory) -> dict[FeedbackKey, str]:
        """Everything in `memory` that was erased and is not in `before`, and why it may not come back."""
        if not self._known:
            return {}
        new = sorted(set(_named(memory)) - set(_named(before)))
        contents = {key: case.example.content_hash for key in new if (case := memory.case(key.id))}
        return {key: reason for key in new if (reason := self.refusal(key, contents.get(key)))}

    def remember(
        self, connection: Connection, *, keys: Iterable[FeedbackKey], contents: Iterable[str], at: str
    ) -> None:
        """Keep hashes of erased keys, and of the content hashes of erased cases."""
        wanted = [("key", _spelled(key)) for key in keys]
        wanted += [("case", content) for content in contents]
        new = {(kind, self.digest(kind, text)) for kind, text in wanted} - self._known.keys()
        if new:
            connection.execute(
                insert(erasures),
                [{"judge": self._judge, "kind": k, "digest": d, "erased_at": at} for k, d in sorted(new)],
            )
            self._known |= dict.fromkeys(new, at)

    def readmit(self, connection: Connection, memory: Memory) -> None:
        """Forget the hashes of what is in `memory` again: somebody asked for it to come back."""
        texts = {("key", _spelled(annotation.key)) for annotation in memory.annotations()}
        texts |= {("case", case.example.content_hash) for case in memory.cases}
        for kind, digest in {(kind, self.digest(kind, text)) for kind, text in texts} & self._known.keys():
            connection.execute(
                delete(erasures).where(
                    erasures.c.judge == self._judge, erasures.c.kind == kind, erasures.c.digest == digest
                )
            )

    def erased_on(self, selector: str | FeedbackKey) -> str | None:
        """The day on which the feedback of that key, or written key, was erased, or None."""
        keys = readings(selector) if isinstance(selector, str) else (selector,)
        texts = (_spelled(FeedbackKey(name, source)) for name, source in keys if source)
        days = (self._known.get(("key", self.digest("key", text))) for text in texts)
        return next(map(_day, filter(None, days)), None)

    def entries(self) -> tuple[LedgerEntry, ...]:
        """A ledger entry for every erased key; its key has the beginning of the hash for an id, and no source."""
        return tuple(
            LedgerEntry(key=FeedbackKey(f"erased:{digest[:16]}", ""), state="erased", reason=f"erased on {_day(at)}")
            for (kind, digest), at in sorted(self._known.items())
            if kind == "key"
        )


def _spelled(key: FeedbackKey) -> str:
    return f"{key.id}\0{key.source}"


def _named(memory: Memory) -> Iterable[FeedbackKey]:
    yield from (annotation.key for annotation in memory.annotations())
    yield from (stone.key for stone in memory.tombstones)
    for guideline in memory.guidelines:
        yield from guideline.exposed_to
        yield from guideline.supported_by


def _day(moment: str) -> str:
    return datetime.fromisoformat(moment).date().isoformat()
