"""Erasing: out of every version and every table, without any model call.

A plan is made by pure functions over everything that a registry holds of a judge. `select` says
which feedback and cases are named, `forget` what each version loses by the rules of an unalign, and
`sought` which words are to be nowhere afterwards. `write` writes the rows that differ and remembers
keyed hashes. Then `erase_check` searches what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, update

from memalign.content.walk import texts_in
from memalign.errors import UnknownKey
from memalign.keys import readings, same_person, select_keys
from memalign.memory import Case, Memory
from memalign.memory.forget import forget as forget_feedback
from memalign.memory.forget import without_disputed
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erase_check import in_other_tables
from memalign.registry.erase_reach import reach_of, says
from memalign.registry.erased_hashes import ErasedHashes, remember, wordings_of
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
from memalign.registry.residue import RUN, Residue
from memalign.registry.tables import rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Head, Timeline
from memalign.types import FeedbackKey

__all__ = [
    "Plan",
    "Selectors",
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
Said = tuple[FeedbackKey, str]
"""Whose words on which case, with the hash of the content that they are about."""


class Selectors(NamedTuple):
    """What is to go: ids and keys, a person, a text; of several, all must hold.

    See `Registry.erase`.

    `keep` are ids of cases that stay in other packages' tables, although nobody says anything of
    them any more.
    """

    keys: tuple[str | FeedbackKey, ...]
    source: str | None
    text: Finder | None
    keep: Collection[str] = ()

    def __str__(self) -> str:
        """Return the end of a message, never with the text: it is to be kept nowhere."""
        parts = ""
        if self.source is not None:
            parts += f" of source {self.source!r}"
        if self.text is not None:
            parts += " with this text"
        return parts


@dataclass(frozen=True, kw_only=True)
class History:
    """Everything that a registry holds of one judge, in its own tables and in other packages'.

    Attributes:
        name: The judge's name.
        head: Its place in its history.
        timeline: Every row, with its versions.
        notes: The notes of versions, by number.
        sizes: How many cases, comments and guidelines history says that each version has, by
            number.
        passages: What other packages' tables hold of its cases.
        erased: What was erased from it before.
        codec: Decodes bodies, each once.
    """

    name: str
    head: Head
    timeline: Timeline
    notes: Mapping[int, str]
    sizes: Mapping[int, Mapping[str, int]]
    passages: tuple[Passage, ...]
    erased: ErasedHashes
    codec: Codec

    @cached_property
    def values(self) -> tuple[Held, ...]:
        """Every value that its rows ever held."""
        return tuple(versions.held_in(self.timeline, self.codec.decode))

    def everything(self) -> Iterator[Passage]:
        """Yield every case, and everything that somebody said of one."""
        for one in self.values:
            if one.kind.about is None:
                continue
            case, source = one.kind.about(one.value)
            yield Passage(
                id=case,
                source=source,
                content=list(one.kind.texts(one.value)),
                labels=getattr(one.value, "value", None),
            )
        yield from self.passages


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
    database: Database, name: str, selectors: Selectors, *, dry_run: bool
) -> Plan:
    """Erase in one transaction, or only say what would go.

    The plan is made before the lock is taken, so that others read and write meanwhile. If the judge
    or what is said of its cases has changed by then, it is made again under the lock.

    Args:
        database: The registry's.
        name: The judge.
        selectors: What is to go.
        dry_run: Whether nothing is written.

    Returns:
        What was done, or would be.

    Raises:
        UnknownKey: Nothing is there that these name.
    """
    with database.snapshot() as connection:
        plan = plan_erasure(connection, name, selectors)
    if dry_run:
        receipt = replace(
            plan.receipt, latest=None, dry_run=True, unreachable=database.unreachable
        )
        return replace(plan, receipt=receipt)
    with database.write(name) as connection:
        if not _is_current(connection, plan, selectors):
            plan = plan_erasure(connection, name, selectors)
        write(connection, plan)
    return plan


def plan_erasure(connection: Connection, name: str, selectors: Selectors) -> Plan:
    """Work out an erasure without writing anything.

    Args:
        connection: A transaction, of a copy if that is at hand.
        name: The judge.
        selectors: What is to go.

    Raises:
        UnknownKey: Nothing is there that these name.
    """
    with named_damage(f"the judge {name!r}"):
        return _plan(connection, _read(connection, name), selectors)


def _plan(connection: Connection, history: History, selectors: Selectors) -> Plan:
    selected = select(history, selectors)
    keys = selected.keys
    cases = selected.cases
    named = _named_residue(selectors, selected)
    forgotten = forget(history, named)
    residue = sought(history, forgotten, named, cases, keep=selectors.keep)
    # Only now it is known which words go. A guideline that was not learned from them may repeat
    # them, and so may what memalign or a model says of other feedback.
    copied = _copies(forgotten, residue)
    if copied or any(says(one, residue) for one in forgotten.stays):
        forgotten = forget(history, residue, copied)
    known = keys or residue.cases or forgotten.versions
    if not known and not _is_mentioned(connection, history, residue):
        when = _when(history, selectors)
        raise UnknownKey(
            f"no version and no table of {history.name!r} holds feedback{selectors}{when}"
        )
    residue = sought(
        history, forgotten, named, cases, keep=selectors.keep, lessons=True
    )
    latest = history.head.latest
    memory = None
    if latest in forgotten.versions:
        memory = memory_of(_at(forgotten.rest, latest), history.codec.decode)
    receipt = _receipt(history, forgotten, residue, copied, memory)
    return Plan(
        history=history,
        forgotten=forgotten,
        residue=residue,
        memory=memory,
        receipt=receipt,
    )


def _named_residue(selectors: Selectors, selected: Selected) -> Residue:
    """Return the keys that go, and the text and the name that may be nowhere afterwards.

    A text that is searched for among some feedback only may stay in other feedback, and a name in
    other words.
    """
    searched = selectors.text
    person = selectors.source
    if selectors.keys or selectors.source is not None:
        searched = None
    if selectors.keys or selectors.text is not None:
        person = None
    return Residue(
        keys=selected.keys, spared=selected.spared, searched=searched, person=person
    )


# -- what is there ---------------------------------------------------------------------------------


def _read(connection: Connection, name: str) -> History:
    head = versions.find(connection, name)
    notes = {}
    sizes = {}
    for info in versions.history(connection, head.judge):
        sizes[info.number] = versions.sizes_of(info)
        if info.note:
            notes[info.number] = info.note
    return History(
        name=name,
        head=head,
        timeline=versions.timeline(connection, head.judge, head.latest),
        notes=notes,
        sizes=sizes,
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


def _is_current(connection: Connection, plan: Plan, selectors: Selectors) -> bool:
    """Return whether a plan is still right.

    What was said since must concern nothing that goes; then the plan spares it.
    """
    history = plan.history
    residue = plan.residue
    source = selectors.source
    text = selectors.text
    if versions.find(connection, history.name) != history.head:
        return False
    before = {repr(passage): passage for passage in history.passages}
    now = {repr(passage): passage for passage in _passages(connection, history.name)}
    for written in before.keys() ^ now.keys():
        passage = now.get(written) or before[written]
        if passage.id in residue.touched:
            return False
        if source is not None and same_person(passage.source, source):
            return False
        if text is not None and passage.held_by(text):
            return False
    for written in now.keys() - before.keys():
        residue.spare(texts_in(now[written].content))
    return True


# -- select ----------------------------------------------------------------------------------------


class Selected(NamedTuple):
    """What is named: keys, ids of cases, and what stays of a key, with the content it is about."""

    keys: set[FeedbackKey]
    cases: set[str]
    spared: set[Said]


def select(history: History, selectors: Selectors) -> Selected:
    """Return the keys and cases that are named, and all that was said of a case that goes.

    Args:
        history: What the registry holds of the judge.
        selectors: What is to go.

    Raises:
        UnknownKey: A selector names nothing, or there is none.
    """
    text = selectors.text
    source = selectors.source
    if not selectors.keys and source is None and text is None:
        raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
    keys, cases, every = _holding(history, text)
    # What people said of a case goes with the case.
    keys |= _on(cases, every)
    if source is not None:
        keys = {key for key in keys if same_person(key.source, source)}
        cases = set()
    if selectors.keys:
        keys, cases = _named(history, selectors, keys, cases)
    whole = _on(cases, every)
    keys |= whole
    by_text = None
    if source is None and not selectors.keys:
        by_text = text
    else:
        whole = keys
    hits, others = _told_apart(history, _only_in(history, cases), by_text)
    partly = {key for key, _ in hits} - whole
    spared = {said for said in others if said[0] in partly}
    return Selected(keys | partly, cases, spared)


def _told_apart(
    history: History, contents: Collection[str], text: Finder | None
) -> tuple[set[Said], set[Said]]:
    """Return what was said in other tables of some contents, or with a text, and what else was."""
    hits = set()
    others = set()
    for one in history.passages:
        if one.source is None or one.copy:
            continue
        if one.about in contents or (text is not None and one.held_by(text)):
            hits.add(one.said)
        else:
            others.add(one.said)
    return hits, others


def _holding(
    history: History, text: Finder | None
) -> tuple[set[FeedbackKey], set[str], set[FeedbackKey]]:
    """Return the keys and the cases that hold a text, and every key; without a text all hold it."""
    every = set()
    keys = set()
    cases = set()
    for passage in history.everything():
        held = text is None or passage.held_by(text)
        if passage.source is not None:
            every.add(passage.key)
            if held:
                keys.add(passage.key)
        elif held:
            cases.add(passage.id)
    return keys, cases, every


def _only_in(history: History, cases: Collection[str]) -> set[str]:
    """Return the hashes of contents of these cases in other tables that no other case has."""
    going: set[str] = set()
    staying: set[str] = set()
    for one in history.passages:
        if one.source is None and one.about:
            (going if one.id in cases else staying).add(one.about)
    for value in history.values if going else ():
        if value.name == "case" and value.key not in cases:
            staying.add(value.value.content_hash)
    return going - staying


def _on(cases: Collection[str], keys: Iterable[FeedbackKey]) -> set[FeedbackKey]:
    return {key for key in keys if key.id in cases}


def _named(
    history: History, selectors: Selectors, keys: set[FeedbackKey], cases: set[str]
) -> tuple[set[FeedbackKey], set[str]]:
    """Return those of the keys and cases that the selectors name.

    Raises UnknownKey for one that names nothing.
    """
    named_keys: set[FeedbackKey] = set()
    named_cases = set()
    for selector, found in select_keys(sorted(keys), selectors.keys).items():
        ids = _ids_meant(selector) & cases
        if not found and not ids:
            hint = "`memalign show NAME --ledger` (in Python: ledger(name)) lists every key"
            day = history.erased.erased_on(selector)
            if day is not None:
                hint = f"it was erased on {day}"
            raise UnknownKey(
                f"nothing of {history.name!r} holds {str(selector)!r}{selectors}; {hint}"
            )
        named_keys.update(found)
        named_cases.update(ids)
    return named_keys, named_cases


def _ids_meant(selector: str | FeedbackKey) -> set[str]:
    """Return the ids of cases that a selector may mean; a key means none."""
    if isinstance(selector, FeedbackKey):
        return set()
    return {case for case, source in readings(selector) if source is None}


def _when(history: History, selectors: Selectors) -> str:
    """Return when everything of a person was erased before, as the end of a message."""
    if selectors.source is None or selectors.text is not None:
        return ""
    day = history.erased.person_erased_on(selectors.source)
    if day is None:
        return ""
    return f"; it was erased on {day}"


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
    rest = {}
    reached = {}
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
    for number, size in history.sizes.items():
        contents = _at(reached, number)
        if part.contents != contents:  # most versions differ elsewhere
            part = _part_without(history.codec, contents, residue, copied)
        model = _at(models, number)
        if part.kept != contents:
            removed = contents.keys() - part.kept.keys()
            _extend(gone, number, {row: contents[row] for row in removed})
            lost[number] = _lost(number, removed)
            sizes[number] = part.sizes(size)
            if not sizes[number]["cases"]:
                model = {_EMBEDDING: b"null"}  # without a case there is no vector
        _extend(rest, number, part.kept)
        _extend(rest, number, model)
    decode = history.codec.decode
    return Forgotten(
        versions=lost,
        sizes=sizes,
        gone=tuple(versions.held_in(gone, decode)),
        stays=tuple(versions.held_in(rest, decode)),
        rest=rest,
    )


class _Part(NamedTuple):
    """What erasing makes of those rows of a version that it may touch."""

    contents: Contents
    kept: Contents
    change: Counter[str]

    def sizes(self, before: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of a version afterwards."""
        return {name: size + self.change[name] for name, size in before.items()}


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


def _lost(number: int, removed: Iterable[tuple[str, str]]) -> RedactedVersion:
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
            since = spans.pop()[0]
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
    checks = {NAMES: residue.is_name, SENTENCES: residue.in_sentence}
    for names, repeats in checks.items():
        for name in names:
            text = getattr(entry, name, None)
            if text and repeats(text):
                changes[name] = _ERASED
    if not changes:
        return entry
    return _change(entry, **changes)


# -- what to search for ----------------------------------------------------------------------------


def sought(
    history: History,
    forgotten: Forgotten,
    named: Residue,
    cases: Collection[str],
    *,
    keep: Collection[str] = (),
    lessons: bool = False,
) -> Residue:
    """Return what is to be nowhere once this is forgotten.

    Cases go with the last word on them, in all tables.

    Args:
        history: What the registry holds of the judge.
        forgotten: What its versions lose.
        named: The keys, the text and the person that are to go.
        cases: The ids of cases that were selected.
        keep: Ids of cases that stay in other packages' tables.
        lessons: Whether the words of guidelines that go are searched for too.
    """
    spoken = _spoken_of(history, named)
    going = set(cases)
    for name, key, _ in forgotten.gone:
        left = ("case", key) in forgotten.rest
        if name == "case" and key not in spoken and key not in keep and not left:
            going.add(key)
    gone = [one for one in forgotten.gone if one.key in going]
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
        contents=_contents(gone),
        searched=named.searched,
        person=named.person,
    )


def _spoken_of(history: History, named: Residue) -> set[str]:
    """Return the ids of the cases of which other tables keep somebody's words."""
    spoken = set()
    for passage in history.passages:
        stays = not named.takes(passage.key, passage.about)
        if stays and _says(passage):
            spoken.add(passage.id)
    return spoken


def _goes(passage: Passage, cases: Collection[str], named: Residue) -> bool:
    if passage.source is None:
        return passage.id in cases
    return named.takes(passage.key, passage.about)


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


def _said(passages: Iterable[Passage]) -> set[FeedbackKey]:
    """Return the feedback that has words, or a verdict, in these passages."""
    return {passage.key for passage in passages if _says(passage)}


def _says(passage: Passage) -> bool:
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
    if any(map(residue.in_sentence, history.notes.values())):
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
    said = _said(history.everything())
    keys = sorted(residue.keys & said)
    lessons = [one for one in forgotten.gone if one.name in LESSONS]
    went: dict[str, Any] = {}
    for name, kind in LESSONS.items():
        went[kind.field] = _ids(one for one in lessons if one.name == name)
    latest = None
    unlocked: set[str] = set()
    pending = []
    if memory is not None:
        latest = history.head.latest + 1
        pending = sorted(annotation.key for annotation in memory.pending)
        locks = history.timeline["memory", "locks"]
        before = history.codec.decode("memory", locks[-1][-1])
        unlocked = set(before).difference(memory.locks)
    return Receipt(
        judge=history.name,
        keys=tuple(keys),
        cases=tuple(sorted(residue.cases)),
        copied=_ids(one for one in lessons if one[:2] in copied),
        wordings=_ids(one for one in lessons if one.kind.people(one.value)),
        locked=tuple(sorted(unlocked)),
        versions=tuple(forgotten.versions.values()),
        latest=latest,
        pending=tuple(pending),
        **went,
    )


def _ids(values: Iterable[Held]) -> tuple[str, ...]:
    """Return the keys of values, each once, in their order."""
    ordered = sorted(values, key=lambda one: one.kind.order(one.value))
    ids = [one.key for one in ordered]
    return tuple(dict.fromkeys(ids))


# -- write -----------------------------------------------------------------------------------------


def write(connection: Connection, plan: Plan) -> None:
    """Write a plan, in a transaction in which nothing else of the judge changes.

    Args:
        connection: The transaction.
        plan: What `plan_erasure` returned.
    """
    history = plan.history
    residue = plan.residue
    judge = history.head.judge
    versions.forget_answers(connection, judge)  # they may quote what goes
    _write_rows(connection, history, plan.forgotten)
    _write_versions(connection, plan)
    remember(
        connection,
        judge,
        keys=residue.keys,
        contents=residue.contents - _contents(plan.forgotten.stays),
        cases=residue.cases,
        person=residue.person,
        wordings=wordings_of(plan.forgotten.gone) - wordings_of(plan.forgotten.stays),
    )
    for tables in other_tables(connection):
        tables.forget(connection, plan.receipt, residue)


def _write_rows(connection: Connection, history: History, forgotten: Forgotten) -> None:
    judge = history.head.judge
    new = []
    for row in sorted(history.timeline.keys() | forgotten.rest.keys()):
        spans = forgotten.rest.get(row, [])
        if spans == history.timeline.get(row):
            continue
        kind, key = row
        same = (rows.c.judge == judge, rows.c.kind == kind, rows.c.key == key)
        connection.execute(delete(rows).where(*same))
        for since, until, body in spans:
            last = None if until == history.head.latest + 1 else until
            values = {
                "judge": judge,
                "kind": kind,
                "key": key,
                "since": since,
                "until": last,
                "body": body,
            }
            new.append(values)
    if new:
        connection.execute(insert(rows), new)


def _write_versions(connection: Connection, plan: Plan) -> None:
    head = plan.history.head
    changed: dict[int, dict[str, Any]] = {}
    for number, sizes in plan.forgotten.sizes.items():
        changed[number] = {"memory_hash": "", **sizes}
    for number, note in plan.history.notes.items():
        if plan.residue.in_sentence(note):
            changed.setdefault(number, {})["note"] = _ERASED
    for number, values in changed.items():
        change = update(versions_table).where(
            versions_table.c.judge == head.judge,
            versions_table.c.number == number,
        )
        connection.execute(change.values(redacted=True, **values))
    if plan.memory is None:
        return
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
        line=f"{in_words({'comment': len(plan.residue.keys)})} erased from all versions",
    )
