"""The kinds of a judge's rows: what each holds of people's words and names, and from which feedback it came.

Erasing, searching and the receipt read this one table. Labels of a closed type are nobody's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from memalign.content.walk import texts_in
from memalign.registry.judge_rows import Codec
from memalign.types import CodeTest, FeedbackKey
from memalign.values import Value

__all__ = ["DISTILLED", "NAMES", "keys_in", "names_in", "reason_of", "words_of"]

DISTILLED = "distilled"
"""The origin of a guideline that a model wrote."""

NAMES = ("pinned_by", "retired_by", "dismissed_by", "ruled_by", "unruled_by")
"""Fields of guidelines and conflicts that say who did something."""


class _Kind(NamedTuple):
    words: Callable[[Any], list[Any]]
    names: Callable[[Any], list[str | None]] = lambda value: []
    keys: Callable[[Any], tuple[FeedbackKey, ...]] = lambda value: ()


def _label(value: Value | None) -> Value | None:
    """Return a label that is free text; one of a word or two may be a choice of the judge's type."""
    return value if isinstance(value, str) and len(value.split()) > 2 else None


def _words_of_test(test: CodeTest) -> list[Any]:
    return [test.text, _label(test.value)]


def _who_did(entry: Any) -> list[str | None]:
    return [getattr(entry, name, None) for name in NAMES]


_KINDS = {
    "case": _Kind(lambda case: [case.id, *case.content.values(), case.meta]),
    "annotation": _Kind(
        lambda annotation: [
            annotation.id,
            annotation.rationale,
            _label(annotation.value),
            annotation.meta,
        ],
        names=lambda annotation: [annotation.source],
    ),
    "guideline": _Kind(
        lambda guideline: [
            guideline.text,
            *chain.from_iterable(map(_words_of_test, guideline.tests)),
        ],
        names=lambda guideline: [*(guideline.people - {DISTILLED}), *_who_did(guideline)],
        keys=lambda guideline: (*guideline.exposed_to, *guideline.supported_by),
    ),
    "pre_alignment": _Kind(lambda verdict: [verdict.rationale]),
    "judge": _Kind(lambda setting: [setting]),
    "tombstone": _Kind(lambda stone: [stone.key.id], names=lambda stone: [stone.key.source]),
    "conflict": _Kind(
        lambda conflict: [conflict.about],
        names=_who_did,
        keys=lambda conflict: (*conflict.feedback, *conflict.exposed_to),
    ),
}


def words_of(codec: Codec, kind: str, body: bytes) -> Iterator[str]:
    """Yield the texts that a person or a judged system wrote, in one row."""
    if kind not in _KINDS:
        return iter(())
    return texts_in(_KINDS[kind].words(codec.decode(kind, body)))


def names_in(codec: Codec, kind: str, key: str, body: bytes) -> list[str]:
    """Return the names of people that fields of one row hold, as they wrote them."""
    if kind == "memory" and key == "authority":
        return list(codec.decode(kind, body))
    names = _KINDS[kind].names(codec.decode(kind, body)) if kind in _KINDS else []
    return [name for name in names if name is not None]


def keys_in(codec: Codec, kind: str, key: str, body: bytes) -> tuple[FeedbackKey, ...]:
    """Return the feedback that one row is, or came from."""
    if kind in ("annotation", "tombstone"):
        return (FeedbackKey.parse(key),)
    return _KINDS[kind].keys(codec.decode(kind, body)) if kind in _KINDS else ()


def reason_of(codec: Codec, kind: str, body: bytes) -> str:
    """Return what memalign or a model says in a row of other rows' feedback; empty for kinds that say nothing."""
    if kind == "annotation":
        outcome = codec.decode(kind, body).outcome
        return outcome.reason if outcome is not None else ""
    if kind == "conflict":
        return str(codec.decode(kind, body).about)
    return ""
