"""The kinds of rows that hold a judge: the type of each, and people's words and names in it.

Keeping, forgetting, searching and the receipt read this one table, so that a new kind of memory is
one entry here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from memalign.content.walk import texts_in
from memalign.memory import Annotation, FeedbackConflict, PreAlignmentVerdict, Tombstone
from memalign.types import Example, FeedbackKey, Guideline, canonical_json
from memalign.values import Value

__all__ = ["DISTILLED", "KINDS", "NAMES", "SENTENCES", "Kind", "TextKind"]

DISTILLED = "distilled"
"""The origin of a guideline that a model wrote."""

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


def _no_reason(value: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one kind of row holds.

    Attributes:
        type: The type of a value; None for plain JSON values, and for a vector, which is raw bytes.
        texts: Returns what people or judged systems wrote, as JSON values. Labels of a closed type
            are nobody's words.
        names: Returns the people whom fields name.
        reason: Returns what memalign or a model says there about other rows' feedback.
        quotes: Returns what a model said of the case itself, which may share a few words with
            people's by chance.
        keys: Returns the feedback that the row is, or came from: whose words were in view when it
            was written.
        about: Returns the id of the case that it is about and who speaks there, None for the case
            itself.
        collection: The field of a memory that holds all of this kind; None if cases hold them.
        key: Returns the key of a value's row, for kinds with a collection.
        order: Returns what values are ordered by, for kinds with a collection.
    """

    type: Any = None
    texts: Callable[[Any], Iterable[Any]] = _nothing
    names: Callable[[Any], Iterable[str | None]] = _nothing
    reason: Callable[[Any], str] = _no_reason
    quotes: Callable[[Any], Iterable[str]] = _nothing
    keys: Callable[[Any], Iterable[FeedbackKey]] = _nothing
    about: Callable[[Any], tuple[str, str | None]] | None = None
    collection: str | None = None
    key: Callable[[Any], str] = str
    order: Callable[[Any], Any] = str

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


def _free_label(value: Value | None) -> Value | None:
    """Return a label that is free text; one of two words may be a choice of the judge's type."""
    return value if isinstance(value, str) and len(value.split()) > 2 else None


def _texts_of_guideline(guideline: Guideline) -> Iterator[Any]:
    yield guideline.text
    for test in guideline.tests:
        yield from (test.text, _free_label(test.value))


def _who_did(entry: Any) -> list[str | None]:
    return [getattr(entry, name, None) for name in NAMES]


KINDS = {
    "judge": Kind(texts=lambda setting: [setting]),
    "memory": Kind(
        texts=lambda state: [state],
        names=lambda state: state if isinstance(state, list) else [],
    ),
    "case": Kind(
        type=Example,
        texts=lambda case: [case.id, *case.content.values(), case.meta],
        about=lambda case: (case.id, None),
    ),
    "annotation": Kind(
        type=Annotation,
        texts=lambda said: [
            said.id,
            said.rationale,
            _free_label(said.value),
            said.meta,
        ],
        names=lambda said: [said.source],
        reason=lambda said: said.outcome.reason if said.outcome is not None else "",
        keys=lambda said: [
            said.key,
            *(said.outcome.exposed_to if said.outcome else ()),
        ],
        about=lambda said: said.key,
    ),
    "pre_alignment": Kind(
        type=PreAlignmentVerdict,
        texts=lambda verdict: [verdict.rationale],
        quotes=lambda verdict: [verdict.rationale or ""],
        keys=lambda verdict: verdict.exposed_to,
    ),
    "vector": Kind(),
    "guideline": Kind(
        type=Guideline,
        texts=_texts_of_guideline,
        names=lambda guideline: [
            *(guideline.people - {DISTILLED}),
            *_who_did(guideline),
        ],
        keys=lambda guideline: (*guideline.exposed_to, *guideline.supported_by),
        collection="guidelines",
        key=lambda guideline: guideline.id,
        order=lambda guideline: guideline.number,
    ),
    "tombstone": Kind(
        type=Tombstone,
        texts=lambda stone: [stone.key.id],
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
