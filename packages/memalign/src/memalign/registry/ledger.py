"""What a registry remembers of erased feedback: keyed hashes, from which no word can be read.

An HMAC under a random key of the registry's own: whoever has only the hashes cannot test guesses against them, and two
registries cannot be compared.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from memalign.memory import Annotation, LedgerEntry, Memory
from memalign.registry.schema import erasures
from memalign.types import Example, FeedbackKey

__all__ = ["ALLOW", "Erasures", "Refusal"]

ALLOW = "take it back all the same: --allow-erased, allow_erased=True in Python"
"""What to do about feedback that is refused because it was erased once."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """Feedback that was erased once and may not come back unasked: its key, and why."""

    key: FeedbackKey
    reason: str


class Erasures:
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

    def refusal(self, key: FeedbackKey, content: str | None = None, rationale: str | None = None) -> Refusal | None:
        """Why feedback may not come back, or None; `content` is the content hash of its case, where known."""
        for kind, text, what in (
            ("key", str(key), "this feedback"),
            ("case", content, "a case of this content"),
            ("words", _words(content, rationale), "these words on this case"),
        ):
            if text is not None and (at := self._known.get((kind, self.digest(kind, text)))):
                return Refusal(key=key, reason=f"{what} was erased on {_day(at)}")
        return None

    def refusals(self, memory: Memory, before: Memory | None) -> tuple[Refusal, ...]:
        """Everything in `memory` that was erased and is not in `before`."""
        if not self._known:
            return ()
        found: dict[FeedbackKey, Refusal] = {}
        for case in memory.cases:
            for annotation in case.annotations:
                known = before.annotation(annotation.key) if before else None
                if known is None or known.rationale != annotation.rationale:
                    refused = self.refusal(annotation.key, case.example.content_hash, annotation.rationale)
                    if refused is not None:
                        found[annotation.key] = refused
        named = set(_named(memory)) - (set(_named(before)) if before else set())
        for key in sorted(named - found.keys()):
            if (refused := self.refusal(key)) is not None:
                found[key] = refused
        return tuple(found.values())

    def remember(
        self,
        connection: Connection,
        *,
        keys: Iterable[FeedbackKey],
        annotations: Iterable[tuple[str | None, Annotation]],
        examples: Iterable[Example],
        at: str,
    ) -> None:
        """Keep hashes of erased keys, of annotations with the content hash of their case, and of cases that went."""
        wanted = [("key", str(key)) for key in keys]
        wanted += [("case", example.content_hash) for example in examples]
        wanted += [
            ("words", text) for content, annotation in annotations if (text := _words(content, annotation.rationale))
        ]
        new = {(kind, self.digest(kind, text)) for kind, text in wanted} - self._known.keys()
        if new:
            connection.execute(
                insert(erasures),
                [{"judge": self._judge, "kind": k, "digest": d, "erased_at": at} for k, d in sorted(new)],
            )
            self._known |= dict.fromkeys(new, at)

    def readmit(self, connection: Connection, memory: Memory) -> None:
        """Forget the hashes of what is in `memory` again: somebody asked for it to come back."""
        texts = {("key", str(annotation.key)) for annotation in memory.annotations()}
        for case in memory.cases:
            content = case.example.content_hash
            texts.add(("case", content))
            texts |= {
                ("words", text) for annotation in case.annotations if (text := _words(content, annotation.rationale))
            }
        for kind, digest in {(kind, self.digest(kind, text)) for kind, text in texts} & self._known.keys():
            connection.execute(
                delete(erasures).where(
                    erasures.c.judge == self._judge, erasures.c.kind == kind, erasures.c.digest == digest
                )
            )

    def erased_on(self, key: str | FeedbackKey) -> str | None:
        """The day on which the feedback of that key, or written key, was erased, or None."""
        at = self._known.get(("key", self.digest("key", str(key))))
        return _day(at) if at else None

    def entries(self) -> tuple[LedgerEntry, ...]:
        """A ledger entry for every erased key; its key has the beginning of the hash for an id, and no source."""
        return tuple(
            LedgerEntry(key=FeedbackKey(f"erased:{digest[:16]}", ""), state="erased", reason=f"erased on {_day(at)}")
            for (kind, digest), at in sorted(self._known.items())
            if kind == "key"
        )


def _words(content: str | None, rationale: str | None) -> str | None:
    return f"{content}\0{rationale}" if content is not None and rationale else None


def _named(memory: Memory) -> Iterable[FeedbackKey]:
    yield from (annotation.key for annotation in memory.annotations())
    yield from (stone.key for stone in memory.tombstones)
    for guideline in memory.guidelines:
        yield from guideline.exposed_to
        yield from guideline.supported_by


def _day(moment: str) -> str:
    return datetime.fromisoformat(moment).date().isoformat()
