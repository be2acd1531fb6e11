"""The kinds of rows that hold a judge: types, people's words and names, what people are told.

Keeping, forgetting, searching, refusing, the receipt, the differences between versions and the
pages of an erasure read this one table, so that a new kind of memory is one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from memalign.content.walk import texts_in
from memalign.memory import (
    Annotation,
    FeedbackConflict,
    Memory,
    PreAlignmentVerdict,
    Tombstone,
)
from memalign.types import Example, FeedbackKey, Guideline, canonical_json
from memalign.values import Value

__all__ = [
    "KINDS",
    "LESSONS",
    "NAMES",
    "NOUNS",
    "SENTENCES",
    "Held",
    "Kind",
    "TextKind",
    "values_of",
]

NAMES = ("pinned_by", "retired_by", "dismissed_by", "ruled_by", "unruled_by")
"""Fields of guidelines and conflicts that say who did something."""

SENTENCES = ("reason", "about")
"""Fields of outcomes and conflicts in which memalign or a model says something of other
feedback."""

TextKind = Literal["field", "sentence", "id", "name", "other"]
"""What a text is, which decides how much of an erased text it must hold to be a trace.

An `id` names a case and a `name` a person. A `sentence`, such as a reason or a note, may quote or
name what was erased in passing. A `field` is whole words of somebody. Any `other` text proves
something only if it repeats a long run. """


def _nothing(value: Any) -> Iterable[Any]:
    return ()


def _no_words(value: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one kind of row holds.

    Attributes:
        type: The type of a value; None for plain JSON values, and for a vector, which is raw bytes.
        texts: Returns what people or judged systems wrote, as JSON values. Labels of a closed type
            are nobody's words.
        role: What its words are in an erasure. `said`: they are searched for when they go.
            `learned`: the same, once it is known what goes, and a row that repeats what goes, goes.
            `kept`: they are no trace of anything. Empty for a kind that has no words of people.
        names: Returns the people whom fields name.
        author: Returns the person with whom it goes, or None.
        people: Returns the people whose wording it is: who wrote it, and who confirmed it.
        reason: Returns what memalign or a model says there about other rows' feedback.
        quotes: Returns what a model said of the case itself, which may share a few words with
            people's by chance.
        keys: Returns the feedback that the row is, or came from: whose words were in view when it
            was written.
        about: Returns the id of the case that it is about and who speaks there, None for the case
            itself.
        collection: The field of a memory that holds all of this kind; None if cases hold them.
        key: Returns the key of a value's row.
        order: Returns what values are ordered by.
        noun: What people call one; empty if nobody is told of it. A receipt counts those that have
            one.
        field: The field of a receipt with what went of it.
        experts: What experts call one and several of them on pages, where `{n}` is the number.
        status: Returns whether one is in force in a memory; None for a kind that always is.
    """

    type: Any = None
    texts: Callable[[Any], Iterable[Any]] = _nothing
    role: Literal["said", "learned", "kept", ""] = ""
    names: Callable[[Any], Iterable[str | None]] = _nothing
    author: Callable[[Any], str | None] = lambda value: None
    people: Callable[[Any], Iterable[str]] = _nothing
    reason: Callable[[Any], str] = _no_words
    quotes: Callable[[Any], Iterable[str]] = _nothing
    keys: Callable[[Any], Iterable[FeedbackKey]] = _nothing
    about: Callable[[Any], tuple[str, str | None]] | None = None
    collection: str | None = None
    key: Callable[[Any], str] = str
    order: Callable[[Any], Any] = str
    noun: str = ""
    field: str = ""
    experts: tuple[str, str] = ("", "")
    status: Callable[[Memory, Any], str | None] = lambda memory, value: None

    def fields(self, value: Any) -> Iterator[str]:
        """Yield every text that a person or a judged system wrote in a value."""
        return texts_in(list(self.texts(value)))

    def words(self, value: Any) -> Iterator[tuple[TextKind, str]]:
        """Yield every text of a value, and what it is."""
        for text in self.fields(value):
            yield "field", text
        for name in self.names(value):
            if name:
                yield "name", name
        if reason := self.reason(value):
            yield "sentence", reason


_UNKNOWN = Kind()


class Held(NamedTuple):
    """A value that a judge holds: its kind, its row's key, and itself."""

    name: str
    key: str
    value: Any

    @property
    def kind(self) -> Kind:
        """Return what is known of its kind; nothing of a damaged row's."""
        return KINDS.get(self.name, _UNKNOWN)


def _free_label(value: Value | None) -> Value | None:
    """Return a label that is free text; one of two words may be a choice of the judge's type."""
    return value if isinstance(value, str) and len(value.split()) > 2 else None


def _texts_of_guideline(guideline: Guideline) -> Iterator[Any]:
    yield guideline.text
    for test in guideline.tests:
        yield from (test.text, _free_label(test.value))


def _author_of(guideline: Guideline) -> str | None:
    """Return who wrote it; None for a model, whoever confirmed it."""
    if guideline.origin in guideline.people:
        return guideline.origin
    return None


def _who_did(entry: Any) -> list[str | None]:
    return [getattr(entry, name, None) for name in NAMES]


KINDS = {
    "judge": Kind(texts=lambda setting: [setting], role="kept"),
    "memory": Kind(
        texts=lambda state: [state],
        names=lambda state: state if isinstance(state, list) else [],
    ),
    "case": Kind(
        type=Example,
        texts=lambda case: [case.id, *case.content.values(), case.meta],
        role="said",
        about=lambda case: (case.id, None),
        noun="case",
        field="cases",
        experts=("{n} case", "{n} cases"),
    ),
    "annotation": Kind(
        type=Annotation,
        texts=lambda said: [
            said.id,
            said.rationale,
            _free_label(said.value),
            said.meta,
        ],
        role="said",
        names=lambda said: [said.source],
        reason=lambda said: said.outcome.reason if said.outcome is not None else "",
        keys=lambda said: [
            said.key,
            *(said.outcome.exposed_to if said.outcome else ()),
        ],
        about=lambda said: said.key,
        noun="comment",
        field="keys",
        experts=("{n} comment", "{n} comments"),
    ),
    "pre_alignment": Kind(
        type=PreAlignmentVerdict,
        texts=lambda verdict: [verdict.rationale],
        role="said",
        quotes=lambda verdict: [verdict.rationale or ""],
        keys=lambda verdict: verdict.exposed_to,
    ),
    "vector": Kind(),
    "guideline": Kind(
        type=Guideline,
        texts=_texts_of_guideline,
        role="learned",
        names=lambda guideline: [*guideline.people, *_who_did(guideline)],
        author=_author_of,
        people=lambda guideline: guideline.people,
        keys=lambda guideline: (*guideline.exposed_to, *guideline.supported_by),
        collection="guidelines",
        key=lambda guideline: guideline.id,
        order=lambda guideline: guideline.number,
        noun="guideline",
        field="guidelines",
        experts=("{n} learned sentence", "{n} learned sentences"),
        status=lambda memory, guideline: memory.status(guideline),
    ),
    "tombstone": Kind(
        type=Tombstone,
        texts=lambda stone: [stone.key.id],
        role="kept",
        names=lambda stone: [stone.key.source],
        keys=lambda stone: [stone.key],
        about=lambda stone: stone.key,
        collection="tombstones",
        key=lambda stone: str(stone.key),
        order=lambda stone: stone.key,
    ),
    "conflict": Kind(
        type=FeedbackConflict,
        texts=lambda conflict: [conflict.about],
        names=_who_did,
        reason=lambda conflict: conflict.about,
        keys=lambda conflict: (*conflict.feedback, *conflict.exposed_to),
        collection="conflicts",
        key=lambda conflict: canonical_json(conflict.feedback),
        order=lambda conflict: conflict.feedback,
    ),
}
"""Every kind of row."""

NOUNS = {kind.noun: kind for kind in KINDS.values() if kind.noun}
"""The kinds of which people are told how many there are, by what people call one."""

LESSONS = {name: kind for name, kind in KINDS.items() if kind.role == "learned"}
"""The kinds of what was learned or written for the judge."""


def values_of(memory: Memory) -> Iterator[Held]:
    """Yield every value of a memory that is a row."""
    for case in memory.cases:
        yield Held("case", case.id, case.example)
        for annotation in case.annotations:
            yield Held("annotation", str(annotation.key), annotation)
        if case.pre_alignment is not None:
            yield Held("pre_alignment", case.id, case.pre_alignment)
        if case.vector is not None:
            yield Held("vector", case.id, case.vector)
    for name, kind in KINDS.items():
        if kind.collection is None:
            continue
        for value in getattr(memory, kind.collection):
            yield Held(name, kind.key(value), value)
