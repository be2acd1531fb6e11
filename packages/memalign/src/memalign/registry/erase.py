"""Erasing: out of every version and every table, without any model call.

`plan_erasure` selects what is named, forgets it in each version by the rules of an unalign, forgets what repeats its
words, and says in a receipt what that comes to; it writes nothing, and may work on a copy. `carry_out` writes the rows
that differ and remembers keyed hashes. `erase_check` then searches for what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from memalign.content.walk import texts_in
from memalign.errors import UnknownKey
from memalign.keys import readings, same_person, select_keys
from memalign.memory import FeedbackConflict, Memory
from memalign.memory.forget import forget, without_disputed
from memalign.memory.text_search import Finder
from memalign.registry import versions
from memalign.registry.database import Database
from memalign.registry.erase_check import in_other_tables
from memalign.registry.erase_reach import reach_of
from memalign.registry.erased_hashes import ErasedHashes, remember
from memalign.registry.judge_rows import Codec, Contents, memory_contents, memory_of, named_damage
from memalign.registry.kinds import DISTILLED, NAMES, reason_of, words_of
from memalign.registry.other_tables import Passage, other_tables
from memalign.registry.receipt import Receipt, RedactedVersion, in_words
from memalign.registry.residue import RUN, Residue, row_names
from memalign.registry.tables import judges, rows
from memalign.registry.tables import versions as versions_table
from memalign.registry.versions import Timeline, forget_answers
from memalign.types import FeedbackKey, Guideline, guideline_number

__all__ = ["Plan", "Selectors", "carry_out", "erase_feedback", "plan_erasure"]

_change = msgspec.structs.replace
_ERASED = "(erased)"
_WORDED = ("case", "annotation", "pre_alignment", "judge", "tombstone")
"""Kinds of rows whose words are people's own, or the judged system's: what they share with the erased is no trace."""

T = TypeVar("T", Guideline, FeedbackConflict)


class Selectors(NamedTuple):
    """What is to go: ids and keys, a person, a text; of several, all must hold. See `Registry.erase`.

    `keep` are ids of cases that stay in other packages' tables, although nobody says anything of them any more.
    """

    keys: tuple[str | FeedbackKey, ...]
    source: str | None
    text: Finder | None
    keep: Collection[str] = ()

    def __str__(self) -> str:
        source = f" of source {self.source!r}" if self.source is not None else ""
        return f"{source}{' with this text' if self.text else ''}"  # and never the text: it is to be kept nowhere


class Mark(NamedTuple):
    """A judge's place in its history: as long as it stays, no version of it has been added or changed."""

    judge: int
    latest: int
    forgettings: int


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that a registry holds of one judge, in its own tables and in other packages'."""

    name: str
    mark: Mark
    timeline: Timeline
    notes: Mapping[int, str]
    counts: Mapping[int, Mapping[str, int]]
    passages: tuple[Passage, ...]
    codec: Codec

    @property
    def latest(self) -> int:
        """The number of the newest version."""
        return self.mark.latest

    def rows(self) -> Iterator[tuple[str, str, range, bytes]]:
        """Yield kind, key, versions and body of every row."""
        for (kind, key), spans in self.timeline.items():
            for since, until, body in spans:
                yield kind, key, range(since, until), body

    def versions_with(self, holds: Callable[[str, str, bytes], bool]) -> set[int]:
        """Return the versions with a row, of this kind, key and body, for which that holds."""
        numbers = set[int]()
        for kind, key, span, body in self.rows():
            if not numbers.issuperset(span) and holds(kind, key, body):
                numbers.update(span)
        return numbers


@dataclass(frozen=True, kw_only=True)
class Forgotten:
    """What the versions of a judge lose, and the timeline after it.

    Attributes:
        versions: What each version loses, by number.
        counts: What history says afterwards of the size of each.
        gone: Kind, key and body of every row that goes.
        rest: The timeline of what stays.
        unlocked: The locked cases of the newest version that are locked no longer.
        memory: The newest version's memory afterwards; None if it loses nothing.
    """

    versions: Mapping[int, RedactedVersion] = field(default_factory=dict)
    counts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    gone: frozenset[tuple[str, str, bytes]] = frozenset()
    rest: Timeline
    unlocked: tuple[str, ...] = ()
    memory: Memory | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one erasure does: the rows that differ, what to search for afterwards, and the receipt."""

    state: State
    forgotten: Forgotten
    residue: Residue
    receipt: Receipt


def erase_feedback(
    database: Database, name: str, selectors: Selectors, *, dry_run: bool
) -> tuple[Receipt, Residue]:
    """Erase in one transaction, or only say what would go.

    The plan is made before the lock is taken, so that others read and write meanwhile. If the judge or what is said of
    its cases has changed by then, it is made again under the lock.

    Args:
        database: The registry's.
        name: The judge.
        selectors: What is to go.
        dry_run: Whether nothing is written.

    Returns:
        The receipt, and what to search for afterwards.

    Raises:
        UnknownKey: Nothing is there that these name.
    """
    with database.snapshot() as connection:
        plan = plan_erasure(connection, name, selectors)
    if dry_run:
        return replace(
            plan.receipt, latest=None, dry_run=True, unreachable=database.unreachable
        ), plan.residue
    with database.write(name) as connection:
        if not _stands(connection, plan, selectors):
            plan = plan_erasure(connection, name, selectors)
        carry_out(connection, plan)
    return plan.receipt, plan.residue


def plan_erasure(connection: Connection, name: str, selectors: Selectors) -> Plan:
    """Work out an erasure without writing anything. Raises UnknownKey where nothing is there that is named."""
    with named_damage(f"the judge {name!r}"):
        return _plan(connection, name, selectors)


def _plan(connection: Connection, name: str, selectors: Selectors) -> Plan:
    state = _read_state(connection, name)
    keys, cases = _select(connection, state, selectors)
    # A text that is searched for among some feedback only may stay in other feedback, and a name in other words.
    everything = not selectors.keys and selectors.source is None
    alone = not selectors.keys and selectors.text is None
    named = Residue(
        keys=keys,
        searched=selectors.text if everything else None,
        person=selectors.source if alone else None,
    )
    touched = state.versions_with(
        lambda kind, key, body: row_names(state.codec, named, kind, key, body)
    )
    forgotten = _forget(state, touched, named)
    residue = _residue(state, forgotten, named, cases, keep=selectors.keep)
    # Only now it is known which words go. A guideline that was not learned from them may repeat them, and so may what
    # memalign or a model says of other feedback.
    copied = _copies(state, residue, named)
    if not (
        keys or residue.cases or touched or copied or _is_mentioned(connection, state, residue)
    ):
        raise UnknownKey(
            f"no version and no table of {name!r} holds feedback{selectors}{_when(connection, state, selectors)}"
        )
    repeating = state.versions_with(
        lambda kind, key, body: (
            (kind == "guideline" and key in copied) or _repeats(state.codec, residue, kind, body)
        )
    )
    if repeating:
        forgotten = _forget(state, touched | repeating, residue, copied)
    texts = (text for _, text in _gone_words(state, forgotten, "guideline"))
    residue.add(texts, _staying_words(state, forgotten, (*_WORDED, "guideline")))
    return Plan(
        state=state,
        forgotten=forgotten,
        residue=residue,
        receipt=_receipt(state, forgotten, residue, copied),
    )


def carry_out(connection: Connection, plan: Plan) -> None:
    """Write a plan, in a transaction in which nothing else of the judge changes."""
    state, forgotten, residue = plan.state, plan.forgotten, plan.residue
    judge = state.mark.judge
    forget_answers(connection, judge)  # they may quote what goes
    _write_rows(connection, state, forgotten)
    _write_versions(connection, state, forgotten, residue)
    bodies = (
        body
        for (kind, _), spans in forgotten.rest.items()
        if kind == "case"
        for _, _, body in spans
    )
    staying = (state.codec.decode("case", body).content_hash for body in bodies)
    remember(
        connection,
        judge,
        keys=residue.keys,
        contents=residue.contents.difference(staying),
        cases=residue.cases,
        person=residue.person,
    )
    for tables in other_tables(connection):
        tables.forget(connection, plan.receipt, residue)


# -- what is there -----------------------------------------------------------------------------------------------------


def _read_state(connection: Connection, name: str) -> State:
    mark = _mark(connection, name)
    history = versions.history(connection, mark.judge)
    return State(
        name=name,
        mark=mark,
        timeline=versions.timeline(connection, mark.judge, mark.latest),
        notes={info.number: info.note for info in history if info.note},
        counts={info.number: versions.counts_of(info) for info in history},
        # Raises where tables of a package that is not installed could not be reached.
        passages=_passages(connection, name),
        codec=Codec(),
    )


def _mark(connection: Connection, name: str) -> Mark:
    judge, latest = versions.find(connection, name)
    forgettings = connection.execute(
        select(judges.c.forgettings).where(judges.c.id == judge)
    ).scalar_one()
    return Mark(judge, latest, forgettings)


def _passages(connection: Connection, name: str) -> tuple[Passage, ...]:
    return tuple(
        passage
        for tables in other_tables(connection)
        for passage in tables.passages(connection, name)
    )


def _stands(connection: Connection, plan: Plan, selectors: Selectors) -> bool:
    """Return whether a plan is still right: what was said since concerns nothing that goes, and is spared by it."""
    state, residue = plan.state, plan.residue
    if _mark(connection, state.name) != state.mark:
        return False
    passages = _passages(connection, state.name)
    new = _not_among(passages, state.passages)
    touched = residue.cases | {key.id for key in residue.keys}
    for passage in (*new, *_not_among(state.passages, passages)):
        named = selectors.source is not None and same_person(passage.source, selectors.source)
        held = selectors.text is not None and passage.held_by(selectors.text)
        if passage.id in touched or named or held:
            return False
    residue.spare(text for passage in new for text in texts_in(passage.content))
    return True


def _not_among(passages: Iterable[Passage], others: Iterable[Passage]) -> list[Passage]:
    """Return the passages that are not among others."""
    known: dict[tuple[str, str | None], list[Passage]] = {}
    for passage in others:
        known.setdefault((passage.id, passage.source), []).append(passage)
    return [
        passage
        for passage in passages
        if passage not in known.get((passage.id, passage.source), ())
    ]


# -- select ------------------------------------------------------------------------------------------------------------


def _select(
    connection: Connection, state: State, selectors: Selectors
) -> tuple[set[FeedbackKey], set[str]]:
    """Return the keys and cases that are named, with everything that anybody said of a case that goes."""
    every = {
        FeedbackKey.parse(key)
        for kind, key in state.timeline
        if kind in ("annotation", "tombstone")
    }
    every |= {passage.key for passage in state.passages if passage.source is not None}
    cases = {key for kind, key in state.timeline if kind == "case"}
    cases |= {passage.id for passage in state.passages if passage.source is None}
    keys = every
    if selectors.source is not None:
        keys, cases = {key for key in keys if same_person(key.source, selectors.source)}, set()
    if selectors.text is not None:
        holding_keys, holding_cases = _holding(state, selectors.text)
        # What people said of a case goes with the case.
        keys = {key for key in keys if key in holding_keys or key.id in holding_cases}
        cases &= holding_cases
    if selectors.keys:
        keys, cases = _named(connection, state, selectors, keys, cases)
    elif selectors.source is None and selectors.text is None:
        raise UnknownKey("name feedback by id (t-17), by key (t-17@ana) or by source")
    return keys | {key for key in every if key.id in cases}, cases


def _named(
    connection: Connection,
    state: State,
    selectors: Selectors,
    keys: set[FeedbackKey],
    cases: set[str],
) -> tuple[set[FeedbackKey], set[str]]:
    """Return those of the keys and cases that the selectors name. Raises UnknownKey for one that names nothing."""
    named_keys, named_cases = set[FeedbackKey](), set[str]()
    for selector, found in select_keys(sorted(keys), selectors.keys).items():
        ids = set[str]()
        if isinstance(selector, str):
            ids = {case for case, source in readings(selector) if source is None} & cases
        if not found and not ids:
            day = ErasedHashes(connection, state.mark.judge).erased_on(selector)
            hint = (
                f"it was erased on {day}"
                if day
                else "`memalign show NAME --ledger` lists every key"
            )
            raise UnknownKey(
                f"nothing of {state.name!r} holds {str(selector)!r}{selectors}; {hint}"
            )
        named_keys.update(found)
        named_cases.update(ids)
    return named_keys, named_cases


def _when(connection: Connection, state: State, selectors: Selectors) -> str:
    """Return when everything of a person was erased before, as the end of a message."""
    if selectors.source is None or selectors.text is not None:
        return ""
    day = ErasedHashes(connection, state.mark.judge).person_erased_on(selectors.source)
    return f"; it was erased on {day}" if day else ""


def _holding(state: State, finder: Finder) -> tuple[set[FeedbackKey], set[str]]:
    """Return the feedback that holds a text, by what it says or by whose it is, and the cases that do."""
    keys, cases = set[FeedbackKey](), set[str]()
    for kind, key, _, body in state.rows():
        if kind == "case":
            example = state.codec.decode(kind, body)
            if finder.holds(key) or finder.within([example.meta, *example.content.values()]):
                cases.add(key)
        elif kind == "annotation":
            annotation = state.codec.decode(kind, body)
            if finder.within([annotation.source, *annotation.words]):
                keys.add(annotation.key)
        elif kind == "tombstone" and finder.holds(key):
            keys.add(FeedbackKey.parse(key))
    for passage in state.passages:
        if passage.held_by(finder):
            if passage.source is None:
                cases.add(passage.id)
            else:
                keys.add(passage.key)
    return keys, cases


# -- forget ------------------------------------------------------------------------------------------------------------


def _forget(
    state: State, numbers: Collection[int], residue: Residue, copied: Collection[str] = ()
) -> Forgotten:
    """Return what these versions lose.

    Only what the erasure may touch is read and written again, version by version: the rest is the same in all of them.
    """
    if not numbers:
        return Forgotten(rest=state.timeline)
    reach = reach_of(state.timeline, state.codec, residue, copied)
    reached = {row: spans for row, spans in state.timeline.items() if reach.has(row)}
    rest: Timeline = {}
    gone = set[tuple[str, str, bytes]]()
    lost, counts = dict[int, RedactedVersion](), dict[int, Mapping[str, int]]()
    last: _Part | None = None
    for number in range(1, state.latest + 1):
        contents = _at(reached, number)
        if number in numbers:
            if last is None or last.contents != contents:  # most versions differ elsewhere
                last = _part_without(state.codec, contents, residue, copied)
            whole = state.counts[number]["cases"] == last.before["cases"]
            removed = contents.keys() - last.survivors.keys()
            gone |= {(*row, contents[row]) for row in removed}
            lost[number] = last.lost(number)
            counts[number] = {
                name: count + last.after[name] - last.before[name]
                for name, count in state.counts[number].items()
            }
            contents = last.survivors if whole else last.survivors | last.vectors_of_others
        _extend(rest, number, contents)
    whole_timeline = {
        row: spans for row, spans in state.timeline.items() if row not in reached
    } | rest
    newest = state.latest in numbers and last is not None
    return Forgotten(
        versions=lost,
        counts=counts,
        gone=frozenset(gone),
        rest=whole_timeline,
        unlocked=last.unlocked if newest and last is not None else (),
        memory=memory_of(_at(whole_timeline, state.latest), state.codec.decode) if newest else None,
    )


class _Part(NamedTuple):
    """What erasing makes of those rows of a version that it may touch."""

    contents: Contents
    survivors: Contents
    vectors_of_others: Contents
    before: Mapping[str, int]
    after: Mapping[str, int]
    unlocked: tuple[str, ...]

    def lost(self, number: int) -> RedactedVersion:
        """Return what a version of this number lost."""
        kinds = Counter(kind for kind, _ in self.contents.keys() - self.survivors.keys())
        return RedactedVersion(
            number=number,
            comments=kinds["annotation"],
            cases=kinds["case"],
            guidelines=kinds["guideline"],
        )


def _part_without(
    codec: Codec, contents: Contents, residue: Residue, copied: Collection[str]
) -> _Part:
    before = memory_of(contents, codec.decode)
    after = _without(before, residue, copied)
    survivors = memory_contents(after, codec.encode)
    del survivors["memory", "next_guideline"]
    model = (
        "memory",
        "embedding_model",
    )  # a memory without a case has none, and other cases have their vectors still
    return _Part(
        contents=contents,
        survivors=survivors,
        vectors_of_others={model: contents[model]},
        before=versions.counts(before),
        after=versions.counts(after),
        unlocked=tuple(name for name in before.locks if name not in after.locks),
    )


def _at(timeline: Timeline, number: int) -> Contents:
    """Return what these rows hold in one version."""
    contents: Contents = {}
    for row, spans in timeline.items():
        for since, until, body in spans:
            if since <= number < until:
                contents[row] = body
    return contents


def _extend(timeline: Timeline, number: int, contents: Contents) -> None:
    """Add the rows of the next version to a timeline."""
    for row, body in contents.items():
        spans = timeline.setdefault(row, [])
        since = spans.pop()[0] if spans and spans[-1][1:] == (number, body) else number
        spans.append((since, number + 1, body))


def _without(memory: Memory, residue: Residue, copied: Collection[str]) -> Memory:
    """Return a version's memory after forgetting, by the rules that an unalign follows, and without a tombstone.

    Unlike an unalign, it takes wordings of people with it that were written with the erased feedback in view.
    """
    memory = forget(memory, residue.keys, state="erased", people_agree=True)
    theirs = (
        g.id for g in memory.guidelines if g.origin != DISTILLED and residue.is_name(g.origin)
    )
    memory = memory.without_guidelines({*theirs, *copied})
    memory = _change(
        memory,
        guidelines=tuple(_unnamed(guideline, residue) for guideline in memory.guidelines),
        conflicts=tuple(
            _unnamed(_silenced(conflict, residue), residue) for conflict in memory.conflicts
        ),
        authority=tuple(name for name in memory.authority if not residue.is_name(name)),
    )
    memory = without_disputed(memory)
    silenced = [
        _change(annotation, outcome=_change(annotation.outcome, reason=_ERASED))
        for annotation in memory.annotations()
        if annotation.outcome is not None and residue.in_sentence(annotation.outcome.reason)
    ]
    stones = (stone for stone in memory.tombstones if stone.key not in residue.keys)
    cases = []
    for case in memory.with_annotations(silenced).cases:
        verdict = case.pre_alignment
        if verdict is not None and residue.certain(verdict.rationale or ""):
            cases.append(_change(case, pre_alignment=_change(verdict, rationale=None)))
        else:
            cases.append(case)
    return _change(memory, cases=tuple(cases), tombstones=tuple(stones))


def _unnamed(entry: T, residue: Residue) -> T:
    """Return a guideline or conflict without the name of somebody who goes."""
    names = [name for name in NAMES if residue.is_name(getattr(entry, name, None))]
    return _change(entry, **dict.fromkeys(names, _ERASED)) if names else entry


def _silenced(conflict: FeedbackConflict, residue: Residue) -> FeedbackConflict:
    return _change(conflict, about=_ERASED) if residue.in_sentence(conflict.about) else conflict


def _repeats(codec: Codec, residue: Residue, kind: str, body: bytes) -> bool:
    """Return whether what memalign or a model says in a row of other feedback repeats what goes."""
    if kind == "pre_alignment":
        return residue.certain(codec.decode(kind, body).rationale or "")
    return residue.in_sentence(reason_of(codec, kind, body))


# -- what to search for, and the receipt -------------------------------------------------------------------------------


def _gone_words(state: State, forgotten: Forgotten, *kinds: str) -> Iterator[tuple[str, str]]:
    """Yield key and words of the rows that go."""
    for kind, key, body in forgotten.gone:
        if kind in kinds:
            yield from ((key, text) for text in words_of(state.codec, kind, body))


def _staying_words(state: State, forgotten: Forgotten, kinds: Collection[str]) -> Iterator[str]:
    for (kind, _), spans in forgotten.rest.items():
        if kind in kinds:
            for _, _, body in spans:
                yield from words_of(state.codec, kind, body)


def _residue(
    state: State,
    forgotten: Forgotten,
    named: Residue,
    cases: Collection[str],
    *,
    keep: Collection[str],
) -> Residue:
    """Return what to search for once this is forgotten. Cases go with the last word on them, in all tables."""
    spoken = {p.key for p in state.passages if p.source is not None and p.content is not None}
    alone = {key for kind, key, _ in forgotten.gone if kind == "case"} - {
        key.id for key in spoken - named.keys
    }
    going = {
        *cases,
        *(case for case in alone.difference(keep) if ("case", case) not in forgotten.rest),
    }
    texts = [
        text for _, text in _gone_words(state, forgotten, "annotation", "case", "pre_alignment")
    ]
    survivors = list[str]()
    for passage in state.passages:
        if passage.id in going if passage.source is None else passage.key in named.keys:
            # A copy also has what its format brings along, such as the name of a model: only long texts tell.
            texts += (
                text
                for text in texts_in(passage.content)
                if not passage.copy or len(text.split()) >= RUN
            )
        elif not passage.copy:
            survivors += texts_in(passage.content)
    bodies = (body for kind, key, body in forgotten.gone if kind == "case" and key in going)
    contents = (state.codec.decode("case", body).content_hash for body in bodies)
    residue = Residue(
        keys=named.keys,
        cases=going,
        contents=contents,
        searched=named.searched,
        person=named.person,
    )
    residue.add(texts, chain(_staying_words(state, forgotten, _WORDED), survivors))
    return residue


def _copies(state: State, residue: Residue, named: Residue) -> frozenset[str]:
    """Return the guidelines, by id, that only repeat what goes."""
    return frozenset(
        key
        for kind, key, _, body in state.rows()
        if kind == "guideline"
        and any(map(residue.copied, words_of(state.codec, kind, body)))
        and not row_names(state.codec, named, kind, key, body)
    )


def _is_mentioned(connection: Connection, state: State, residue: Residue) -> bool:
    """Return whether a note of a version, or a text of another table, repeats what is to go."""
    if any(map(residue.in_sentence, state.notes.values())):
        return True
    return any(
        trace.judge in (None, state.name)
        for trace in in_other_tables(connection, residue, state.name)
    )


def _receipt(
    state: State, forgotten: Forgotten, residue: Residue, copied: Collection[str]
) -> Receipt:
    spoken = {p.key for p in state.passages if p.source is not None and p.content is not None}
    written = {FeedbackKey.parse(key) for kind, key, _ in forgotten.gone if kind == "annotation"}
    written |= {FeedbackKey.parse(key) for kind, key in state.timeline if kind == "tombstone"}
    rules = set[str]()
    theirs = set[str]()  # written or confirmed by people, in any version
    for kind, key, body in forgotten.gone:
        if kind == "guideline":
            rules.add(key)
            if state.codec.decode(kind, body).people:
                theirs.add(key)
    memory = forgotten.memory
    return Receipt(
        judge=state.name,
        keys=tuple(key for key in sorted(residue.keys) if key in written or key in spoken),
        cases=tuple(sorted(residue.cases)),
        guidelines=tuple(sorted(rules, key=guideline_number)),
        copied=tuple(sorted(copied, key=guideline_number)),
        wordings=tuple(sorted(theirs, key=guideline_number)),
        locked=forgotten.unlocked,
        versions=tuple(forgotten.versions.values()),
        latest=None if memory is None else state.latest + 1,
        pending=tuple(sorted(annotation.key for annotation in memory.pending)) if memory else (),
    )


# -- write -------------------------------------------------------------------------------------------------------------


def _write_rows(connection: Connection, state: State, forgotten: Forgotten) -> None:
    new = list[dict[str, object]]()
    judge = state.mark.judge
    for row in sorted(state.timeline.keys() | forgotten.rest.keys()):
        kind, key = row
        spans = forgotten.rest.get(row, [])
        if spans == state.timeline.get(row):
            continue
        same = (rows.c.judge == judge, rows.c.kind == kind, rows.c.key == key)
        connection.execute(delete(rows).where(*same))
        for since, until, body in spans:
            last = None if until == state.latest + 1 else until
            new.append(
                {
                    "judge": judge,
                    "kind": kind,
                    "key": key,
                    "since": since,
                    "until": last,
                    "body": body,
                }
            )
    if new:
        connection.execute(insert(rows), new)


def _write_versions(
    connection: Connection, state: State, forgotten: Forgotten, residue: Residue
) -> None:
    judge = state.mark.judge
    changed: dict[int, dict[str, Any]] = {
        n: {"memory_hash": "", **counts} for n, counts in forgotten.counts.items()
    }
    for number, note in state.notes.items():
        if residue.in_sentence(note):
            changed.setdefault(number, {})["note"] = _ERASED
    for number, values in changed.items():
        version = (versions_table.c.judge == judge, versions_table.c.number == number)
        connection.execute(update(versions_table).where(*version).values(redacted=True, **values))
    if forgotten.memory is not None:
        # Its rows are those of the version before, which has just lost the same; only the number is new.
        line = f"{in_words(0, len(residue.keys), 0)} erased from all versions"
        new: dict[str, Any] = {
            "parent": state.latest,
            "before": {},
            "after": {},
            "memory": forgotten.memory,
        }
        versions.add_version(connection, judge, **new, action="erase", line=line)
