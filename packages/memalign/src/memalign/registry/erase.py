"""Erasing: out of every version and every table, without any model call.

Select what is named; forget it in each version, by the rules of an unalign; forget what repeats its words; write the
rows that differ; remember keyed hashes of it. `erase_check` then searches for what is left. Older versions stay what
they were, less what may no longer be anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, update

from memalign.align.annotations import without_disputed
from memalign.align.forget import forget
from memalign.errors import UnknownKey
from memalign.keys import readings, select_keys
from memalign.memory import Annotation, FeedbackConflict, Memory
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erase_check import in_other_tables
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import Codec, Contents, RowKey, memory_contents, memory_of
from memalign.registry.other_tables import Erased, Passage, other_tables
from memalign.registry.paid_answers import count_forgettings, forget_answers
from memalign.registry.receipt import Receipt, RedactedVersion, in_words
from memalign.registry.residue import RUN, Residue, reason_of, row_names, strings, words_of
from memalign.registry.tables import rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Timeline
from memalign.types import FeedbackKey, Guideline, guideline_number

__all__ = ["Selectors", "erase_feedback"]

_change = msgspec.structs.replace
_ERASED = "(erased)"
_WORDED = ("case", "annotation", "pre_alignment", "judge", "tombstone")
"""Kinds of rows whose words are people's own, or the judged system's: what they share with the erased is no trace."""


T = TypeVar("T", Guideline, FeedbackConflict)


class Selectors(NamedTuple):
    """What is to go: ids and keys, a person, a text; of several, all must hold. See `Registry.erase`."""

    keys: tuple[str | FeedbackKey, ...]
    source: str | None
    text: Finder | None

    def __str__(self) -> str:
        source = f" of source {self.source!r}" if self.source is not None else ""
        return f"{source}{' with this text' if self.text else ''}"  # and never the text: it is to be kept nowhere


class Selection(NamedTuple):
    """Keys of feedback, and ids of cases."""

    keys: frozenset[FeedbackKey]
    cases: frozenset[str]


def erase_feedback(database: Database, name: str, selectors: Selectors, *, dry_run: bool) -> Erased:
    """Erase in one transaction, or only say what would go.

    Most of the time goes into what each version is without it. That is found out before others have to wait, and again
    if the judge has changed meanwhile; the third time they wait.

    Raises:
        UnknownKey: Nothing is there that the selectors name.
        JudgeNotFound: There is no such judge.
        RegistryError: It could not be wiped from the disk, or another package's tables cannot be reached.
    """
    database.check_erasable()
    for _ in range(2):
        with database.read() as connection:
            holdings = _Holdings.read(database, connection, name)
        plan = _Plan(database, holdings, selectors)
        if dry_run:
            receipt = replace(plan.receipt, latest=None, dry_run=True, unreachable=database.unreachable)
            return replace(plan.erased(), receipt=receipt)
        with database.write(name) as connection:
            if _moment(connection, name) == holdings.moment:
                return plan.carry_out(connection)
    with database.write(name) as connection:
        return _Plan(database, _Holdings.read(database, connection, name), selectors).carry_out(connection)


class _Moment(NamedTuple):
    """What a plan rests on: nothing of it may change until it is carried out."""

    latest: int
    forgettings: int | None
    passages: tuple[Passage, ...]


def _moment(connection: Connection, name: str) -> _Moment:
    judge, latest = versions.find(connection, name)
    # Raises where tables of a package that is not installed could not be reached.
    passages = (passage for tables in other_tables(connection) for passage in tables.passages(connection, name))
    return _Moment(latest, count_forgettings(connection, judge), tuple(passages))


@dataclass(frozen=True, kw_only=True)
class _Holdings:
    """All rows of a judge, what other packages' tables hold of its cases, and what was erased of it."""

    name: str
    judge: int
    moment: _Moment
    timeline: Timeline
    notes: dict[int, str]
    hashes: ErasedHashes

    @classmethod
    def read(cls, database: Database, connection: Connection, name: str) -> _Holdings:
        judge, latest = versions.find(connection, name)
        return cls(
            name=name,
            judge=judge,
            moment=_moment(connection, name),
            timeline=versions.timeline(connection, judge, latest),
            notes={version.number: version.note for version in versions.history(connection, judge) if version.note},
            hashes=ErasedHashes(database, connection, judge),
        )


class _Plan:
    """What one erasure does: the receipt, and the rows that differ."""

    def __init__(self, database: Database, holdings: _Holdings, selectors: Selectors) -> None:
        self.database, self.holdings, self.codec = database, holdings, Codec()
        self.timeline, self.latest, self.passages = holdings.timeline, holdings.moment.latest, holdings.moment.passages
        selection = self._select(selectors)
        self.keys = tuple(sorted(selection.keys))
        # A text that is searched for among some feedback only may stay in other feedback, and a name in other words.
        everything = not selectors.keys and selectors.source is None
        named = Residue(
            keys=self.keys,
            searched=selectors.text if everything else None,
            person=selectors.source if not selectors.keys and selectors.text is None else None,
        )
        touched = self._versions_with(lambda kind, key, body: row_names(self.codec, named, kind, key, body))
        self._forget(touched, named)
        self.cases = self._cases(selection)
        self.residue = self._residue(named)
        # Only now it is known which words go. A guideline may repeat them without having been learned from them: a
        # person wrote it, or a model chanced. And what memalign says of other feedback may quote them.
        copied = self._copies(named)
        if not (self.keys or self.cases or touched or copied or self._is_mentioned()):
            raise UnknownKey(f"no version and no table of {holdings.name!r} holds feedback{selectors}")
        repeating = self._versions_with(
            lambda kind, key, body: (
                (kind == "guideline" and key in copied) or self.residue.in_sentence(reason_of(self.codec, kind, body))
            )
        )
        if repeating:
            self._forget(touched | repeating, self.residue, copied)
        learned = Residue(text for _, text in self._gone_words("guideline"))
        learned.share(self._staying_words((*_WORDED, "guideline")))
        self.residue.join(learned)
        self.receipt = Receipt(
            judge=holdings.name,
            keys=self._comments(),
            cases=tuple(sorted(self.cases)),
            guidelines=_by_number({key for key, _ in self._gone_words("guideline")}),
            copied=_by_number(copied),
            versions=tuple(_redacted(number, change) for number, change in sorted(self.changes.items())),
            latest=None if self.memory is None else self.latest + 1,
            pending=tuple(sorted(annotation.key for annotation in self.memory.pending)) if self.memory else (),
        )

    # -- select ------------------------------------------------------------------------------------------------------

    def _select(self, selectors: Selectors) -> Selection:
        """What is named, with everything that anybody said of a case that goes. Raises UnknownKey."""
        keys = {FeedbackKey.parse(key) for kind, key in self.timeline if kind in ("annotation", "tombstone")}
        keys |= {FeedbackKey(passage.id, passage.source) for passage in self.passages if passage.source is not None}
        cases = {key for kind, key in self.timeline if kind == "case"}
        cases |= {passage.id for passage in self.passages if passage.source is None}
        every, source = frozenset(keys), selectors.source
        if source is not None:
            keys, cases = {key for key in keys if key.source == source}, set()
        if selectors.text is not None:
            holding = self._holding(selectors.text)
            keys, cases = keys & holding.keys, cases & holding.cases
        if selectors.keys:
            named = select_keys(sorted(keys), selectors.keys)
            ids = {selector: _ids(selector) & cases for selector in selectors.keys}
            for selector in named:
                if not named[selector] and not ids[selector]:
                    day = self.holdings.hashes.erased_on(selector)
                    hint = f"it was erased on {day}" if day else "`memalign show NAME --ledger` lists every key"
                    where = f"no version and no queue of {self.holdings.name!r}"
                    raise UnknownKey(f"{where} holds {str(selector)!r}{selectors}; {hint}")
            keys, cases = {key for some in named.values() for key in some}, set[str]().union(*ids.values())
        elif source is None and selectors.text is None:
            raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
        return Selection(frozenset(keys | {key for key in every if key.id in cases}), frozenset(cases))

    def _holding(self, finder: Finder) -> Selection:
        """What holds a text. What people said of a case goes with the case."""
        keys = {FeedbackKey.parse(key) for kind, key in self.timeline if kind == "tombstone" and finder.holds(key)}
        cases = set()
        for key, _, body in self._rows("case"):
            example = self.codec.decode("case", body)
            if finder.holds(key) or finder.within([example.meta, *example.content.items()]):
                cases.add(key)
        for _, _, body in self._rows("annotation"):
            annotation = self.codec.decode("annotation", body)
            if annotation.id in cases or finder.places(None, annotation):
                keys.add(annotation.key)
        for passage in sorted(self.passages, key=lambda passage: passage.source is not None):  # cases first
            if passage.id in cases or finder.within([passage.id, passage.source, passage.content, passage.labels]):
                if passage.source is None:
                    cases.add(passage.id)
                else:
                    keys.add(FeedbackKey(passage.id, passage.source))
        return Selection(frozenset(keys), frozenset(cases))

    def _cases(self, selection: Selection) -> frozenset[str]:
        """The cases that go: those that are named, and those of which nobody else speaks in any version or table."""
        spoken = {key.id for key in self._spoken() if key not in selection.keys}
        alone = {key for kind, key, _ in self.gone if kind == "case"}
        return selection.cases | {case for case in alone if case not in spoken and not self.rest.get(("case", case))}

    def _spoken(self) -> set[FeedbackKey]:
        """Feedback with words in another package's tables."""
        return {
            FeedbackKey(passage.id, passage.source)
            for passage in self.passages
            if passage.source is not None and passage.content is not None
        }

    def _comments(self) -> tuple[FeedbackKey, ...]:
        """The keys behind which there is something: feedback of a version, or words in another table."""
        written = {key for kind, key, _ in self.gone if kind == "annotation"}
        written |= {key for kind, key in self.timeline if kind == "tombstone"}
        spoken = self._spoken()
        return tuple(key for key in self.keys if str(key) in written or key in spoken)

    def _is_mentioned(self) -> bool:
        """Whether a note of a version, or a text of another table, repeats what is to go."""
        if any(map(self.residue.in_sentence, self.holdings.notes.values())):
            return True
        with self.database.read() as connection:
            name = self.holdings.name
            return any(judge == name for _, judge in in_other_tables(connection, self.residue, name))

    def _rows(self, *kinds: str) -> Iterator[tuple[str, range, bytes]]:
        """Key, versions and body of every row of these kinds."""
        for (kind, key), spans in self.timeline.items():
            if kind in kinds:
                for since, until, body in spans:
                    yield key, range(since, until), body

    def _versions_with(self, holds: Callable[[str, str, bytes], bool]) -> set[int]:
        """The versions with a row, of this kind, key and body, for which that holds."""
        kinds = {kind for kind, _ in self.timeline}
        spans = (span for kind in kinds for key, span, body in self._rows(kind) if holds(kind, key, body))
        return set[int]().union(*spans)

    # -- forget in each version --------------------------------------------------------------------------------------

    def _forget(self, numbers: Collection[int], residue: Residue, copied: Collection[str] = ()) -> None:
        """What these versions become. One at a time, and only what differs is kept: all of them may be gigabytes."""
        self.changes: dict[int, dict[RowKey, bytes | None]] = {}
        self.counts: dict[int, dict[str, int]] = {}
        self.memory: Memory | None = None
        self.gone: dict[tuple[str, str, bytes], int] = {}
        for number in sorted(numbers):
            contents = {row: body for row in self.timeline if (body := self._body(row, number)) is not None}
            memory = self._without(contents, residue, copied)
            wanted = memory_contents(memory, self.codec.encode)
            removed = [row for row in contents if row[0] != "judge" and row not in wanted]
            differing = {row: body for row, body in wanted.items() if contents.get(row) != body}
            self.changes[number], self.counts[number] = dict.fromkeys(removed) | differing, versions.counts(memory)
            self.gone.update({(*row, contents[row]): number for row in removed})
            if number == self.latest:
                self.memory = memory
        self.rest = self._rest()

    def _without(self, contents: Contents, residue: Residue, copied: Collection[str]) -> Memory:
        """The version's memory after forgetting, by the rules that an unalign follows, and without a tombstone."""
        keys, person = frozenset(self.keys), residue.person
        memory = forget(memory_of(contents, self.codec.decode), self.keys, state="erased")
        memory = memory.without_guidelines([g.id for g in memory.guidelines if g.id in copied or g.origin == person])
        memory = _change(memory, tombstones=tuple(stone for stone in memory.tombstones if stone.key not in keys))
        if person is not None:
            memory = _change(
                memory,
                guidelines=tuple(_unnamed(guideline, person) for guideline in memory.guidelines),
                conflicts=tuple(_named_no_more(conflict, person, "dismissed_by") for conflict in memory.conflicts),
                authority=tuple(name for name in memory.authority if name != person),
            )
        memory = without_disputed(memory)
        silenced = {
            annotation.key: _change(annotation, outcome=_change(annotation.outcome, reason=_ERASED))
            for annotation in memory.annotations()
            if annotation.outcome is not None and residue.in_sentence(annotation.outcome.reason)
        }
        stones = (
            _change(stone, reason=_ERASED) if residue.in_sentence(stone.reason) else stone
            for stone in memory.tombstones
        )
        return _change(memory.with_annotations(silenced.values()), tombstones=tuple(stones))

    def _rest(self) -> Timeline:
        """The timeline after the changes, each row over the widest ranges in which it is the same."""
        rest = dict(self.timeline)
        for row in set[RowKey]().union(*self.changes.values()):
            spans: list[tuple[int, int, bytes]] = []
            for number in range(1, self.latest + 1):
                change = self.changes.get(number, {})
                body = change[row] if row in change else self._body(row, number)
                if body is None:
                    continue
                since = spans.pop()[0] if spans and spans[-1][1:] == (number, body) else number
                spans.append((since, number + 1, body))
            rest[row] = spans
        return rest

    def _body(self, row: RowKey, number: int) -> bytes | None:
        return next((body for since, until, body in self.timeline.get(row, ()) if since <= number < until), None)

    # -- forget what repeats the words -------------------------------------------------------------------------------

    def _gone_words(self, *kinds: str) -> Iterator[tuple[str, str]]:
        """Key and words of the rows that go."""
        for kind, key, body in self.gone:
            if kind in kinds:
                yield from ((key, text) for text in words_of(self.codec, kind, body))

    def _staying_words(self, kinds: Collection[str]) -> Iterator[str]:
        for (kind, _), spans in self.rest.items():
            if kind in kinds:
                for _, _, body in spans:
                    yield from words_of(self.codec, kind, body)

    def _residue(self, named: Residue) -> Residue:
        """What to search for."""
        texts = {text: None for _, text in self._gone_words("annotation", "case", "pre_alignment")}
        survivors = list[str]()
        for passage in self.passages:
            key = None if passage.source is None else FeedbackKey(passage.id, passage.source)
            if key in named.keys if key is not None else passage.id in self.cases:
                # A copy also has what its format brings along, such as the name of a model: only long texts tell.
                long = (text for text in strings(passage.content) if not passage.copy or len(text.split()) >= RUN)
                texts.update(dict.fromkeys(long))
            elif not passage.copy:
                survivors += strings(passage.content)
        residue = Residue(texts, named.keys, cases=self.cases, searched=named.searched, person=named.person)
        residue.share(self._staying_words(_WORDED))
        residue.share(survivors)
        return residue

    def _copies(self, named: Residue) -> frozenset[str]:
        return frozenset(
            key
            for key, _, body in self._rows("guideline")
            if any(map(self.residue.copied, words_of(self.codec, "guideline", body)))
            and not row_names(self.codec, named, "guideline", key, body)
        )

    # -- write and remember ------------------------------------------------------------------------------------------

    def erased(self) -> Erased:
        """What goes, for other tables and for the search afterwards."""
        contents = {
            self.codec.decode(kind, body).content_hash
            for kind, key, body in self.gone
            if kind == "case" and key in self.cases
        }
        return Erased(
            receipt=self.receipt,
            keys=frozenset(self.keys),
            cases=self.cases,
            contents=frozenset(contents),
            residue=self.residue,
        )

    def carry_out(self, connection: Connection) -> Erased:
        """Write it, in a transaction in which nothing else of the judge changes."""
        judge = self.holdings.judge
        forget_answers(connection, judge)  # they may quote what goes
        self._write_rows(connection)
        changed: dict[int, dict[str, Any]] = {n: {"memory_hash": "", **counts} for n, counts in self.counts.items()}
        for number, note in self.holdings.notes.items():
            if self.residue.in_sentence(note):
                changed.setdefault(number, {})["note"] = _ERASED
        for number, values in changed.items():
            version = (versions_table.c.judge == judge, versions_table.c.number == number)
            connection.execute(update(versions_table).where(*version).values(redacted=True, **values))
        if self.memory is not None:
            # Its rows are those of the version before, which has just lost the same; only the number is new.
            line = f"{in_words(0, len(self.keys), 0)} erased from all versions"
            new: dict[str, Any] = {"parent": self.latest, "before": {}, "after": {}, "memory": self.memory}
            versions.add_version(connection, judge, **new, action="erase", line=line)
        erased = self.erased()
        self._remember(connection, erased)
        for tables in other_tables(connection):
            tables.forget(connection, erased)
        return erased

    def _write_rows(self, connection: Connection) -> None:
        judge, new = self.holdings.judge, list[dict[str, object]]()
        for kind, key in sorted(set[RowKey]().union(*self.changes.values())):
            connection.execute(delete(rows).where(rows.c.judge == judge, rows.c.kind == kind, rows.c.key == key))
            for since, until, body in self.rest[kind, key]:
                last = None if until == self.latest + 1 else until
                new.append({"judge": judge, "kind": kind, "key": key, "since": since, "until": last, "body": body})
        if new:
            connection.execute(insert(rows), new)

    def _remember(self, connection: Connection, erased: Erased) -> None:
        bodies = (body for (kind, _), spans in self.rest.items() if kind == "case" for _, _, body in spans)
        staying = {self.codec.decode("case", body).content_hash for body in bodies} if erased.contents else set()
        annotations = list[tuple[str | None, Annotation]]()
        for (kind, _, body), number in self.gone.items():
            if kind == "annotation":
                annotation = self.codec.decode(kind, body)
                case = self._body(("case", annotation.id), number)
                annotations.append((self.codec.decode("case", case).content_hash if case else None, annotation))
        contents = erased.contents - staying
        self.holdings.hashes.remember(
            connection, keys=self.keys, annotations=annotations, contents=contents, at=versions.now()
        )


def _ids(selector: str | FeedbackKey) -> set[str]:
    """The ids of cases that a selector may mean; none for one person's feedback."""
    if isinstance(selector, FeedbackKey):
        return set()
    return {case for case, source in readings(selector) if source is None}


def _unnamed(guideline: Guideline, person: str) -> Guideline:
    """`guideline` without the name of somebody who pinned or retired it, and without the checks that they set."""
    if guideline.checked_by == person:
        guideline = _change(guideline, checks=(), checked_by=None)
    return _named_no_more(guideline, person, "pinned_by", "retired_by")


def _named_no_more(entry: T, person: str, *fields: str) -> T:
    names = {field: _ERASED for field in fields if getattr(entry, field) == person}
    return _change(entry, **names) if names else entry


def _by_number(guidelines: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(guidelines, key=guideline_number))


def _redacted(number: int, change: dict[RowKey, bytes | None]) -> RedactedVersion:
    kinds = [kind for (kind, _), body in change.items() if body is None]
    return RedactedVersion(
        number=number,
        comments=kinds.count("annotation"),
        cases=kinds.count("case"),
        guidelines=kinds.count("guideline"),
    )
