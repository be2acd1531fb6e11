"""Erasing: out of every version and every table, without any model call.

A plan is made by pure functions over everything that a registry holds of a judge. `select` says
which feedback and cases are named, `forget` what each version loses by the rules of an unalign, and
`sought` which words are to be nowhere afterwards. `write` writes the rows that differ and remembers
keyed hashes. Then `erase_check` searches what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import filterfalse
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, update

from memalign.content.walk import texts_in
from memalign.errors import InputError, UnknownKey
from memalign.keys import readings, same_person, select_keys
from memalign.memory import Case, Memory
from memalign.memory.forget import forget as forget_feedback
from memalign.memory.forget import without_disputed
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erase_check import in_other_tables
from memalign.registry.erase_reach import reach_of, says
from memalign.registry.erased_hashes import ErasedHashes, wordings_of
from memalign.registry.judge_rows import (
    Codec,
    Contents,
    RowKey,
    memory_contents,
    memory_of,
    named_damage,
)
from memalign.registry.kinds import KINDS, LESSONS, NAMES, SENTENCES, Held
from memalign.registry.other_tables import Passage, other_tables
from memalign.registry.receipt import Receipt, RedactedVersion, in_words
from memalign.registry.residue import RUN, Residue, Said
from memalign.registry.tables import ROW, VERSION, rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Head, Timeline, VersionInfo
from memalign.types import FeedbackKey

__all__ = [
    "Plan",
    "Selection",
    "erase_feedback",
    "forget",
    "plan_erasure",
    "select",
    "sought",
]

_change = msgspec.structs.replace
_ERASED = "(erased)"
_EMBEDDING = ("memory", "embedding_model")
Entry = TypeVar("Entry", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Something that is to be erased; where several fields say what, all of them must hold.

    Attributes:
        keys: Ids (a case and all that was said of it) or keys (what one person said), or one of
            them.
        source: All that one person said. If nothing else is given, the name goes everywhere too.
        matching: All that holds a text, in whatever case and spelling. If nothing else is given,
            no guideline and no note may hold it afterwards either.

    Raises:
        InputError: One of them is neither a text nor a key.
    """

    keys: str | FeedbackKey | Collection[str | FeedbackKey] = ()
    source: str | None = None
    matching: str | None = None

    def __post_init__(self) -> None:
        # A key alone is a collection too: of letters, or of an id and a person.
        keys = self.keys
        if isinstance(keys, str | FeedbackKey):
            keys = (keys,)
        object.__setattr__(self, "keys", tuple(keys))
        parts: list[object] = [*self.keys]
        parts += [one for one in (self.source, self.matching) if one is not None]
        for part in parts:
            if not isinstance(part, str | FeedbackKey):
                kind = type(part).__name__
                raise InputError(
                    f"what to erase is named by text or key, not by {kind}"
                )

    def __str__(self) -> str:
        """Return the end of a message, never with the text: it is to be kept nowhere."""
        source = "" if self.source is None else f" of source {self.source!r}"
        text = "" if self.matching is None else " with this text"
        return source + text

    @cached_property
    def finder(self) -> Finder | None:
        """Find the text. Raises InputError if it holds nothing."""
        if self.matching is None:
            return None
        return Finder(self.matching)

    @property
    def given(self) -> int:
        """Return how many fields say what goes.

        If it is one, its text or its name may be nowhere afterwards. A text that is looked for
        among some feedback only may stay in other feedback, and a name in other words.
        """
        given = (bool(self.keys), self.source is not None, self.matching is not None)
        return sum(given)


@dataclass(frozen=True, kw_only=True)
class History:
    """Everything that a registry holds of one judge, in its own tables and in other packages'.

    Attributes:
        name: The judge's name.
        head: Its place in its history.
        timeline: Every row, with its versions.
        infos: What history says of each version.
        passages: What other packages' tables hold of its cases.
        erased: What was erased from it before.
        codec: Decodes bodies, each once.
    """

    name: str
    head: Head
    timeline: Timeline
    infos: tuple[VersionInfo, ...]
    passages: tuple[Passage, ...]
    erased: ErasedHashes
    codec: Codec

    @cached_property
    def values(self) -> tuple[Held, ...]:
        """Every value that its rows ever held."""
        return self.held(self.timeline)

    def held(self, timeline: Timeline) -> tuple[Held, ...]:
        """Return every value of some rows."""
        return tuple(versions.held_in(timeline, self.codec.decode))

    @cached_property
    def everything(self) -> tuple[Passage, ...]:
        """Every case, and everything that somebody said of one."""
        found = []
        for one in self.values:
            if one.kind.about is None:
                continue
            case, source = one.kind.about(one.value)
            passage = Passage(
                id=case,
                source=source,
                content=list(one.kind.texts(one.value)),
                labels=getattr(one.value, "value", None),
            )
            found.append(passage)
        return (*found, *self.passages)

    @cached_property
    def keys(self) -> frozenset[FeedbackKey]:
        """The key of everything that somebody said."""
        said = (one for one in self.everything if one.source is not None)
        return frozenset(passage.key for passage in said)

    def keys_on(self, cases: Collection[str]) -> set[FeedbackKey]:
        """Return the keys of all that was said of these cases."""
        return {key for key in self.keys if key.id in cases}


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What the versions of a judge lose, and the timeline after it.

    Attributes:
        versions: What each version loses, by number.
        sizes: What history says afterwards of the size of each.
        gone: Every value that goes from a version.
        stays: Every value that stays in one.
        rest: The timeline of what stays.
    """

    versions: Mapping[int, RedactedVersion]
    sizes: Mapping[int, Mapping[str, int]]
    gone: tuple[Held, ...]
    stays: tuple[Held, ...]
    rest: Timeline


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one erasure does: the rows that differ, what to search for afterwards, and the receipt.

    Attributes:
        history: What it was made of.
        forgotten: What the versions lose.
        residue: What is to be nowhere afterwards.
        memory: The newest version's memory afterwards; None if it loses nothing.
        receipt: What it comes to.
    """

    history: History
    forgotten: Forgotten
    residue: Residue
    memory: Memory | None
    receipt: Receipt


def erase_feedback(
    database: Database,
    name: str,
    selections: Sequence[Selection],
    keep: Collection[str] = (),
    *,
    dry_run: bool,
) -> Plan:
    """Erase in one transaction, or only say what would go.

    The plan is made before the locks are taken, so that others read and write meanwhile. If the
    judge or what is said of its cases has changed by then, it is made again under the locks.

    Args:
        database: The registry's.
        name: The judge.
        selections: What is to go.
        keep: Ids of cases that stay in other packages' tables, although nobody says anything of
            them any more.
        dry_run: Whether nothing is written.

    Returns:
        What was done, or would be.

    Raises:
        UnknownKey: Nothing is there that these name.
    """
    with database.snapshot() as connection:
        plan = plan_erasure(connection, name, selections, keep)
    if dry_run:
        return plan
    # The lock without a name is that of other packages' tables, which change too.
    with database.write("", name) as connection:
        if not _is_current(connection, plan, selections):
            plan = plan_erasure(connection, name, selections, keep)
        write(connection, plan)
    return plan


def plan_erasure(
    connection: Connection,
    name: str,
    selections: Sequence[Selection],
    keep: Collection[str] = (),
) -> Plan:
    """Work out an erasure without writing anything.

    Args:
        connection: A transaction, of a copy if that is at hand.
        name: The judge.
        selections: What is to go.
        keep: As for `erase_feedback`.

    Raises:
        UnknownKey: Nothing is there that these name.
    """
    if not any(selection.given for selection in selections):
        raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
    with named_damage(f"the judge {name!r}"):
        history = _read(connection, name)
        named = select(history, selections)
        forgotten = forget(history, named)
        residue = sought(history, forgotten, named, keep)
        # Only now it is known which words go. A guideline that was not learned from them may repeat
        # them, and so may what memalign or a model says of other feedback.
        copied = _copies(forgotten, residue)
        if copied or any(says(one, residue) for one in forgotten.stays):
            forgotten = forget(history, residue, copied)
        known = named.keys or residue.cases or forgotten.versions
        if not known and not _is_mentioned(connection, history, residue):
            raise _unknown(history, selections, named)
        residue = sought(history, forgotten, named, keep, lessons=True)
        latest = history.head.latest
        memory = None
        if latest in forgotten.versions:
            contents = _at(forgotten.rest, latest)
            memory = memory_of(contents, history.codec.decode)
        return Plan(
            history=history,
            forgotten=forgotten,
            residue=residue,
            memory=memory,
            receipt=_receipt(history, forgotten, residue, copied, memory),
        )


def _unknown(
    history: History, selections: Sequence[Selection], named: Residue
) -> UnknownKey:
    """Return the error that nothing is there; it says when that was erased before."""
    for selection in selections:
        for selector in selection.keys:
            return _nothing_of(history, selection, selector)
    what = " or".join(filter(None, map(str, selections)))
    when = ""
    for person in named.people:
        day = history.erased.person_erased_on(person)
        if day is not None:
            when = f"; it was erased on {day}"
    return UnknownKey(
        f"no version and no table of {history.name!r} holds feedback{what}{when}"
    )


# -- what is there ---------------------------------------------------------------------------------


def _read(connection: Connection, name: str) -> History:
    head = versions.find(connection, name)
    return History(
        name=name,
        head=head,
        timeline=versions.timeline(connection, head.judge, head.latest),
        infos=versions.history(connection, head.judge),
        # Raises where tables of a package that is not installed could not be reached.
        passages=_passages(connection, name),
        erased=ErasedHashes(connection, head.judge),
        codec=Codec(),
    )


def _passages(connection: Connection, name: str) -> tuple[Passage, ...]:
    found: list[Passage] = []
    for tables in other_tables(connection):
        found.extend(tables.passages(connection, name))
    return tuple(found)


def _is_current(
    connection: Connection, plan: Plan, selections: Sequence[Selection]
) -> bool:
    """Return whether a plan is still right.

    What was said since must concern nothing that goes; then the plan spares it.
    """
    history = plan.history
    residue = plan.residue
    if versions.find(connection, history.name) != history.head:
        return False
    before = {repr(passage): passage for passage in history.passages}
    now = {repr(passage): passage for passage in _passages(connection, history.name)}
    for written in before.keys() ^ now.keys():
        passage = now.get(written) or before[written]
        named = any(_may_name(selection, passage) for selection in selections)
        if named or passage.id in residue.touched:
            return False
    for written in now.keys() - before.keys():
        residue.spare(texts_in(now[written].content))
    return True


def _may_name(selection: Selection, passage: Passage) -> bool:
    """Return whether a person or a text of a selection is in a passage."""
    if same_person(passage.source, selection.source):
        return True
    finder = selection.finder
    return finder is not None and passage.held_by(finder)


# -- select ----------------------------------------------------------------------------------------


class _Taken(NamedTuple):
    """What one selection takes: keys, ids of cases, and what stays of what the keys said."""

    keys: set[FeedbackKey]
    cases: set[str]
    spared: set[Said]

    def takes(self, said: Said) -> bool:
        return said[0] in self.keys and said not in self.spared


def select(history: History, selections: Sequence[Selection]) -> Residue:
    """Return the keys, cases, texts and people that are to go, and all that was said of a case.

    Args:
        history: What the registry holds of the judge.
        selections: What is to go. Each key of the first names something; of the others, one that
            does not is passed over.

    Raises:
        UnknownKey: The first has a key that names nothing.
    """
    given = [selection for selection in selections if selection.given]
    chosen = []
    cases: set[str] = set()
    for selection in given:
        strictly = selection is selections[0]
        named, ids = _named_by(history, selection, strictly=strictly)
        chosen.append((selection, named, ids))
        cases |= ids
    contents = _only_in(history, cases)
    taken = [_taken(history, contents, *one) for one in chosen]
    keys: set[FeedbackKey] = set()
    spared: set[Said] = set()
    for one in taken:
        keys |= one.keys
        spared |= one.spared
    # What one selection spares another may take.
    for one in taken:
        spared = set(filterfalse(one.takes, spared))
    alone = [selection for selection in given if selection.given == 1]
    return Residue(
        keys=keys,
        spared=spared,
        cases=cases,
        finders=[one.finder for one in alone if one.finder is not None],
        people=[one.source for one in alone if one.source],
    )


def _named_by(
    history: History, selection: Selection, *, strictly: bool
) -> tuple[set[FeedbackKey], set[str]]:
    """Return the keys and the ids of cases that a selection names.

    What people said of a case goes with the case. Raises UnknownKey, if that is asked for, for a
    key that names nothing.
    """
    passages = history.everything
    finder = selection.finder
    if finder is not None:
        passages = tuple(one for one in passages if one.held_by(finder))
    keys = {one.key for one in passages if one.source is not None}
    cases = {one.id for one in passages if one.source is None}
    keys |= history.keys_on(cases)
    source = selection.source
    if source is not None:
        keys = {key for key in keys if same_person(key.source, source)}
        cases = set()
    if not selection.keys:
        return keys, cases
    named: set[FeedbackKey] = set()
    ids: set[str] = set()
    for selector, found in select_keys(sorted(keys), selection.keys).items():
        meant = _ids_meant(selector) & cases
        if strictly and not found and not meant:
            raise _nothing_of(history, selection, selector)
        named.update(found)
        ids |= meant
    return named | history.keys_on(ids), ids


def _ids_meant(selector: str | FeedbackKey) -> set[str]:
    """Return the ids of cases that a selector may mean; a key means none."""
    if isinstance(selector, FeedbackKey):
        return set()
    return {case for case, source in readings(selector) if source is None}


def _nothing_of(
    history: History, selection: Selection, selector: str | FeedbackKey
) -> UnknownKey:
    """Return the error that a selector names nothing; it says when that was erased before."""
    hint = "`memalign show NAME --ledger` (in Python: ledger(name)) lists every key"
    day = history.erased.erased_on(selector)
    if day is not None:
        hint = f"it was erased on {day}"
    return UnknownKey(
        f"nothing of {history.name!r} holds {str(selector)!r}{selection}; {hint}"
    )


def _only_in(history: History, cases: Collection[str]) -> set[str]:
    """Return the hashes of contents of these cases in other tables that no other case has."""
    queued = [one for one in history.passages if one.source is None and one.about]
    going = {one.about for one in queued if one.id in cases}
    staying = {one.about for one in queued if one.id not in cases}
    if not going:
        return going
    for value in history.values:
        if value.name == "case" and value.key not in cases:
            staying.add(value.value.content_hash)
    return going - staying


def _taken(
    history: History,
    contents: Collection[str],
    selection: Selection,
    keys: set[FeedbackKey],
    cases: set[str],
) -> _Taken:
    """Return what a selection takes of keys and cases that it names.

    A text, or the content of a case that goes, takes only what was said with it or of it.
    """
    said = [one for one in history.passages if one.source is not None and not one.copy]
    hits = {one.said for one in said if one.about in contents}
    whole = keys
    finder = selection.finder
    if selection.given == 1 and finder is not None:
        whole = history.keys_on(cases)
        hits.update(one.said for one in said if one.held_by(finder))
    partly = {key for key, _ in hits} - whole
    spared = {one.said for one in said if one.key in partly} - hits
    return _Taken(keys | partly, cases, spared)


# -- forget ----------------------------------------------------------------------------------------


def forget(
    history: History, residue: Residue, copied: Collection[RowKey] = ()
) -> Forgotten:
    """Return what every version loses.

    Only what the erasure may touch is read and written again, version by version: the rest is the
    same in all of them.

    Args:
        history: What the registry holds of the judge.
        residue: What is to go.
        copied: Rows that go because they repeat it.
    """
    reach = reach_of(history.values, residue, copied)
    rest: Timeline = {}
    reached: Timeline = {}
    for row, spans in history.timeline.items():
        if reach.has(row):
            reached[row] = spans
        else:
            rest[row] = spans
    models = {_EMBEDDING: reached.pop(_EMBEDDING)}
    lost = {}
    sizes = {}
    gone: Timeline = {}
    part = _Part({}, {}, Counter())
    for info in history.infos:
        number = info.number
        contents = _at(reached, number)
        if part.contents != contents:  # most versions differ elsewhere
            part = _part_without(history.codec, contents, residue, copied)
        model = _at(models, number)
        if part.kept != contents:
            removed = part.removed
            _extend(gone, number, removed)
            lost[number] = _lost(number, removed)
            sizes[number] = part.sizes(info)
            if not sizes[number]["cases"]:
                model = {_EMBEDDING: b"null"}  # without a case there is no vector
        _extend(rest, number, part.kept)
        _extend(rest, number, model)
    return Forgotten(
        versions=lost,
        sizes=sizes,
        gone=history.held(gone),
        stays=history.held(rest),
        rest=rest,
    )


class _Part(NamedTuple):
    """What erasing makes of those rows of a version that it may touch."""

    contents: Contents
    kept: Contents
    change: Counter[str]

    @property
    def removed(self) -> Contents:
        """The rows that go."""
        gone = self.contents.keys() - self.kept.keys()
        return {row: self.contents[row] for row in gone}

    def sizes(self, info: VersionInfo) -> dict[str, int]:
        """Return the sizes of a version afterwards."""
        sizes = versions.sizes_of(info)
        for name in sizes:
            sizes[name] += self.change[name]
        return sizes


def _part_without(
    codec: Codec, contents: Contents, residue: Residue, copied: Collection[RowKey]
) -> _Part:
    before = memory_of(contents, codec.decode)
    after = _without(before, residue, copied)
    kept = _kept(codec, contents, after)
    change = Counter[str]()
    if kept == contents:
        return _Part(contents, kept, change)
    # A label may count no longer, and with it what was learned from it.
    settled = without_disputed(after)
    if settled is not after:
        after = settled
        kept = _kept(codec, contents, after)
    change.update(versions.sizes(after))
    change.subtract(versions.sizes(before))
    return _Part(contents, kept, change)


def _kept(codec: Codec, contents: Contents, memory: Memory) -> Contents:
    """Return what a memory keeps of its rows."""
    kept = memory_contents(memory, codec.encode)
    for row in kept.keys() - contents.keys():
        del kept[row]
    return kept


def _lost(number: int, removed: Iterable[RowKey]) -> RedactedVersion:
    lost = Counter[str]()
    for name, _ in removed:
        noun = KINDS[name].noun
        if noun:
            lost[f"{noun}s"] += 1
    return RedactedVersion(number=number, **lost)


def _at(timeline: Timeline, number: int) -> Contents:
    """Return what these rows hold in one version."""
    contents = {}
    for row, spans in timeline.items():
        for since, until, body in spans:
            if since <= number < until:
                contents[row] = body
    return contents


def _extend(timeline: Timeline, number: int, contents: Contents) -> None:
    """Add the rows of the next version to a timeline."""
    for row, body in contents.items():
        spans = timeline.setdefault(row, [])
        since = number
        if spans and spans[-1][1:] == (number, body):
            since, _, _ = spans.pop()
        spans.append((since, number + 1, body))


def _without(memory: Memory, residue: Residue, copied: Collection[RowKey]) -> Memory:
    """Return a version's memory after forgetting, without a tombstone.

    It follows the rules of an unalign.

    Unlike an unalign, it takes wordings of people with it that were written with the erased
    feedback in view.
    """
    memory = forget_feedback(memory, residue.keys, state="erased", people_agree=True)
    cases = [_case_without(case, residue) for case in memory.cases]
    authority = filterfalse(residue.is_name, memory.authority)
    memory = _change(memory, cases=tuple(cases), authority=tuple(authority))
    for name, kind in KINDS.items():
        if kind.collection is None:
            continue
        gone = set()
        entries = []
        for entry in getattr(memory, kind.collection):
            key = kind.key(entry)
            theirs = residue.is_name(kind.author(entry))
            if theirs or (name, key) in copied or residue.concerns(kind.keys(entry)):
                gone.add(key)
            else:
                entries.append(_cleaned(entry, residue))
        memory = _change(memory, **{kind.collection: tuple(entries)})
        if gone:  # those that they had replaced are active again
            memory = memory.without_guidelines(gone)
    return memory


def _case_without(case: Case, residue: Residue) -> Case:
    """Return a case without reasons and verdicts that repeat what goes."""
    annotations = []
    for annotation in case.annotations:
        before = annotation.outcome
        outcome = before and _cleaned(before, residue)
        if outcome is before:
            annotations.append(annotation)
        else:
            annotations.append(_change(annotation, outcome=outcome))
    verdict = case.pre_alignment
    if verdict is not None and residue.certain(verdict.rationale or ""):
        verdict = _change(verdict, rationale=None)
    return _change(case, annotations=tuple(annotations), pre_alignment=verdict)


def _cleaned(entry: Entry, residue: Residue) -> Entry:
    """Return an entry without names of people who go and sentences that repeat what goes."""
    changes: dict[str, Any] = {}
    for name in NAMES:
        if residue.is_name(getattr(entry, name, None)):
            changes[name] = _ERASED
    for name in SENTENCES:
        if residue.in_sentence(getattr(entry, name, None) or ""):
            changes[name] = _ERASED
    if not changes:
        return entry
    return _change(entry, **changes)


# -- what to search for ----------------------------------------------------------------------------


def sought(
    history: History,
    forgotten: Forgotten,
    named: Residue,
    keep: Collection[str] = (),
    *,
    lessons: bool = False,
) -> Residue:
    """Return what is to be nowhere once this is forgotten.

    Cases go with the last word on them, in all tables.

    Args:
        history: What the registry holds of the judge.
        forgotten: What its versions lose.
        named: The keys, the cases, the texts and the people that are to go.
        keep: Ids of cases that stay in other packages' tables.
        lessons: Whether the words of guidelines that go are searched for too.
    """
    going = _going(history, forgotten, named, keep)
    erased = {"said"}
    if lessons:
        erased.add("learned")
    texts = list(_texts(forgotten.gone, erased))
    survivors = list(_texts(forgotten.stays, {"kept", *erased}))
    for passage in history.passages:
        if _goes(passage, going, named):
            texts.extend(_words_of(passage))
        elif not passage.copy:
            survivors.extend(texts_in(passage.content))
    return Residue(
        texts,
        survivors=survivors,
        keys=named.keys,
        spared=named.spared,
        cases=going,
        contents=_contents(one for one in forgotten.gone if one.key in going),
        finders=named.finders,
        people=named.people,
    )


def _going(
    history: History, forgotten: Forgotten, named: Residue, keep: Collection[str]
) -> set[str]:
    """Return the ids of cases that are named, and of those that lose the last word on them."""
    spoken = set(keep)
    for passage in history.passages:
        if _says(passage) and not named.takes(passage.said):
            spoken.add(passage.id)
    going = set(named.cases)
    for kind, key, _ in forgotten.gone:
        left = (kind, key) in forgotten.rest
        if kind == "case" and not left and key not in spoken:
            going.add(key)
    return going


def _goes(passage: Passage, cases: Collection[str], named: Residue) -> bool:
    if passage.source is None:
        return passage.id in cases
    return named.takes(passage.said)


def _texts(values: Iterable[Held], roles: Collection[str]) -> Iterator[str]:
    """Yield what people and judged systems wrote in values of these roles."""
    for one in values:
        if one.kind.role in roles:
            yield from one.kind.fields(one.value)


def _contents(values: Iterable[Held]) -> set[str]:
    """Return the hashes of what the cases among values hold."""
    return {one.value.content_hash for one in values if one.name == "case"}


def _words_of(passage: Passage) -> Iterator[str]:
    """Yield the words of a passage that goes.

    A copy also has what its format brings along, such as the name of a model: only long texts tell.
    """
    for text in texts_in(passage.content):
        if not passage.copy or len(text.split()) >= RUN:
            yield text


def _says(passage: Passage) -> bool:
    """Return whether somebody's words, or a verdict, are in a passage."""
    return passage.source is not None and passage.content is not None


def _copies(forgotten: Forgotten, residue: Residue) -> frozenset[RowKey]:
    """Return the rows that were not learned from what goes, and repeat it."""
    found = set()
    for one in forgotten.stays:
        if one.name not in LESSONS:
            continue
        words = one.kind.fields(one.value)
        if any(map(residue.copied, words)):
            found.add((one.name, one.key))
    return frozenset(found)


def _is_mentioned(connection: Connection, history: History, residue: Residue) -> bool:
    """Return whether a note of a version, or a text of another table, repeats what is to go."""
    for info in history.infos:
        if residue.in_sentence(info.note or ""):
            return True
    own = (None, history.name)
    traces = in_other_tables(connection, residue, history.name)
    return any(trace.judge in own for trace in traces)


def _receipt(
    history: History,
    forgotten: Forgotten,
    residue: Residue,
    copied: Collection[RowKey],
    memory: Memory | None,
) -> Receipt:
    said = {passage.key for passage in history.everything if _says(passage)}
    lessons = [one for one in forgotten.gone if one.name in LESSONS]
    went: dict[str, Any] = {}
    for name, kind in LESSONS.items():
        went[kind.field] = _ids(one for one in lessons if one.name == name)
    latest = None
    locked: list[str] = []
    pending: list[FeedbackKey] = []
    if memory is not None:
        latest = history.head.latest + 1
        pending = sorted(annotation.key for annotation in memory.pending)
        *_, (_, _, body) = history.timeline["memory", "locks"]
        before = history.codec.decode("memory", body)
        locked = sorted(set(before).difference(memory.locks))
    return Receipt(
        judge=history.name,
        keys=tuple(sorted(residue.keys & said)),
        cases=tuple(sorted(residue.cases)),
        copied=_ids(one for one in lessons if one[:2] in copied),
        wordings=_ids(one for one in lessons if one.kind.people(one.value)),
        locked=tuple(locked),
        versions=tuple(forgotten.versions.values()),
        latest=latest,
        pending=tuple(pending),
        **went,
    )


def _ids(values: Iterable[Held]) -> tuple[str, ...]:
    """Return the keys of values, each once, in their order."""
    ordered = sorted(values, key=lambda one: one.kind.order(one.value))
    return tuple(dict.fromkeys(one.key for one in ordered))


# -- write -----------------------------------------------------------------------------------------


def write(connection: Connection, plan: Plan) -> None:
    """Write a plan, in a transaction in which nothing else of the judge changes.

    Args:
        connection: The transaction.
        plan: What `plan_erasure` returned.
    """
    residue = plan.residue
    forgotten = plan.forgotten
    judge = plan.history.head.judge
    versions.forget_answers(connection, judge)  # they may quote what goes
    _write_rows(connection, plan)
    _write_versions(connection, plan)
    plan.history.erased.remember(
        connection,
        judge,
        residue,
        contents=residue.contents - _contents(forgotten.stays),
        wordings=wordings_of(forgotten.gone) - wordings_of(forgotten.stays),
    )
    for tables in other_tables(connection):
        tables.forget(connection, plan.receipt, residue)


def _write_rows(connection: Connection, plan: Plan) -> None:
    head = plan.history.head
    before = plan.history.timeline
    after = plan.forgotten.rest
    new: list[dict[str, Any]] = []
    for row, old_spans in before.items():
        spans = after.get(row, [])
        if spans == old_spans:
            continue
        kind, key = row
        old = delete(rows).where(
            ROW.judge == head.judge,
            ROW.kind == kind,
            ROW.key == key,
        )
        connection.execute(old)
        for since, until, body in spans:
            values = {
                "judge": head.judge,
                "kind": kind,
                "key": key,
                "since": since,
                "until": None if until == head.latest + 1 else until,
                "body": body,
            }
            new.append(values)
    if new:
        connection.execute(insert(rows), new)


def _write_versions(connection: Connection, plan: Plan) -> None:
    head = plan.history.head
    for info in plan.history.infos:
        values: dict[str, Any] = {}
        if info.number in plan.forgotten.sizes:
            values = {"memory_hash": "", **plan.forgotten.sizes[info.number]}
        if plan.residue.in_sentence(info.note or ""):
            values["note"] = _ERASED
        if values:
            change = update(versions_table).where(
                VERSION.judge == head.judge,
                VERSION.number == info.number,
            )
            connection.execute(change.values(redacted=True, **values))
    if plan.memory is None:
        return
    said = in_words({"comment": len(plan.residue.keys)})
    # Its rows are those of the version before, which has just lost the same; only the number is
    # new.
    versions.add_version(
        connection,
        head.judge,
        parent=head.latest,
        before={},
        after={},
        memory=plan.memory,
        action="erase",
        line=f"{said} erased from all versions",
    )
