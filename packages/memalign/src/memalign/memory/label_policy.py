"""Several people on one case: which label counts.

A judge's policy is an order of rules: by default authority, then majority, then recency. Where all of them leave two labels
equal, none counts: which name comes first in the alphabet says nothing about the case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from memalign.errors import InputError
from memalign.types import UNKNOWN_SOURCE
from memalign.values import Value

__all__ = [
    "POLICY",
    "LabelledAnnotation",
    "Rule",
    "checked_authority",
    "checked_policy",
    "is_unknown",
    "policy_label",
    "policy_reason",
]

Rule = Literal["authority", "majority", "recency"]

POLICY: tuple[Rule, ...] = ("authority", "majority", "recency")
"""By what several people's labels are weighed when the judge does not say otherwise."""


def checked_policy(policy: Sequence[Rule]) -> tuple[Rule, ...]:
    """The policy as memory keeps it. Raises InputError for an unknown or repeated rule, and for none."""
    rules = () if isinstance(policy, str) else tuple(policy)
    if not rules or len(set(rules)) < len(rules) or not set(rules) <= set(POLICY):
        raise InputError(f"a policy is an order of {', '.join(POLICY)}, each at most once")
    return rules


def checked_authority(authority: Sequence[str]) -> tuple[str, ...]:
    """The sources as memory keeps them, each once. Raises InputError for a bare name, whose letters would be sources."""
    if isinstance(authority, str):
        raise InputError(f"authority is several sources, the first one first: ({authority!r},)")
    return tuple(dict.fromkeys(authority))


class LabelledAnnotation(Protocol):
    """What the policy needs of an annotation; Feedback and Annotation both have it."""

    @property
    def source(self) -> str:
        """Who speaks."""

    @property
    def value(self) -> Value | None:
        """Their label, if they gave one."""

    @property
    def created_at(self) -> str | None:
        """When, as ISO 8601 in UTC."""


def is_unknown(source: str) -> bool:
    """Whether the source is nobody in particular: `unknown`, or `unknown:ID` where several such are told apart."""
    return source.partition(":")[0] == UNKNOWN_SOURCE


def policy_label(
    annotations: Sequence[LabelledAnnotation], authority: Sequence[str] = (), policy: Sequence[Rule] = POLICY
) -> Value | None:
    """The effective label of one case, or None when nobody gave one.

    Under `authority` the label of the first of these sources that spoke; under `majority` the most frequent one; under
    `recency` the one given last (an annotation without a time counts as the oldest). A rule that leaves several labels hands
    them on to the next; of two that all rules leave equal none is effective. A label that no named source gave never
    outranks one that somebody did.
    """
    sides = _sides(annotations, authority, policy)
    if not sides or (len(sides) > 1 and sides[0][0] == sides[1][0]):
        return None
    return sides[0][1][0].value


def policy_reason(
    annotations: Sequence[LabelledAnnotation], authority: Sequence[str] = (), policy: Sequence[Rule] = POLICY
) -> str:
    """Why the effective label of one case counts, or why none does, in words; empty where nobody differs."""
    sides = _sides(annotations, authority, policy)
    if len(sides) < 2:
        return ""
    (best, ours), (second, theirs) = sides[0], sides[1]
    if best == second:
        return "a tie: no label counts until somebody settles it"
    if best[0] != second[0]:
        return "the other label is of an unknown source"
    rule = next(name for name, mine, other in zip(policy, best[1:], second[1:], strict=True) if mine != other)
    if rule == "authority":
        sources = {each.source for each in ours}
        return f"by authority: {next(source for source in authority if source in sources)}"
    if rule == "majority":
        return f"by majority: {len(ours)} against {len(theirs)}"
    return "by recency: it was given last"


def _sides(
    annotations: Sequence[LabelledAnnotation], authority: Sequence[str], policy: Sequence[Rule]
) -> list[tuple[tuple[Any, ...], list[LabelledAnnotation]]]:
    """The annotations of each label with how much they weigh, the heaviest first; by the label's text between equals."""
    labelled = [annotation for annotation in annotations if annotation.value is not None]
    if len(labelled) == 1:
        return [((), labelled)]  # nearly all cases, and asked of every case again and again
    by_label: dict[tuple[str, str], list[LabelledAnnotation]] = {}
    for annotation in labelled:
        # A bool and an int of equal value never meet in one judge; the type keeps them apart all the same.
        by_label.setdefault((type(annotation.value).__name__, str(annotation.value)), []).append(annotation)

    def weight(said: Sequence[LabelledAnnotation]) -> tuple[Any, ...]:
        named = any(not is_unknown(each.source) or each.source in authority for each in said)
        return (named, *_strength(said, authority, policy))

    found = [(weight(by_label[label]), by_label[label]) for label in sorted(by_label)]
    return sorted(found, key=lambda side: side[0], reverse=True)


def _strength(
    annotations: Sequence[LabelledAnnotation], authority: Sequence[str] = (), policy: Sequence[Rule] = POLICY
) -> tuple[Any, ...]:
    """How much one side of a question weighs under a policy, as a tuple: the larger one counts.

    `authority`: the rank of its best source; `majority`: its annotations; `recency`: its last word.
    """
    ranks = {source: -place for place, source in enumerate(authority)}
    weights = {
        "authority": max(
            (ranks.get(annotation.source, -len(ranks)) for annotation in annotations), default=-len(ranks)
        ),
        "majority": len(annotations),
        "recency": max((annotation.created_at or "" for annotation in annotations), default=""),
    }
    return tuple(weights[rule] for rule in policy)
