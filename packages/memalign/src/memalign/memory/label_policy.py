"""Several people on one case: which label counts.

A judge's policy is an order of rules: by default authority, then majority, then recency. Where all of them leave two
labels equal, none counts: which name comes first in the alphabet says nothing about the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from memalign.errors import InputError
from memalign.types import UNKNOWN_SOURCE, Feedback
from memalign.values import Value

if TYPE_CHECKING:
    from memalign.memory.model import Annotation

__all__ = ["POLICY", "Rule", "checked_authority", "checked_policy", "policy_label", "policy_reason"]

Rule = Literal["authority", "majority", "recency"]

POLICY: tuple[Rule, ...] = ("authority", "majority", "recency")
"""By what several people's labels are weighed when the judge does not say otherwise."""


def checked_policy(policy: Sequence[Rule]) -> tuple[Rule, ...]:
    """The policy as memory keeps it. Raises InputError for an unknown or repeated rule, and for none."""
    rules = () if isinstance(policy, str) else tuple(policy)
    if not rules or len(set(rules)) < len(rules) or not set(rules) <= set(POLICY):
        raise InputError(f"a policy lists {', '.join(POLICY)} in order of priority, each at most once")
    return rules


def checked_authority(authority: Sequence[str]) -> tuple[str, ...]:
    """The sources as memory keeps them, each once. Raises InputError for a bare name: its letters would be sources."""
    if isinstance(authority, str):
        raise InputError(f"authority is a list of sources in order of priority, for example ({authority!r},)")
    return tuple(dict.fromkeys(authority))


def policy_label(
    annotations: Sequence[Annotation | Feedback], authority: Sequence[str] = (), policy: Sequence[Rule] = POLICY
) -> Value | None:
    """The effective label of one case, of all that people said of it, or None when nobody gave one.

    A rule of the `policy` that leaves several labels hands them on to the next: by `authority` the label of the first of
    these sources counts, by `majority` the most frequent one, by `recency` the one given last. Of two that all rules
    leave equal none is effective. A label that no named source gave never outranks one that somebody did.
    """
    ranked = _ranked(annotations, authority, policy)
    if not ranked or (len(ranked) > 1 and ranked[0][0] == ranked[1][0]):
        return None
    return ranked[0][1][0].value


def policy_reason(
    annotations: Sequence[Annotation | Feedback], authority: Sequence[str] = (), policy: Sequence[Rule] = POLICY
) -> str:
    """Why the effective label of one case counts, or why none does, in words; empty where nobody differs."""
    ranked = _ranked(annotations, authority, policy)
    if len(ranked) < 2:
        return ""
    (first, winners), (second, losers) = ranked[0], ranked[1]
    if first == second:
        return "a tie, so no label counts until somebody settles it"
    if first[0] != second[0]:
        return "the other label has no source"
    rule = next(name for name, one, other in zip(policy, first[1:], second[1:], strict=True) if one != other)
    if rule == "authority":
        sources = {annotation.source for annotation in winners}
        return f"by authority: {next(source for source in authority if source in sources)}"
    if rule == "majority":
        return f"by majority: {len(winners)} against {len(losers)}"
    return "by recency: it is the latest"


Side = list["Annotation | Feedback"]


def _ranked(
    annotations: Sequence[Annotation | Feedback], authority: Sequence[str], policy: Sequence[Rule]
) -> list[tuple[tuple[Any, ...], Side]]:
    """The annotations of each label with their weight, the heaviest first; by the label's text between equals."""
    labelled = [annotation for annotation in annotations if annotation.value is not None]
    if len(labelled) == 1:
        return [((), labelled)]  # nearly all cases, and asked of every case again and again
    sides: dict[tuple[str, str], Side] = {}
    for annotation in labelled:
        # A bool and an int of equal value never meet in one judge; the type keeps them apart all the same.
        sides.setdefault((type(annotation.value).__name__, str(annotation.value)), []).append(annotation)
    ranks = {source: -place for place, source in enumerate(authority)}

    def weight(side: Side) -> tuple[Any, ...]:
        # Nobody in particular is `unknown`, or `unknown:ID` where several such are told apart.
        named = any(a.source.partition(":")[0] != UNKNOWN_SOURCE or a.source in ranks for a in side)
        weights = {
            "authority": max(ranks.get(annotation.source, -len(ranks)) for annotation in side),
            "majority": len(side),
            "recency": max(annotation.created_at or "" for annotation in side),
        }
        return (named, *(weights[rule] for rule in policy))

    weighed = [(weight(sides[label]), sides[label]) for label in sorted(sides)]
    return sorted(weighed, key=lambda pair: pair[0], reverse=True)
