"""Several people on one case: which label counts, by authority, then by majority, then by recency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memalign.errors import InputError
from memalign.keys import first_spellings, name_key
from memalign.types import UNKNOWN_SOURCE, Feedback
from memalign.values import Value

if TYPE_CHECKING:
    from memalign.memory.model import Annotation

__all__ = ["checked_authority", "policy_label"]


def checked_authority(authority: Sequence[str]) -> tuple[str, ...]:
    """The sources as memory keeps them, each once. Raises InputError for a bare name: its letters would be sources."""
    if isinstance(authority, str):
        raise InputError(
            f"authority is a list of sources in order of priority, for example ({authority!r},)"
        )
    return tuple(dict.fromkeys(first_spellings(authority).values()))


def policy_label(
    annotations: Sequence[Annotation | Feedback], authority: Sequence[str] = ()
) -> Value | None:
    """The effective label of one case, of all that people said of it, or None when nobody gave one.

    The label of the first of the `authority` that spoke counts; else the most frequent one; else the one given last. Of
    two that all leave equal none does. A label that no named source gave never outranks one that somebody did.
    """
    labelled = [annotation for annotation in annotations if annotation.value is not None]
    if len(labelled) < 2:  # nearly all cases, and asked of every case again and again
        return labelled[0].value if labelled else None
    sides: dict[tuple[str, str], list[Annotation | Feedback]] = {}
    for annotation in labelled:
        # A bool and an int of equal value never meet in one judge; the type keeps them apart all the same.
        sides.setdefault((type(annotation.value).__name__, str(annotation.value)), []).append(
            annotation
        )
    ranks: dict[str, int] = {}
    for place, source in enumerate(authority):
        ranks.setdefault(name_key(source), -place)

    def weight(side: Sequence[Annotation | Feedback]) -> tuple[bool, int, int, str]:
        # Nobody in particular is `unknown`, or `unknown:ID` where several such are told apart.
        people = {name_key(annotation.source) for annotation in side}
        named = any(name.partition(":")[0] != UNKNOWN_SOURCE or name in ranks for name in people)
        rank = max(ranks.get(name, -len(authority)) for name in people)
        return named, rank, len(side), max(annotation.created_at or "" for annotation in side)

    first, *rest = sorted(sides.values(), key=weight, reverse=True)
    return None if rest and weight(first) == weight(rest[0]) else first[0].value
