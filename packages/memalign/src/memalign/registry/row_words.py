"""What a row of memory says: the words of people in it, and whether it names or repeats what was erased."""

from __future__ import annotations

from collections.abc import Iterator

from memalign.memory import Annotation, Answers
from memalign.registry.judge_rows import Codec
from memalign.registry.residue import Residue, strings
from memalign.types import Example, FeedbackKey
from memalign.values import Value

__all__ = ["reason_of", "row_names", "state_words", "words_of"]


def words_of(codec: Codec, kind: str, body: bytes) -> Iterator[str]:
    """The texts that a person or a judged system wrote, in one row; labels of a closed type are no one's words."""
    if kind == "vector":
        return
    value = codec.decode(kind, body)
    if isinstance(value, Example):
        yield value.id
        yield from strings([*value.content.values(), value.meta])
    elif isinstance(value, Annotation):
        yield value.id
        yield from strings([value.rationale, *_label(value.value), value.meta])
    elif kind == "guideline":
        yield value.text
        for check in value.checks:
            yield check.question
            yield from strings(check.test and [check.test.text, check.test.then])
            yield from _label(check.value)
    elif isinstance(value, Answers):
        yield from value.margins
        yield from _label(value.verdict)
    elif kind == "pre_alignment":
        yield from strings([value.rationale])
    elif kind == "judge":
        yield from strings(value)
    elif kind == "tombstone":
        yield value.key.id
    elif kind == "conflict":
        yield value.about


def state_words(codec: Codec, kind: str, key: str, body: bytes) -> Iterator[str]:
    """What else a row says that may hold a searched text: its key, and the names and ids of a memory's state."""
    yield key
    if kind == "memory":
        yield from strings(codec.decode(kind, body))


def _label(value: Value | None) -> Iterator[str]:
    """A label of one word or two may be a choice of the judge's type; a longer one is free text."""
    if isinstance(value, str) and len(value.split()) > 2:
        yield value


def reason_of(codec: Codec, kind: str, body: bytes) -> str:
    """What memalign says of a piece of feedback's state; empty for other rows."""
    if kind == "annotation":
        outcome = codec.decode(kind, body).outcome
        return "" if outcome is None else str(outcome.reason)
    return str(codec.decode(kind, body).reason) if kind == "tombstone" else ""


def row_names(codec: Codec, residue: Residue, kind: str, key: str, body: bytes) -> bool:
    """Whether a row is one of the erased keys, names one, or came from one; its reason must not repeat their words."""
    match kind:
        case "annotation" | "tombstone":
            of_person = residue.person is not None and FeedbackKey.parse(key).source == residue.person
            return of_person or key in residue.names or residue.in_sentence(reason_of(codec, kind, body))
        case "guideline":
            guideline = codec.decode(kind, body)
            named = residue.person is not None and residue.person in (*guideline.people, guideline.retired_by)
            return named or not residue.keys.isdisjoint((*guideline.exposed_to, *guideline.supported_by))
        case "conflict":
            conflict = codec.decode(kind, body)
            return not residue.keys.isdisjoint((*conflict.feedback, *conflict.exposed_to))
        case "memory":
            return key == "authority" and residue.person in codec.decode(kind, body)
    return False
