"""Erasing: out of every version and every table, without any model call.

Select what is named; forget it in each version, by the rules of an unalign; forget what repeats its words; write the
rows that differ; remember keyed hashes of it. `erase_check` then searches for what is left. Older versions stay what
they were, less what may no longer be anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from memalign.align.annotations import without_disputed
from memalign.align.forget import forget
from memalign.errors import UnknownKey
from memalign.keys import readings, select_keys
from memalign.memory import Annotation, Memory, Outcome, Tombstone
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erased_hashes import ErasedHashes
from memalign.registry.judge_rows import Codec, Contents, RowKey
from memalign.registry.other_tables import Erased, Passage, other_tables
from memalign.registry.paid_answers import count_forgettings, forget_answers
from memalign.registry.receipt import Receipt, RedactedVersion, in_words
from memalign.registry.residue import RUN, Residue, reason_of, row_names, strings, words_of
from memalign.registry.tables import judges, rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Timeline
from memalign.types import Example, FeedbackKey, Guideline, guideline_number

__all__ = ["Erasure", "erase_feedback", "matching_feedback"]

T = TypeVar("T", Outcome, Tombstone)
Reading = Callable[[], AbstractContextManager[Connection]]

_ERASED = "(erased)"
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


def erase_feedback(database: Database, name: str, selectors: Selectors, *, dry_run: bool) -> Erasure:
    """Erase in one transaction, or only say what would go.

    Most of the time goes into what each version is without it. That is found out before others have to wait, and again
    if the judge has changed meanwhile; the third time they wait.

    Raises:
        UnknownKey: Nothing is there that the selectors name.
        JudgeNotFound: There is no such judge.
        RegistryError: It could not be wiped from the disk, or another package's tables cannot be reached.
    """
    database.check_erasable()
    secret = None
    for _ in range(2):
        with database.read() as connection:
            secret = database.meta(connection, "secret")
            holdings = _holdings(connection, name, secret)
        plan = _Plan(holdings, selectors, database.read)
        if dry_run:
            receipt = replace(plan.receipt, latest=None, dry_run=True, unreachable=database.unreachable)
            return Erasure(judge=holdings.judge, receipt=receipt)
        with database.write(name) as connection:
            if _moment(connection, name) == holdings.moment:
                return plan.carry_out(connection)
    with database.write(name) as connection:
        holdings = _holdings(connection, name, str(secret))
        return _Plan(holdings, selectors, lambda: nullcontext(connection)).carry_out(connection)


def matching_feedback(connection: Connection, name: str, text: str) -> dict[FeedbackKey, tuple[str, ...]]:
    """Key → the fields that hold `text`, for every piece of feedback of any version. Raises InputError."""
    judge, latest = versions.find(connection, name)
    timeline = versions.timeline(connection, judge, latest, ("case", "annotation"))
    return _annotations_with(timeline, Finder(text), Codec())


# -- what a registry holds of a judge --------------------------------------------------------------------------------


class _Moment(NamedTuple):
    """What a plan rests on: nothing of it may change until it is carried out."""

    latest: int
    forgettings: int | None
    passages: tuple[Passage, ...]


@dataclass(frozen=True, kw_only=True)
class _Holdings:
    """All rows of a judge, what other packages' tables hold of its cases, and what was erased of it."""

    name: str
    judge: int
    moment: _Moment
    timeline: Timeline
    notes: dict[int, str]
    erased: ErasedHashes


def _moment(connection: Connection, name: str) -> _Moment:
    judge, latest = versions.find(connection, name)
    # Raises where tables of a package that is not installed could not be reached.
    passages = (passage for tables in other_tables(connection) for passage in tables.passages(connection, name))
    return _Moment(latest, count_forgettings(connection, judge), tuple(passages))


def _holdings(connection: Connection, name: str, secret: str) -> _Holdings:
    judge, latest = versions.find(connection, name)
    return _Holdings(
        name=name,
        judge=judge,
        moment=_moment(connection, name),
        timeline=versions.timeline(connection, judge, latest),
        notes={version.number: version.note for version in versions.history(connection, judge) if version.note},
        erased=ErasedHashes(connection, secret, judge),
    )


@dataclass(frozen=True, kw_only=True)
class _Removed:
    """What goes, by the body of its row; annotations with the content hash of their case."""

    annotations: dict[bytes, tuple[str | None, Annotation]] = field(default_factory=dict)
    examples: dict[bytes, Example] = field(default_factory=dict)
    guidelines: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    guideline_ids: set[str] = field(default_factory=set)
    texts: dict[str, None] = field(default_factory=dict)


class _Plan:
    """What one erasure does: the receipt, and the rows that differ. `reading` looks at other judges and tables."""

    def __init__(self, holdings: _Holdings, selectors: Selectors, reading: Reading) -> None:
        self.holdings, self.reading = holdings, reading
        self.timeline, self.latest = holdings.timeline, holdings.moment.latest
        self.passages, self.codec = holdings.moment.passages, Codec()
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
        self.residue, self.elsewhere = self._residue(named)
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
        if repeating or any(map(self.residue.in_sentence, self.reasons)):
            self._forget(touched | repeating, self.residue, copied)
        learned = Residue(text for texts in self.removed.guidelines.values() for text in texts)
        learned.share(self._texts((*_WORDED, "guideline")))
        self.redacted_notes = [number for number, note in holdings.notes.items() if self.residue.in_sentence(note)]
        self.residue.add(learned)
        self.receipt = Receipt(
            judge=holdings.name,
            keys=self._comments(),
            cases=tuple(sorted(self.cases)),
            guidelines=tuple(sorted(self.removed.guideline_ids, key=guideline_number)),
            copied=tuple(sorted(copied, key=guideline_number)),
            versions=tuple(_redacted(number, self.changes[number]) for number in sorted(self.changes)),
            latest=None if self.memory is None else self.latest + 1,
            pending=tuple(sorted(annotation.key for annotation in self.memory.pending)) if self.memory else (),
            elsewhere=self.elsewhere,
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
                    day = self.holdings.erased.erased_on(selector)
                    hint = f"it was erased on {day}" if day else "`memalign show NAME --ledger` lists every key"
                    where = f"no version and no queue of {self.holdings.name!r}"
                    raise UnknownKey(f"{where} holds {str(selector)!r}{selectors}; {hint}")
            keys, cases = {key for some in named.values() for key in some}, set[str]().union(*ids.values())
        elif source is None and selectors.text is None:
            raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
        return Selection(frozenset(keys | {key for key in every if key.id in cases}), frozenset(cases))

    def _holding(self, finder: Finder) -> Selection:
        """What holds a text. What people said of a case goes with the case."""
        keys = set(_annotations_with(self.timeline, finder, self.codec))
        keys |= {FeedbackKey.parse(key) for kind, key in self.timeline if kind == "tombstone" and finder.holds(key)}
        cases = set()
        for (kind, key), spans in self.timeline.items():
            if kind == "case":
                examples = (self.codec.decode("case", body) for _, _, body in spans)
                if finder.holds(key) or any(finder.within([entry.meta, *entry.content.items()]) for entry in examples):
                    cases.add(key)
        for entry in self.passages:
            if entry.source is None and finder.within([entry.id, entry.content, entry.labels]):
                cases.add(entry.id)
        for entry in self.passages:
            if entry.source is not None and (
                entry.id in cases or finder.within([entry.id, entry.source, entry.content, entry.labels])
            ):
                keys.add(FeedbackKey(entry.id, entry.source))
        return Selection(frozenset(keys), frozenset(cases))

    def _cases(self, selection: Selection) -> frozenset[str]:
        """The cases that go: those that are named, and those of which nobody else speaks in any version or table."""
        spoken = {key.id for key in self._spoken() if key not in selection.keys}
        alone = {example.id for example in self.removed.examples.values()}
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
        feedback = {annotation.key for _, annotation in self.removed.annotations.values()} | self._spoken()
        feedback |= {FeedbackKey.parse(key) for kind, key in self.timeline if kind == "tombstone"}
        return tuple(key for key in self.keys if key in feedback)

    def _is_mentioned(self) -> bool:
        """Whether a note of a version, or a text of another table, repeats what is to go."""
        if any(map(self.residue.in_sentence, self.holdings.notes.values())):
            return True
        with self.reading() as connection:
            return any(
                (words.is_name and words.text == self.residue.person) or self.residue.certain(words.text)
                for tables in other_tables(connection)
                for words in tables.words(connection)
                if words.judge == self.holdings.name
            )

    def _versions_with(self, holds: Callable[[str, str, bytes], bool]) -> set[int]:
        """The versions with a row, of this kind, key and body, for which that holds."""
        spans = ((kind, key, span) for (kind, key), spans in self.timeline.items() for span in spans)
        return set[int]().union(*(range(s, until) for kind, key, (s, until, body) in spans if holds(kind, key, body)))

    # -- forget in each version --------------------------------------------------------------------------------------

    def _forget(self, numbers: Collection[int], residue: Residue, copied: Collection[str] = ()) -> None:
        """What these versions become. One at a time, and only what differs is kept: all of them may be gigabytes."""
        self.changes: dict[int, Change] = {}
        self.counts: dict[int, dict[str, int]] = {}
        self.reasons: set[str] = set()
        self.memory: Memory | None = None
        for number in sorted(numbers):
            contents = {row: body for row in self.timeline if (body := self._body(row, number)) is not None}
            memory = self._without(contents, residue, copied)
            wanted = self.codec.memory_contents(memory)
            change: Change = {row: (contents[row], None) for row in contents if row[0] != "judge" and row not in wanted}
            change |= {row: (contents.get(row), body) for row, body in wanted.items() if contents.get(row) != body}
            self.changes[number], self.counts[number] = change, versions.counts(memory)
            self.reasons.update(annotation.outcome.reason for annotation in memory.annotations() if annotation.outcome)
            self.reasons.update(stone.reason for stone in memory.tombstones)
            if number == self.latest:
                self.memory = memory
        self.rest = self._rest()
        self.removed = self._removed()

    def _without(self, contents: Contents, residue: Residue, copied: Collection[str]) -> Memory:
        """The version's memory after forgetting, by the rules that an unalign follows, and without a tombstone."""
        keys, person = frozenset(self.keys), residue.person
        memory = forget(self.codec.memory(contents), self.keys, state="erased")
        memory = memory.without_guidelines([g.id for g in memory.guidelines if g.id in copied or g.origin == person])
        memory = msgspec.structs.replace(
            memory,
            guidelines=tuple(_unnamed(guideline, person) for guideline in memory.guidelines),
            conflicts=tuple(
                msgspec.structs.replace(conflict, dismissed_by=_ERASED)
                if person is not None and conflict.dismissed_by == person
                else conflict
                for conflict in memory.conflicts
            ),
            tombstones=tuple(stone for stone in memory.tombstones if stone.key not in keys),
            authority=tuple(name for name in memory.authority if name != person),
        )
        return _silent(without_disputed(memory), residue)

    def _rest(self) -> Timeline:
        """The timeline after the changes, each row over the widest ranges in which it is the same."""
        rest = dict(self.timeline)
        for row in set[RowKey]().union(*self.changes.values()):
            spans: list[tuple[int, int, bytes]] = []
            for number in range(1, self.latest + 1):
                change = self.changes.get(number, {}).get(row)
                body = self._body(row, number) if change is None else change[1]
                if body is None:
                    continue
                if spans and spans[-1][1] == number and spans[-1][2] == body:
                    spans[-1] = (spans[-1][0], number + 1, body)
                else:
                    spans.append((number, number + 1, body))
            rest[row] = spans
        return rest

    def _body(self, row: RowKey, number: int) -> bytes | None:
        for since, until, body in self.timeline.get(row, ()):
            if since <= number < until:
                return body
        return None

    def _removed(self) -> _Removed:
        keys, removed = frozenset(map(str, self.keys)), _Removed()
        for number, change in self.changes.items():
            for (kind, key), (body, after) in change.items():
                erased = kind == "annotation" and key in keys
                if body is None or (after is not None and not erased):
                    continue
                if erased:
                    annotation = self.codec.decode(kind, body)
                    case = self._body(("case", annotation.id), number)
                    content = None if case is None else self.codec.decode("case", case).content_hash
                    removed.annotations[body] = (content, annotation)
                elif kind == "case":
                    removed.examples[body] = self.codec.decode(kind, body)
                elif kind == "guideline":
                    removed.guidelines[body] = tuple(words_of(self.codec, kind, body))
                    removed.guideline_ids.add(key)
                if erased or kind in ("case", "pre_alignment"):
                    removed.texts.update(dict.fromkeys(words_of(self.codec, kind, body)))
        return removed

    # -- forget what repeats the words -------------------------------------------------------------------------------

    def _texts(self, kinds: Collection[str]) -> Iterator[str]:
        for (kind, _), spans in self.rest.items():
            if kind in kinds:
                for _, _, body in spans:
                    yield from words_of(self.codec, kind, body)

    def _residue(self, named: Residue) -> tuple[Residue, tuple[str, ...]]:
        """What to search for, and the other judges that hold some of it and keep it."""
        texts, survivors = dict(self.removed.texts), list[str]()
        for passage in self.passages:
            key = None if passage.source is None else FeedbackKey(passage.id, passage.source)
            if key in named.keys if key is not None else passage.id in self.cases:
                # A copy also has what its format brings along, such as the name of a model: only long texts tell.
                long = (text for text in strings(passage.content) if not passage.copy or len(text.split()) >= RUN)
                texts.update(dict.fromkeys(long))
            elif not passage.copy:
                survivors += strings(passage.content)
        residue, whole = (
            Residue(texts, named.keys, cases=self.cases, searched=named.searched, person=named.person) for _ in range(2)
        )
        contents = {example.content_hash for example in self.removed.examples.values() if example.id in self.cases}
        elsewhere, person = set[str](), Residue(person=named.person)
        query = (
            select(judges.c.name, rows.c.kind, rows.c.key, rows.c.body)
            .join(judges, judges.c.id == rows.c.judge)
            .where(rows.c.judge != self.holdings.judge, rows.c.kind != "vector")
        )
        with self.reading() as connection:
            for name, kind, key, body in connection.execute(query):
                words = [key, *words_of(self.codec, kind, body)]
                if name not in elsewhere:
                    same = kind == "case" and self.codec.decode(kind, body).content_hash in contents
                    # Short words are anybody's: of another judge they prove nothing.
                    if same or any(map(whole.certain, words)) or row_names(self.codec, person, kind, key, body):
                        elsewhere.add(name)
                residue.share(words)
        residue.share(self._texts(_WORDED))
        residue.share(survivors)
        return residue, tuple(sorted(elsewhere))

    def _copies(self, named: Residue) -> frozenset[str]:
        return frozenset(
            key
            for (kind, key), spans in self.timeline.items()
            if kind == "guideline"
            for _, _, body in spans
            if any(map(self.residue.copied, words_of(self.codec, kind, body)))
            and not row_names(self.codec, named, kind, key, body)
        )

    # -- write and remember ------------------------------------------------------------------------------------------

    def carry_out(self, connection: Connection) -> Erasure:
        """Write it, in a transaction in which nothing else of the judge changes."""
        judge = self.holdings.judge
        forget_answers(connection, judge)  # they may quote what goes
        self._write_rows(connection)
        changed = {number: {"memory_hash": "", **counts} for number, counts in self.counts.items()}
        for number in self.redacted_notes:
            changed.setdefault(number, {})["note"] = _ERASED
        for number, values in changed.items():
            version = (versions_table.c.judge == judge, versions_table.c.number == number)
            connection.execute(update(versions_table).where(*version).values(redacted=True, **values))
        if self.memory is not None:
            # Its rows are those of the version before, which has just lost the same; only the number is new.
            line = f"{in_words(0, len(self.keys), 0)} erased from all versions"
            versions.add_version(
                connection,
                judge,
                parent=self.latest,
                before={},
                after={},
                memory=self.memory,
                action="erase",
                line=line,
            )
        self._remember(connection)
        erased = Erased(receipt=self.receipt, keys=frozenset(self.keys), cases=self.cases, residue=self.residue)
        for tables in other_tables(connection):
            tables.forget(connection, erased)
        return Erasure(judge=judge, receipt=self.receipt, residue=self.residue)

    def _write_rows(self, connection: Connection) -> None:
        judge, new = self.holdings.judge, list[dict[str, object]]()
        for kind, key in sorted(set[RowKey]().union(*self.changes.values())):
            connection.execute(delete(rows).where(rows.c.judge == judge, rows.c.kind == kind, rows.c.key == key))
            for since, until, body in self.rest[kind, key]:
                last = None if until == self.latest + 1 else until
                new.append({"judge": judge, "kind": kind, "key": key, "since": since, "until": last, "body": body})
        if new:
            connection.execute(insert(rows), new)

    def _remember(self, connection: Connection) -> None:
        bodies = (body for (kind, _), spans in self.rest.items() if kind == "case" for _, _, body in spans)
        contents = {self.codec.decode("case", body).content_hash for body in bodies} if self.removed.examples else set()
        self.holdings.erased.remember(
            connection,
            keys=self.keys,
            annotations=self.removed.annotations.values(),
            examples=[
                example
                for example in self.removed.examples.values()
                if example.content_hash not in contents and example.id in self.cases
            ],
            at=versions.now(),
        )


def _annotations_with(timeline: Timeline, finder: Finder, codec: Codec) -> dict[FeedbackKey, tuple[str, ...]]:
    """Key → the fields that hold a text; an annotation is found by any case that it once stood beside."""
    places: dict[FeedbackKey, dict[str, None]] = {}
    for (kind, key), spans in sorted(timeline.items()):
        if kind != "annotation":
            continue
        for since, until, body in spans:
            annotation = codec.decode("annotation", body)
            examples = [
                codec.decode("case", case)
                for start, end, case in timeline.get(("case", annotation.id), ())
                if start < until and since < end
            ]
            for example in examples or [None]:
                if fields := finder.places(example, annotation):
                    places.setdefault(FeedbackKey.parse(key), {}).update(dict.fromkeys(fields))
    return {key: tuple(fields) for key, fields in places.items()}


def _ids(selector: str | FeedbackKey) -> set[str]:
    """The ids of cases that a selector may mean; none for one person's feedback."""
    if isinstance(selector, FeedbackKey):
        return set()
    return {case for case, source in readings(selector) if source is None}


def _unnamed(guideline: Guideline, person: str | None) -> Guideline:
    """`guideline` without the name of somebody who pinned or retired it, and without the checks that they set."""
    if person is None:
        return guideline
    if guideline.checked_by == person:
        guideline = msgspec.structs.replace(guideline, checks=(), checked_by=None)
    names = {name: _ERASED for name in ("pinned_by", "retired_by") if getattr(guideline, name) == person}
    return msgspec.structs.replace(guideline, **names) if names else guideline


def _silent(memory: Memory, residue: Residue) -> Memory:
    """`memory` without a reason that names or repeats what was erased."""

    def silent(entry: T) -> T:
        return msgspec.structs.replace(entry, reason=_ERASED) if residue.in_sentence(entry.reason) else entry

    memory = memory.with_annotations(
        msgspec.structs.replace(annotation, outcome=silent(annotation.outcome))
        for annotation in memory.annotations()
        if annotation.outcome is not None and residue.in_sentence(annotation.outcome.reason)
    )
    return msgspec.structs.replace(memory, tombstones=tuple(map(silent, memory.tombstones)))


def _redacted(number: int, change: Change) -> RedactedVersion:
    kinds = [kind for (kind, _), (_, body) in change.items() if body is None]
    return RedactedVersion(
        number=number,
        comments=kinds.count("annotation"),
        cases=kinds.count("case"),
        guidelines=kinds.count("guideline"),
    )
