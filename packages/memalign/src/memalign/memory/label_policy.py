"""The label that counts if people differ: by authority, then by majority, then by recency."""

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
    """Return the sources as memory keeps them, each once.

    Raises:
        InputError: It is a bare name, whose letters would be sources.
    """
    if isinstance(authority, str):
        raise InputError(
            f"authority is a list of sources in order of priority, for example ({authority!r},)"
        )
    return tuple(dict.fromkeys(first_spellings(authority).values()))


def policy_label(
    annotations: Sequence[Annotation | Feedback], authority: Sequence[str] = ()
) -> Value | None:
    """Return the effective label of one case, or None if nobody gave one or it is a tie.

    The label of the first of the `authority` that spoke counts, else the most frequent one, else
    the one given last. A label that no named source gave never outranks one that somebody did.

    Args:
        annotations: All that people said of the case.
        authority: The sources whose label decides, first one first.
    """
    sides: dict[Value, list[Annotation | Feedback]] = {}
    for annotation in annotations:
        if annotation.value is not None:
            sides.setdefault(annotation.value, []).append(annotation)
    if len(sides) < 2:
        return next(iter(sides), None)
    order = list(map(name_key, authority))
    first = None
    heaviest = None
    for label, said in sides.items():
        weight = _weight(said, order)
        if heaviest is None or weight > heaviest:
            heaviest = weight
            first = label
        elif weight == heaviest:
            first = None  # a tie, unless another label weighs more
    return first


def _weight(
    side: Sequence[Annotation | Feedback], order: Sequence[str]
) -> tuple[bool, int, int, str]:
    """Return how much a label weighs; `order` holds the folded names of the authority."""
    named = False
    place = len(order)
    latest = ""
    for annotation in side:
        name = name_key(annotation.source)
        # An unnamed source is `unknown`, or `unknown:ID` if several are told apart.
        base, _, _ = name.partition(":")
        if name in order:
            named = True
            place = min(place, order.index(name))
        elif base != UNKNOWN_SOURCE:
            named = True
        if annotation.created_at:
            latest = max(latest, annotation.created_at)
    return named, -place, len(side), latest
