"""Erasing: out of every version, in one transaction, without any model call.

Each version that holds what is to go is taken as memory, one after the other, forgets it by the same rules as the head
would, and its rows are written again where they differ. Old versions so stay what they were, less what may no longer be
anywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from memalign.align.consolidate import consolidate
from memalign.align.forget import forget
from memalign.align.ingest import settle
from memalign.memory import Annotation, Memory
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.ledger import Erasures
from memalign.registry.receipt import Receipt, RedactedVersion
from memalign.registry.removed import Change, Removed, words_of
from memalign.registry.residue import Residue
from memalign.registry.schema import judges, rows
from memalign.registry.schema import versions as versions_table
from memalign.registry.search import found_in, selected
from memalign.registry.store import Codec, Contents, RowKey
from memalign.types import FeedbackKey, guideline_number

__all__ = ["Erasure", "erase_feedback"]

_NOTHING = "(erased)"
_WORDED = ("case", "annotation", "pre_alignment", "judge", "tombstone")
"""Kinds of rows whose words are people's own, or the judged system's: what they share with the erased is no trace."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """A committed erasure: its receipt so far, and what to search for."""

    judge: int
    receipt: Receipt
    residue: Residue = field(default_factory=Residue)


class _DryRun(Exception):  # a way out of the transaction, no error
    """Carries the outcome out of a transaction that is to be undone."""

    def __init__(self, outcome: Erasure) -> None:
        self.outcome = outcome


def erase_feedback(
    database: Database,
    name: str,
    selectors: tuple[str | FeedbackKey, ...],
    *,
    source: str | None,
    matching: str | None = None,
    dry_run: bool,
) -> Erasure:
    """Erase in one transaction; with `dry_run` it is undone again. Raises UnknownKey, InputError, JudgeNotFound."""
    try:
        with database.write() as connection:
            judge, latest = versions.find(connection, name)
            erased = Erasures(connection, database.meta(connection, "secret"), judge)
            outcome = _Eraser(connection, name, judge, latest, erased).erase(selectors, source, matching)
            if dry_run:
                raise _DryRun(replace(outcome, receipt=replace(outcome.receipt, latest=None, dry_run=True)))  # noqa: TRY301  # undoes it
    except _DryRun as done:
        return done.outcome
    return outcome


@dataclass(frozen=True, kw_only=True)
class _Without:
    """What the versions become: the rows of each that differ, its counts, and every reason that one of them gives."""

    changes: dict[int, Change]
    counts: dict[int, dict[str, int]]
    reasons: frozenset[str]


class _Eraser:
    """One erasure, inside one transaction."""

    def __init__(self, connection: Connection, name: str, judge: int, latest: int, erased: Erasures) -> None:
        self.connection, self.name, self.judge, self.latest, self.erased = connection, name, judge, latest, erased
        self.codec = Codec()
        query = select(rows.c.kind, rows.c.key, rows.c.since, rows.c.until, rows.c.body).where(rows.c.judge == judge)
        self.timeline: dict[RowKey, list[tuple[int, int, bytes]]] = {}
        for kind, key, since, until, body in connection.execute(query):
            self.timeline.setdefault((kind, key), []).append((since, until or latest + 1, body))

    def erase(self, selectors: tuple[str | FeedbackKey, ...], source: str | None, matching: str | None) -> Erasure:
        there = [FeedbackKey.parse(key) for kind, key in self.timeline if kind in ("annotation", "tombstone")]
        if matching is not None:
            holding = found_in(self.timeline, Finder(matching), self.codec)
            there = [key for key in there if key in holding]
        keys = selected(self.name, there, selectors, source=source, searched=matching is not None, erased=self.erased)
        done = self._forgotten(self._touched(keys), keys, Residue(keys=keys))
        removed = Removed.of(self.codec, done.changes, keys, self._body)
        residue, elsewhere = self._residue(removed, done.changes, keys)
        # A guideline may repeat the words without having been learned from them: a person wrote it, or a model chanced.
        copied = self._copies(residue, keys)
        quoting = self._quoting(residue)
        if copied or quoting or any(map(residue.in_sentence, done.reasons)):
            done = self._forgotten(sorted(quoting.union(self._touched(keys, copied))), keys, residue, copied)
            removed = Removed.of(self.codec, done.changes, keys, self._body)
        changes = done.changes
        learned = Residue(removed.guidelines.values())
        learned.share(self._surviving(changes, (*_WORDED, "guideline")))
        self._rewrite(changes)
        self._redact(done, residue)
        latest = self._latest(changes)
        if latest is not None:
            self._commit(latest, len(keys))
        self._remember(removed, keys, changes)
        pending = (
            {annotation.key for annotation in latest.annotations() if annotation.state == "pending"}
            if latest is not None
            else set[FeedbackKey]()
        )
        receipt = Receipt(
            judge=self.name,
            keys=keys,
            cases=tuple(sorted({example.id for example in removed.examples})),
            guidelines=tuple(sorted(removed.guideline_ids, key=guideline_number)),
            copied=tuple(sorted(copied, key=guideline_number)),
            versions=tuple(_redacted(number, changes[number]) for number in sorted(changes)),
            latest=None if latest is None else self.latest + 1,
            pending=tuple(sorted(pending)),
            elsewhere=elsewhere,
        )
        return Erasure(judge=self.judge, receipt=receipt, residue=residue | learned)

    # -- which -------------------------------------------------------------------------------------------------------

    def _touched(self, keys: Collection[FeedbackKey], copied: Collection[str] = ()) -> list[int]:
        """The versions that hold anything of `keys`, or a guideline of `copied`."""
        wanted, found = Residue(keys=keys), set[int]()
        for (kind, key), spans in self.timeline.items():
            for since, until, body in spans:
                if self._tainted(kind, key, body, wanted) or (kind == "guideline" and key in copied):
                    found.update(range(since, until))
        return sorted(found)

    def _quoting(self, residue: Residue) -> set[int]:
        """The versions in which what became of other feedback is told in erased words."""
        found = set[int]()
        for (kind, _), spans in self.timeline.items():
            for since, until, body in spans if kind in ("annotation", "tombstone") else ():
                if residue.in_sentence(self.codec.decode(kind, body).reason):
                    found.update(range(since, until))
        return found

    def _tainted(self, kind: str, key: str, body: bytes, named: Residue) -> bool:
        match kind:
            case "annotation" | "tombstone":
                return key in named.names or named.in_sentence(self.codec.decode(kind, body).reason)
            case "guideline":
                guideline = self.codec.decode(kind, body)
                return not named.keys.isdisjoint((*guideline.exposed_to, *guideline.supported_by))
            case "shard":
                return not named.keys.isdisjoint(self.codec.decode(kind, body))
        return False

    def _copies(self, residue: Residue, keys: Collection[FeedbackKey]) -> frozenset[str]:
        named = Residue(keys=keys)
        return frozenset(
            key
            for (kind, key), spans in self.timeline.items()
            if kind == "guideline"
            for _, _, body in spans
            if residue.copied(self.codec.decode(kind, body).text) and not self._tainted(kind, key, body, named)
        )

    # -- what a version is without it ------------------------------------------------------------------------------

    def _at(self, number: int) -> Contents:
        return {
            key: body for key, spans in self.timeline.items() for since, until, body in spans if since <= number < until
        }

    def _forgotten(
        self, numbers: Collection[int], keys: Collection[FeedbackKey], residue: Residue, copied: Collection[str] = ()
    ) -> _Without:
        """What these versions become. One at a time, and only what differs is kept: all of them may be gigabytes."""
        changes: dict[int, Change] = {}
        counts: dict[int, dict[str, int]] = {}
        reasons: set[str] = set()
        for number in numbers:
            contents = self._at(number)
            memory = self._without(contents, keys, residue, copied)
            wanted = self.codec.memory_contents(memory, contents)
            change: Change = {r: (contents[r], None) for r in contents if r[0] != "judge" and r not in wanted}
            change |= {r: (contents.get(r), body) for r, body in wanted.items() if contents.get(r) != body}
            changes[number] = change
            counts[number] = versions.counts(memory)
            reasons.update(annotation.reason for annotation in memory.annotations())
            reasons.update(stone.reason for stone in memory.tombstones)
        return _Without(changes=changes, counts=counts, reasons=frozenset(reasons))

    def _without(
        self, contents: Contents, keys: Collection[FeedbackKey], residue: Residue, copied: Collection[str] = ()
    ) -> Memory:
        """The version's memory after forgetting, by the rules that an unalign follows, and without a tombstone."""
        gone = frozenset(keys)
        memory = forget(self.codec.memory(contents), keys, state="erased")
        memory = msgspec.structs.replace(
            memory,
            guidelines=tuple(g for g in memory.guidelines if g.id not in copied and gone.isdisjoint(g.exposed_to)),
            tombstones=tuple(stone for stone in memory.tombstones if stone.key not in gone),
        )
        return _silent(consolidate(settle(memory)), residue)

    def _latest(self, changes: dict[int, Change]) -> Memory | None:
        """The head's memory as it will be, or None where it holds nothing of what goes."""
        if self.latest not in changes:
            return None
        contents = self._at(self.latest)
        for row, (_, body) in changes[self.latest].items():
            contents.pop(row, None)
            if body is not None:
                contents[row] = body
        return self.codec.memory(contents)

    def _rows_left(self, changes: dict[int, Change], kinds: Collection[str]) -> Iterator[tuple[str, str, bytes]]:
        """Kind, key and body of everything of these kinds that some version keeps; each body of a kind once."""
        seen: set[tuple[str, bytes]] = set()
        differing = set[RowKey]().union(*changes.values())
        kept = (
            (row, body)
            for row, spans in self.timeline.items()
            if row[0] in kinds
            for since, until, body in spans
            if row not in differing or any(row not in changes.get(number, ()) for number in range(since, until))
        )
        written = ((row, body) for change in changes.values() for row, (_, body) in change.items() if row[0] in kinds)
        for group in (kept, written):
            for (kind, key), body in group:
                if body is not None and (kind, body) not in seen:
                    seen.add((kind, body))
                    yield kind, key, body

    def _surviving(self, changes: dict[int, Change], kinds: Collection[str]) -> Iterator[str]:
        """The texts of everything of these kinds that some version keeps."""
        for kind, _, body in self._rows_left(changes, kinds):
            yield from words_of(self.codec, kind, body)

    def _residue(
        self, removed: Removed, changes: dict[int, Change], keys: Collection[FeedbackKey]
    ) -> tuple[Residue, tuple[str, ...]]:
        """What to search for, and the other judges that hold some of it and keep it."""
        residue = Residue(removed.texts, keys)
        elsewhere = set()
        whole = Residue(removed.texts, keys)
        query = (
            select(judges.c.name, rows.c.kind, rows.c.key, rows.c.body)
            .join(judges, judges.c.id == rows.c.judge)
            .where(rows.c.judge != self.judge, rows.c.kind != "vector")
        )
        for name, kind, key, body in self.connection.execute(query):
            texts = [key, *words_of(self.codec, kind, body)]
            if name not in elsewhere and any(map(whole.is_trace, texts)):
                elsewhere.add(name)
            residue.share(texts)
        residue.share(self._surviving(changes, _WORDED))
        return residue, tuple(sorted(elsewhere))

    # -- writing -----------------------------------------------------------------------------------------------------

    def _rewrite(self, changes: dict[int, Change]) -> None:
        """Write again the rows that differ in any version, each over the widest range in which it is the same."""
        fresh = []
        for kind, key in sorted(set[RowKey]().union(*changes.values())):
            self.connection.execute(
                delete(rows).where(rows.c.judge == self.judge, rows.c.kind == kind, rows.c.key == key)
            )
            spans: list[tuple[int, int, bytes]] = []
            for number in range(1, self.latest + 1):
                change = changes.get(number, {}).get((kind, key))
                body = self._body(kind, key, number) if change is None else change[1]
                if body is None:
                    continue
                if spans and spans[-1][1] == number and spans[-1][2] == body:
                    spans[-1] = (spans[-1][0], number + 1, body)
                else:
                    spans.append((number, number + 1, body))
            fresh += [
                {
                    "judge": self.judge,
                    "kind": kind,
                    "key": key,
                    "since": since,
                    "until": None if until == self.latest + 1 else until,
                    "body": body,
                }
                for since, until, body in spans
            ]
        if fresh:
            self.connection.execute(insert(rows), fresh)

    def _body(self, kind: str, key: str, number: int) -> bytes | None:
        spans = self.timeline.get((kind, key), ())
        return next((body for since, until, body in spans if since <= number < until), None)

    def _redact(self, done: _Without, residue: Residue) -> None:
        table = versions_table
        for number, counts in done.counts.items():
            self.connection.execute(
                update(table)
                .where(table.c.judge == self.judge, table.c.number == number)
                .values(redacted=True, memory_hash="", **counts)
            )
        for version in versions.history(self.connection, self.judge):
            if version.note and residue.in_sentence(version.note):
                self.connection.execute(
                    update(table)
                    .where(table.c.judge == self.judge, table.c.number == version.number)
                    .values(note=_NOTHING, redacted=True)
                )

    def _commit(self, memory: Memory, count: int) -> None:
        """The new head: its rows are those of the old one, which has just lost the same; only the number is new."""
        versions.add_version(
            self.connection,
            self.judge,
            parent=self.latest,
            before={},
            after={},
            memory=memory,
            action="erase",
            line=f"{count} feedback erased from all versions",
        )

    def _remember(self, removed: Removed, keys: Iterable[FeedbackKey], changes: dict[int, Change]) -> None:
        left = self._rows_left(changes, ("case",))
        kept = {self.codec.decode(kind, body).content_hash for kind, _, body in left} if removed.examples else set()
        self.erased.remember(
            self.connection,
            keys=keys,
            annotations=removed.annotations,
            examples=[example for example in removed.examples if example.content_hash not in kept],
            at=versions.now(),
        )


def _silent(memory: Memory, residue: Residue) -> Memory:
    """`memory` without a reason that names or repeats what was erased."""

    def silent(annotation: Annotation) -> Annotation:
        return (
            msgspec.structs.replace(annotation, reason=_NOTHING)
            if residue.in_sentence(annotation.reason)
            else annotation
        )

    if not any(residue.in_sentence(reason) for reason in {annotation.reason for annotation in memory.annotations()}):
        cases = memory.cases
    else:
        cases = tuple(msgspec.structs.replace(c, annotations=tuple(map(silent, c.annotations))) for c in memory.cases)
    return msgspec.structs.replace(
        memory,
        cases=cases,
        tombstones=tuple(
            msgspec.structs.replace(stone, reason=_NOTHING) if residue.in_sentence(stone.reason) else stone
            for stone in memory.tombstones
        ),
    )


def _redacted(number: int, change: Change) -> RedactedVersion:
    def removed(kind: str) -> int:
        return sum(of == kind and body is None for (of, _), (_, body) in change.items())

    return RedactedVersion(
        number=number, feedback=removed("annotation"), cases=removed("case"), guidelines=removed("guideline")
    )
