"""Several people on one case: which label counts.

By authority, then by majority, then by recency. Where all of them leave two labels equal, none counts: which name comes
first in the alphabet says nothing about the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from memalign.errors import InputError
from memalign.types import UNKNOWN_SOURCE, Feedback
from memalign.values import Value

if TYPE_CHECKING:
    from memalign.memory.model import Annotation

__all__ = ["checked_authority", "policy_label", "policy_reason"]


def checked_authority(authority: Sequence[str]) -> tuple[str, ...]:
    """The sources as memory keeps them, each once. Raises InputError for a bare name: its letters would be sources."""
    if isinstance(authority, str):
        raise InputError(f"authority is a list of sources in order of priority, for example ({authority!r},)")
    return tuple(dict.fromkeys(authority))


def policy_label(annotations: Sequence[Annotation | Feedback], authority: Sequence[str] = ()) -> Value | None:
    """The effective label of one case, of all that people said of it, or None when nobody gave one.

    The label of the first of the `authority` that spoke counts; else the most frequent one; else the one given last. Of
    two that all leave equal none does. A label that no named source gave never outranks one that somebody did.
    """
    ranked = _ranked(annotations, authority)
    if not ranked or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1][0].value


def policy_reason(annotations: Sequence[Annotation | Feedback], authority: Sequence[str] = ()) -> str:
    """Why the effective label of one case counts, or why none does, in words; empty where nobody differs."""
    ranked = _ranked(annotations, authority)
    if len(ranked) < 2:
        return ""
    (first, winners), (second, losers) = ranked[0], ranked[1]
    if first == second:
        return "a tie, so no label counts until somebody settles it"
    if first.named != second.named:
        return "the other label has no source"
    if first.authority != second.authority:
        sources = {annotation.source for annotation in winners}
        return f"by authority: {next(source for source in authority if source in sources)}"
    if first.majority != second.majority:
        return f"by majority: {len(winners)} against {len(losers)}"
    return "by recency: it is the latest"


Side = list["Annotation | Feedback"]


class _Weight(NamedTuple):
    """What the label of a side weighs, the first difference first."""

    named: bool = True
    authority: int = 0
    majority: int = 0
    recency: str = ""


def _ranked(annotations: Sequence[Annotation | Feedback], authority: Sequence[str]) -> list[tuple[_Weight, Side]]:
    """The annotations of each label with their weight, the heaviest first; by the label's text between equals."""
    labelled = [annotation for annotation in annotations if annotation.value is not None]
    if len(labelled) == 1:
        return [(_Weight(), labelled)]  # nearly all cases, and asked of every case again and again
    sides: dict[tuple[str, str], Side] = {}
    for annotation in labelled:
        # A bool and an int of equal value never meet in one judge; the type keeps them apart all the same.
        sides.setdefault((type(annotation.value).__name__, str(annotation.value)), []).append(annotation)
    ranks = {source: -place for place, source in enumerate(authority)}

    def weight(side: Side) -> _Weight:
        return _Weight(
            # Nobody in particular is `unknown`, or `unknown:ID` where several such are told apart.
            named=any(a.source.partition(":")[0] != UNKNOWN_SOURCE or a.source in ranks for a in side),
            authority=max(ranks.get(annotation.source, -len(ranks)) for annotation in side),
            majority=len(side),
            recency=max(annotation.created_at or "" for annotation in side),
        )

    weighed = [(weight(sides[label]), sides[label]) for label in sorted(sides)]
    return sorted(weighed, key=lambda pair: pair[0], reverse=True)
