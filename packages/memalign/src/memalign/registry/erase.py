"""Erasing: out of every version and every table, without any model call.

Select what is named; forget it in each version, by the rules of an unalign; forget what repeats its words; write the
rows that differ; remember keyed hashes of it. `erase_check` then searches for what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, update

from memalign.align.annotations import without_disputed
from memalign.align.forget import forget
from memalign.errors import UnknownKey
from memalign.keys import readings, select_keys
from memalign.memory import FeedbackConflict, Memory
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erase_check import in_other_tables
from memalign.registry.erased_hashes import ErasedHashes, remember
from memalign.registry.judge_rows import Codec, Contents, memory_contents, memory_of
from memalign.registry.other_tables import other_tables
from memalign.registry.receipt import Receipt, RedactedVersion, in_words
from memalign.registry.residue import RUN, Residue, reason_of, row_names, strings, words_of
from memalign.registry.tables import rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Timeline, forget_answers
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
    keep: Collection[str] = ()

    def __str__(self) -> str:
        source = f" of source {self.source!r}" if self.source is not None else ""
        return f"{source}{' with this text' if self.text else ''}"  # and never the text: it is to be kept nowhere


def erase_feedback(database: Database, name: str, selectors: Selectors, *, dry_run: bool) -> tuple[Receipt, Residue]:
    """Erase in one transaction, or only say what would go; the receipt, and what to search for afterwards."""
    if dry_run:
        with database.read() as connection:
            plan = _Plan(connection, name, selectors)
        return replace(plan.receipt, latest=None, dry_run=True, unreachable=database.unreachable), plan.residue
    with database.write(name) as connection:
        plan = _Plan(connection, name, selectors)
        plan.carry_out()
    return plan.receipt, plan.residue


class _Plan:
    """What one erasure does: the receipt, and the rows that differ."""

    def __init__(self, connection: Connection, name: str, selectors: Selectors) -> None:
        self.connection, self.name, self.codec = connection, name, Codec()
        self.judge, self.latest = versions.find(connection, name)
        self.timeline = versions.timeline(connection, self.judge, self.latest)
        self.notes = {info.number: info.note for info in versions.history(connection, self.judge) if info.note}
        # Raises where tables of a package that is not installed could not be reached.
        self.passages = [
            passage for tables in other_tables(connection) for passage in tables.passages(connection, name)
        ]
        keys, cases = self._select(selectors)
        self.keys = frozenset(keys)
        # A text that is searched for among some feedback only may stay in other feedback, and a name in other words.
        everything = not selectors.keys and selectors.source is None
        named = Residue(
            keys=self.keys,
            searched=selectors.text if everything else None,
            person=selectors.source if not selectors.keys and selectors.text is None else None,
        )
        touched = self._versions_with(lambda kind, key, body: row_names(self.codec, named, kind, key, body))
        self._forget(touched, named)
        spoken = {passage.key for passage in self.passages if passage.source and passage.content is not None}
        # Cases go with the last word on them, in every version and table.
        alone = {key for kind, key, _ in self.gone if kind == "case"} - {key.id for key in spoken - self.keys}
        alone = {case for case in alone if ("case", case) not in self.rest and case not in selectors.keep}
        self.cases = frozenset(cases | alone)
        self.residue = self._residue(named)
        # Only now it is known which words go. A guideline that was not learned from them may repeat them, and so may
        # what memalign says of other feedback.
        copied = self._copies(named)
        if not (self.keys or self.cases or touched or copied or self._is_mentioned()):
            raise UnknownKey(f"no version and no table of {name!r} holds feedback{selectors}")
        repeating = self._versions_with(
            lambda kind, key, body: (
                (kind == "guideline" and key in copied) or self.residue.in_sentence(reason_of(self.codec, kind, body))
            )
        )
        if repeating:
            self._forget(touched | repeating, self.residue, copied)
        texts = (text for _, text in self._gone_words("guideline"))
        self.residue.add(texts, self._staying_words((*_WORDED, "guideline")))
        written = {key for kind, key, _ in self.gone if kind == "annotation"}
        written |= {key for kind, key in self.timeline if kind == "tombstone"}
        self.receipt = Receipt(
            judge=name,
            keys=tuple(key for key in sorted(self.keys) if str(key) in written or key in spoken),
            cases=tuple(sorted(self.cases)),
            guidelines=tuple(sorted({key for key, _ in self._gone_words("guideline")}, key=guideline_number)),
            copied=tuple(sorted(copied, key=guideline_number)),
            versions=tuple(self.redacted.values()),
            latest=None if self.memory is None else self.latest + 1,
            pending=tuple(sorted(annotation.key for annotation in self.memory.pending)) if self.memory else (),
        )

    def _select(self, selectors: Selectors) -> tuple[set[FeedbackKey], set[str]]:
        """Keys and cases that are named, with everything that anybody said of a case that goes. Raises UnknownKey."""
        keys = {FeedbackKey.parse(key) for kind, key in self.timeline if kind in ("annotation", "tombstone")}
        keys |= {passage.key for passage in self.passages if passage.source is not None}
        cases = {key for kind, key in self.timeline if kind == "case"}
        cases |= {passage.id for passage in self.passages if passage.source is None}
        every, source = frozenset(keys), selectors.source
        if source is not None:
            keys, cases = {key for key in keys if key.source == source}, set()
        if selectors.text is not None:
            holding_keys, holding_cases = self._holding(selectors.text)
            # What people said of a case goes with the case.
            keys, cases = {key for key in keys if key in holding_keys or key.id in holding_cases}, cases & holding_cases
        if selectors.keys:
            named = select_keys(sorted(keys), selectors.keys)
            ids: dict[str | FeedbackKey, set[str]] = {
                selector: {case for case, of in readings(selector) if of is None} & cases
                for selector in selectors.keys
                if isinstance(selector, str)
            }
            for selector in named:
                if not named[selector] and not ids.get(selector):
                    day = ErasedHashes(self.connection, self.judge).erased_on(selector)
                    hint = f"it was erased on {day}" if day else "`memalign show NAME --ledger` lists every key"
                    raise UnknownKey(f"nothing of {self.name!r} holds {str(selector)!r}{selectors}; {hint}")
            keys, cases = {key for some in named.values() for key in some}, set[str]().union(*ids.values())
        elif source is None and selectors.text is None:
            raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
        return keys | {key for key in every if key.id in cases}, cases

    def _holding(self, finder: Finder) -> tuple[set[FeedbackKey], set[str]]:
        keys = {FeedbackKey.parse(key) for kind, key in self.timeline if kind == "tombstone" and finder.holds(key)}
        cases = {passage.id for passage in self.passages if passage.source is None and passage.held_by(finder)}
        for kind, key, _, body in self._rows():
            if kind == "case":
                example = self.codec.decode(kind, body)
                if finder.holds(key) or finder.within([example.meta, *example.content.values()]):
                    cases.add(key)
            elif kind == "annotation" and finder.within((annotation := self.codec.decode(kind, body)).words):
                keys.add(annotation.key)
        keys |= {passage.key for passage in self.passages if passage.source is not None and passage.held_by(finder)}
        return keys, cases

    def _is_mentioned(self) -> bool:
        """Whether a note of a version, or a text of another table, repeats what is to go."""
        others = in_other_tables(self.connection, self.residue, self.name)
        noted = any(map(self.residue.in_sentence, self.notes.values()))
        return noted or any(judge in (None, self.name) for _, judge in others)

    def _rows(self) -> Iterator[tuple[str, str, range, bytes]]:
        for (kind, key), spans in self.timeline.items():
            yield from ((kind, key, range(since, until), body) for since, until, body in spans)

    def _versions_with(self, holds: Callable[[str, str, bytes], bool]) -> set[int]:
        """The versions with a row, of this kind, key and body, for which that holds."""
        return set[int]().union(*(span for kind, key, span, body in self._rows() if holds(kind, key, body)))

    def _forget(self, numbers: Collection[int], residue: Residue, copied: Collection[str] = ()) -> None:
        """What these versions lose, and the timeline after it. One at a time: all of them may be gigabytes."""
        self.redacted: dict[int, RedactedVersion] = {}
        self.counts: dict[int, dict[str, int]] = {}
        self.memory: Memory | None = None
        self.gone, self.rest = set[tuple[str, str, bytes]](), Timeline()
        for number in range(1, self.latest + 1):
            contents = {
                row: body
                for row, spans in self.timeline.items()
                for since, until, body in spans
                if since <= number < until
            }
            if number in numbers:
                memory = self._without(contents, residue, copied)
                survivors = {row: body for row, body in contents.items() if row[0] == "judge"}
                survivors |= memory_contents(memory, self.codec.encode)
                removed = contents.keys() - survivors.keys()
                self.gone |= {(*row, contents[row]) for row in removed}
                kinds = Counter(kind for kind, _ in removed)
                self.redacted[number] = RedactedVersion(
                    number=number, comments=kinds["annotation"], cases=kinds["case"], guidelines=kinds["guideline"]
                )
                self.counts[number] = versions.counts(memory)
                contents, self.memory = survivors, memory if number == self.latest else None
            for row, body in contents.items():
                spans = self.rest.setdefault(row, [])
                since = spans.pop()[0] if spans and spans[-1][1:] == (number, body) else number
                spans.append((since, number + 1, body))

    def _without(self, contents: Contents, residue: Residue, copied: Collection[str]) -> Memory:
        """The version's memory after forgetting, by the rules that an unalign follows, and without a tombstone."""
        person = residue.person
        memory = forget(memory_of(contents, self.codec.decode), self.keys, state="erased")
        memory = memory.without_guidelines([g.id for g in memory.guidelines if g.id in copied or g.origin == person])
        if person is not None:
            memory = _change(
                memory,
                guidelines=tuple(_unnamed(guideline, person) for guideline in memory.guidelines),
                conflicts=tuple(_unnamed(conflict, person) for conflict in memory.conflicts),
                authority=tuple(name for name in memory.authority if name != person),
            )
        memory = without_disputed(memory)
        silenced = [
            _change(annotation, outcome=_change(annotation.outcome, reason=_ERASED))
            for annotation in memory.annotations()
            if annotation.outcome is not None and residue.in_sentence(annotation.outcome.reason)
        ]
        stones = (
            _change(stone, reason=_ERASED) if residue.in_sentence(stone.reason) else stone
            for stone in memory.tombstones
            if stone.key not in self.keys
        )
        return _change(memory.with_annotations(silenced), tombstones=tuple(stones))

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
        texts = [text for _, text in self._gone_words("annotation", "case", "pre_alignment")]
        survivors = list[str]()
        for passage in self.passages:
            if passage.id in self.cases if passage.source is None else passage.key in named.keys:
                # A copy also has what its format brings along, such as the name of a model: only long texts tell.
                texts += (text for text in strings(passage.content) if not passage.copy or len(text.split()) >= RUN)
            elif not passage.copy:
                survivors += strings(passage.content)
        bodies = (body for kind, key, body in self.gone if kind == "case" and key in self.cases)
        contents = (self.codec.decode("case", body).content_hash for body in bodies)
        residue = Residue(
            keys=named.keys, cases=self.cases, contents=contents, searched=named.searched, person=named.person
        )
        residue.add(texts, chain(self._staying_words(_WORDED), survivors))
        return residue

    def _copies(self, named: Residue) -> frozenset[str]:
        return frozenset(
            key
            for kind, key, _, body in self._rows()
            if kind == "guideline"
            and any(map(self.residue.copied, words_of(self.codec, kind, body)))
            and not row_names(self.codec, named, kind, key, body)
        )

    def carry_out(self) -> None:
        """Write it, in a transaction in which nothing else of the judge changes."""
        connection, judge = self.connection, self.judge
        forget_answers(connection, judge)  # they may quote what goes
        self._write_rows()
        changed: dict[int, dict[str, Any]] = {n: {"memory_hash": "", **counts} for n, counts in self.counts.items()}
        for number, note in self.notes.items():
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
        bodies = (body for (kind, _), spans in self.rest.items() if kind == "case" for _, _, body in spans)
        staying = (self.codec.decode("case", body).content_hash for body in bodies)
        remember(connection, judge, keys=self.keys, contents=self.residue.contents.difference(staying))
        for tables in other_tables(connection):
            tables.forget(connection, self.receipt, self.residue)

    def _write_rows(self) -> None:
        new = list[dict[str, object]]()
        for row in sorted(self.timeline.keys() | self.rest.keys()):
            kind, key, spans = *row, self.rest.get(row, [])
            if spans == self.timeline.get(row):
                continue
            same = (rows.c.judge == self.judge, rows.c.kind == kind, rows.c.key == key)
            self.connection.execute(delete(rows).where(*same))
            for since, until, body in spans:
                last = None if until == self.latest + 1 else until
                new.append({"judge": self.judge, "kind": kind, "key": key, "since": since, "until": last, "body": body})
        if new:
            self.connection.execute(insert(rows), new)


def _unnamed(entry: T, person: str) -> T:
    """Return a guideline or conflict without the name of somebody."""
    names = [name for name in ("pinned_by", "retired_by", "dismissed_by") if getattr(entry, name, None) == person]
    return _change(entry, **dict.fromkeys(names, _ERASED))
