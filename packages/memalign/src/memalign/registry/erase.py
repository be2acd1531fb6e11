"""Erasing: out of every version, in one transaction, without any model call.

Each version that holds what is to go forgets it by the rules of an unalign, and its rows are written again where they
differ. Older versions stay what they were, less what may no longer be anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from memalign.align.annotations import without_disputed
from memalign.align.forget import forget
from memalign.errors import UnknownKey
from memalign.memory import Annotation, Memory, Outcome, Tombstone
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import Codec, Contents, RowKey
from memalign.registry.other_tables import Erased, OtherTables, other_tables
from memalign.registry.paid_answers import forget_answers
from memalign.registry.receipt import Receipt, RedactedVersion, in_words
from memalign.registry.residue import RUN, Residue, strings
from memalign.registry.row_words import reason_of, row_names, words_of
from memalign.registry.search import Selection, known, selected, with_text
from memalign.registry.tables import judges, rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Timeline
from memalign.types import Example, FeedbackKey, Guideline, guideline_number

__all__ = ["Erasure", "erase_feedback"]

T = TypeVar("T", Outcome, Tombstone)

_NOTHING = "(erased)"
_WORDED = ("case", "annotation", "pre_alignment", "judge", "tombstone")
"""Kinds of rows whose words are people's own, or the judged system's: what they share with the erased is no trace."""

Change = dict[RowKey, tuple[bytes | None, bytes | None]]
"""What becomes of one version's rows: those that differ, each before and after."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """An erasure: the judge's number, the receipt so far, and what to search for."""

    judge: int
    receipt: Receipt
    residue: Residue = field(default_factory=Residue)


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
    database.check_erasable()
    with database.write(name) as connection:
        others = other_tables(connection)  # raises where nothing could be erased
        eraser = _Eraser(connection, name, database.meta(connection, "secret"), others)
        outcome = eraser.erase(selectors, source, matching)
        if dry_run:
            connection.rollback()
            return replace(
                outcome,
                receipt=replace(outcome.receipt, latest=None, dry_run=True, unreachable=database.unreachable),
            )
        forget_answers(connection, outcome.judge)  # they may quote what is to go
    return outcome


@dataclass(frozen=True, kw_only=True)
class _Without:
    """What versions become: the rows of each that differ, its counts, all reasons in them, and the latest one's memory."""

    changes: dict[int, Change]
    counts: dict[int, dict[str, int]]
    reasons: set[str]
    latest: Memory | None


@dataclass(frozen=True, kw_only=True)
class _Removed:
    """What no longer stands where it stood, by the body of its row; annotations with the content hash of their case."""

    annotations: dict[bytes, tuple[str | None, Annotation]] = field(default_factory=dict)
    examples: dict[bytes, Example] = field(default_factory=dict)
    guidelines: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    guideline_ids: set[str] = field(default_factory=set)
    texts: dict[str, None] = field(default_factory=dict)


class _Eraser:
    """One erasure, inside one transaction."""

    def __init__(self, connection: Connection, name: str, secret: str, others: tuple[OtherTables, ...]) -> None:
        self.connection, self.name, self.others = connection, name, others
        self.judge, self.latest = judge, latest = versions.find(connection, name)
        self.erased = ErasedHashes(connection, secret, judge)
        self.codec = Codec()
        self.timeline = versions.timeline(connection, judge, latest)
        self.passages = [passage for tables in others for passage in tables.passages(connection, name)]

    def erase(self, selectors: tuple[str | FeedbackKey, ...], source: str | None, matching: str | None) -> Erasure:
        finder = None if matching is None else Finder(matching)
        chosen = self._chosen(selectors, source, finder)
        keys = tuple(sorted(chosen.keys))
        # A text that is searched for among some feedback only may stay in other feedback, and a name in other words.
        everything = not selectors and source is None
        named = Residue(
            keys=keys,
            searched=finder if everything else None,
            person=source if not selectors and finder is None else None,
        )
        touched = self._versions_where(lambda kind, key, body: row_names(self.codec, named, kind, key, body))
        done = self._forgotten(touched, keys, named)
        removed = self._removed(done.changes, keys)
        cases = self._cases(chosen, removed, self._left(done.changes))
        residue, elsewhere = self._residue(removed, self._left(done.changes), named, cases)
        # A guideline may repeat the words without having been learned from them: a person wrote it, or a model chanced.
        copied = self._copies(residue, named)
        if not (keys or cases or touched or copied or self._mentioned(residue)):
            of = f" of source {source!r}" if source is not None else ""
            text = " with this text" if finder else ""
            raise UnknownKey(f"no version and no table of {self.name!r} holds feedback{of}{text}")
        repeating = self._versions_where(
            lambda kind, key, body: (
                (kind == "guideline" and key in copied) or residue.in_sentence(reason_of(self.codec, kind, body))
            )
        )
        if repeating or any(map(residue.in_sentence, done.reasons)):
            done = self._forgotten(touched | repeating, keys, residue, copied)
            removed = self._removed(done.changes, keys)
        left = self._left(done.changes)
        learned = Residue(text for texts in removed.guidelines.values() for text in texts)
        learned.share(self._texts(left, (*_WORDED, "guideline")))
        self._write(done, left)
        self._redact(done, residue)
        if done.latest is not None:
            self._commit(done.latest, len(keys))
        self._remember(removed, left, keys, cases)
        pending = [annotation.key for annotation in done.latest.pending] if done.latest else []
        receipt = Receipt(
            judge=self.name,
            keys=self._comments(keys, removed),
            cases=tuple(sorted(cases)),
            guidelines=tuple(sorted(removed.guideline_ids, key=guideline_number)),
            copied=tuple(sorted(copied, key=guideline_number)),
            versions=tuple(_redacted(number, done.changes[number]) for number in sorted(done.changes)),
            latest=None if done.latest is None else self.latest + 1,
            pending=tuple(sorted(pending)),
            elsewhere=elsewhere,
        )
        residue |= learned
        gone = Erased(receipt=receipt, keys=frozenset(keys), cases=cases, residue=residue)
        for tables in self.others:
            tables.forget(self.connection, gone)
        return Erasure(judge=self.judge, receipt=receipt, residue=residue)

    # -- which -------------------------------------------------------------------------------------------------------

    def _chosen(self, selectors: tuple[str | FeedbackKey, ...], source: str | None, finder: Finder | None) -> Selection:
        """What is named, with everything that anybody said of a case that goes. Raises UnknownKey."""
        there = known(self.timeline, self.passages)
        holding = None if finder is None else with_text(self.timeline, self.passages, finder, self.codec)
        chosen = selected(self.name, there, selectors, source=source, holding=holding, erased=self.erased)
        on_cases = {key for key in there.keys if key.id in chosen.cases}
        return Selection(keys=chosen.keys | on_cases, cases=chosen.cases)

    def _cases(self, chosen: Selection, removed: _Removed, left: Timeline) -> frozenset[str]:
        """The cases that go: those that are named, and those of which nobody else speaks in any version or table."""
        spoken = {
            each.id
            for each in self.passages
            if each.source is not None
            and each.content is not None
            and FeedbackKey(each.id, each.source) not in chosen.keys
        }
        alone = {example.id for example in removed.examples.values()}
        return chosen.cases | {case for case in alone if case not in spoken and not left.get(("case", case))}

    def _comments(self, keys: tuple[FeedbackKey, ...], removed: _Removed) -> tuple[FeedbackKey, ...]:
        """The keys behind which there is something: feedback of a version, or words in another table."""
        of_versions = {annotation.key for _, annotation in removed.annotations.values()}
        of_versions |= {FeedbackKey.parse(key) for kind, key in self.timeline if kind == "tombstone"}
        of_tables = {
            FeedbackKey(p.id, p.source) for p in self.passages if p.source is not None and p.content is not None
        }
        return tuple(key for key in keys if key in of_versions or key in of_tables)

    def _mentioned(self, residue: Residue) -> bool:
        """Whether a note of a version, or a text of another table, repeats what is to go."""
        notes = [version.note for version in versions.history(self.connection, self.judge) if version.note]
        words = (each for tables in self.others for each in tables.words(self.connection) if each.judge == self.name)
        return any(map(residue.in_sentence, notes)) or any(
            (each.is_name and each.text == residue.person) or residue.certain(each.text) for each in words
        )

    def _versions_where(self, holds: Callable[[str, str, bytes], bool]) -> set[int]:
        """The versions with a row, of this kind, key and body, for which that holds."""
        spans = ((kind, key, span) for (kind, key), spans in self.timeline.items() for span in spans)
        found = (range(since, until) for kind, key, (since, until, body) in spans if holds(kind, key, body))
        return set[int]().union(*found)

    def _copies(self, residue: Residue, named: Residue) -> frozenset[str]:
        return frozenset(
            key
            for (kind, key), spans in self.timeline.items()
            if kind == "guideline"
            for _, _, body in spans
            if any(map(residue.copied, words_of(self.codec, kind, body)))
            and not row_names(self.codec, named, kind, key, body)
        )

    # -- what a version is without it ------------------------------------------------------------------------------

    def _forgotten(
        self, numbers: Collection[int], keys: Collection[FeedbackKey], residue: Residue, copied: Collection[str] = ()
    ) -> _Without:
        """What these versions become. One at a time, and only what differs is kept: all of them may be gigabytes."""
        done = _Without(changes={}, counts={}, reasons=set(), latest=None)
        for number in sorted(numbers):
            contents = {row: body for row in self.timeline if (body := self._body(row, number)) is not None}
            memory = self._without(contents, keys, residue, copied)
            wanted = self.codec.memory_contents(memory)
            change: Change = {r: (contents[r], None) for r in contents if r[0] != "judge" and r not in wanted}
            change |= {r: (contents.get(r), body) for r, body in wanted.items() if contents.get(r) != body}
            done.changes[number] = change
            done.counts[number] = versions.counts(memory)
            done.reasons.update(each.outcome.reason for each in memory.annotations() if each.outcome)
            done.reasons.update(each.reason for each in memory.tombstones)
            if number == self.latest:
                done = replace(done, latest=memory)
        return done

    def _without(
        self, contents: Contents, keys: Collection[FeedbackKey], residue: Residue, copied: Collection[str]
    ) -> Memory:
        """The version's memory after forgetting, by the rules that an unalign follows, and without a tombstone."""
        gone = frozenset(keys)
        memory = forget(self.codec.memory(contents), keys, state="erased")
        memory = memory.without_guidelines(
            [g.id for g in memory.guidelines if g.id in copied or g.origin == residue.person]
        )
        memory = msgspec.structs.replace(
            memory,
            guidelines=tuple(_unnamed(guideline, residue.person) for guideline in memory.guidelines),
            tombstones=tuple(stone for stone in memory.tombstones if stone.key not in gone),
            authority=tuple(name for name in memory.authority if name != residue.person),
        )
        return _silent(without_disputed(memory), residue)

    def _left(self, changes: dict[int, Change]) -> Timeline:
        """The timeline after these changes, each row over the widest ranges in which it is the same."""
        left = dict(self.timeline)
        for row in set[RowKey]().union(*changes.values()):
            spans: list[tuple[int, int, bytes]] = []
            for number in range(1, self.latest + 1):
                change = changes.get(number, {}).get(row)
                body = self._body(row, number) if change is None else change[1]
                if body is None:
                    continue
                if spans and spans[-1][1] == number and spans[-1][2] == body:
                    spans[-1] = (spans[-1][0], number + 1, body)
                else:
                    spans.append((number, number + 1, body))
            left[row] = spans
        return left

    def _body(self, row: RowKey, number: int) -> bytes | None:
        spans = self.timeline.get(row, ())
        return next((body for since, until, body in spans if since <= number < until), None)

    def _removed(self, changes: dict[int, Change], keys: Collection[FeedbackKey]) -> _Removed:
        wanted, found = frozenset(map(str, keys)), _Removed()
        for number, change in changes.items():
            for (kind, key), (body, after) in change.items():
                if body is None or (after is not None and not (kind == "annotation" and key in wanted)):
                    continue
                if kind == "annotation" and key in wanted:
                    annotation = self.codec.decode(kind, body)
                    case = self._body(("case", annotation.id), number)
                    content = None if case is None else self.codec.decode("case", case).content_hash
                    found.annotations[body] = (content, annotation)
                elif kind == "case":
                    found.examples[body] = self.codec.decode(kind, body)
                elif kind == "guideline":
                    found.guidelines[body] = tuple(words_of(self.codec, kind, body))
                    found.guideline_ids.add(key)
                if kind in ("case", "pre_alignment") or (kind == "annotation" and key in wanted):
                    found.texts.update(dict.fromkeys(words_of(self.codec, kind, body)))
        return found

    def _texts(self, left: Timeline, kinds: Collection[str]) -> Iterator[str]:
        for (kind, _), spans in left.items():
            if kind in kinds:
                for _, _, body in spans:
                    yield from words_of(self.codec, kind, body)

    def _residue(
        self, removed: _Removed, left: Timeline, named: Residue, cases: frozenset[str]
    ) -> tuple[Residue, tuple[str, ...]]:
        """What to search for, and the other judges that hold some of it and keep it."""
        gone = dict(removed.texts)
        survivors: list[str] = []
        for passage in self.passages:
            goes = passage.id in cases
            if passage.source is not None:
                goes = FeedbackKey(passage.id, passage.source) in named.keys
            if goes:
                # A copy also has what its format brings along, such as the name of a model: only long texts tell.
                long = (text for text in strings(passage.content) if not passage.copy or len(text.split()) >= RUN)
                gone.update(dict.fromkeys(long))
            elif not passage.copy:
                survivors += strings(passage.content)
        residue, whole = (
            Residue(gone, named.keys, cases=cases, searched=named.searched, person=named.person) for _ in range(2)
        )
        contents = {example.content_hash for example in removed.examples.values() if example.id in cases}
        elsewhere = set()
        query = (
            select(judges.c.name, rows.c.kind, rows.c.key, rows.c.body)
            .join(judges, judges.c.id == rows.c.judge)
            .where(rows.c.judge != self.judge, rows.c.kind != "vector")
        )
        for name, kind, key, body in self.connection.execute(query):
            texts = [key, *words_of(self.codec, kind, body)]
            if name not in elsewhere:
                same = kind == "case" and self.codec.decode(kind, body).content_hash in contents
                # Short words are anybody's: of another judge they prove nothing.
                if same or any(map(whole.certain, texts)) or row_names(self.codec, _by_name(whole), kind, key, body):
                    elsewhere.add(name)
            residue.share(texts)
        residue.share(self._texts(left, _WORDED))
        residue.share(survivors)
        return residue, tuple(sorted(elsewhere))

    # -- writing -----------------------------------------------------------------------------------------------------

    def _write(self, done: _Without, left: Timeline) -> None:
        fresh = []
        for row in sorted(set[RowKey]().union(*done.changes.values())):
            kind, key = row
            self.connection.execute(
                delete(rows).where(rows.c.judge == self.judge, rows.c.kind == kind, rows.c.key == key)
            )
            for since, until, body in left[row]:
                last = None if until == self.latest + 1 else until
                row_of = {"judge": self.judge, "kind": kind, "key": key, "since": since, "until": last, "body": body}
                fresh.append(row_of)
        if fresh:
            self.connection.execute(insert(rows), fresh)

    def _redact(self, done: _Without, residue: Residue) -> None:
        changes = {number: {"memory_hash": "", **counts} for number, counts in done.counts.items()}
        for version in versions.history(self.connection, self.judge):
            if version.note and residue.in_sentence(version.note):
                changes.setdefault(version.number, {})["note"] = _NOTHING
        table = versions_table
        for number, values in changes.items():
            this = update(table).where(table.c.judge == self.judge, table.c.number == number)
            self.connection.execute(this.values(redacted=True, **values))

    def _commit(self, memory: Memory, count: int) -> None:
        """The new version: its rows are those of the one before, which has just lost the same; only the number is new."""
        versions.add_version(
            self.connection,
            self.judge,
            parent=self.latest,
            before={},
            after={},
            memory=memory,
            action="erase",
            line=f"{in_words(0, count, 0)} erased from all versions",
        )

    def _remember(self, removed: _Removed, left: Timeline, keys: Iterable[FeedbackKey], cases: Collection[str]) -> None:
        rows_left = (body for (kind, _), spans in left.items() if kind == "case" for _, _, body in spans)
        kept = {self.codec.decode("case", body).content_hash for body in rows_left} if removed.examples else set()
        self.erased.remember(
            self.connection,
            keys=keys,
            annotations=removed.annotations.values(),
            examples=[
                example
                for example in removed.examples.values()
                if example.content_hash not in kept and example.id in cases
            ],
            at=versions.now(),
        )


def _by_name(residue: Residue) -> Residue:
    """What to look for in other judges' rows: the same person."""
    return Residue(person=residue.person)


def _unnamed(guideline: Guideline, person: str | None) -> Guideline:
    """`guideline` without the name of somebody who pinned or retired it."""
    if person is None or person not in (guideline.pinned_by, guideline.retired_by):
        return guideline
    names = {name: _NOTHING for name in ("pinned_by", "retired_by") if getattr(guideline, name) == person}
    return msgspec.structs.replace(guideline, **names)


def _silent(memory: Memory, residue: Residue) -> Memory:
    """`memory` without a reason that names or repeats what was erased."""

    def silent(entry: T) -> T:
        return msgspec.structs.replace(entry, reason=_NOTHING) if residue.in_sentence(entry.reason) else entry

    memory = memory.with_annotations(
        (
            msgspec.structs.replace(annotation, outcome=silent(annotation.outcome))
            for annotation in memory.annotations()
            if annotation.outcome is not None and residue.in_sentence(annotation.outcome.reason)
        ),
    )
    return msgspec.structs.replace(memory, tombstones=tuple(map(silent, memory.tombstones)))


def _redacted(number: int, change: Change) -> RedactedVersion:
    def removed(kind: str) -> int:
        return sum(of == kind and body is None for (of, _), (_, body) in change.items())

    return RedactedVersion(
        number=number, comments=removed("annotation"), cases=removed("case"), guidelines=removed("guideline")
    )
