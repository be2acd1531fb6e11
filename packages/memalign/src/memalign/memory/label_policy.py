"""Several people on one case: which label counts.

A judge's policy is an order of rules: by default authority, then majority, then recency. The canonical order of sources
comes last, so that the answer never depends on the order in which annotations arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from memalign.errors import InputError
from memalign.values import Value

__all__ = [
    "POLICY",
    "LabelledAnnotation",
    "Rule",
    "checked_authority",
    "checked_policy",
    "policy_label",
    "policy_strength",
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


def policy_label(
    annotations: Sequence[LabelledAnnotation], authority: Sequence[str] = (), policy: Sequence[Rule] = POLICY
) -> Value | None:
    """The effective label of one case, or None when nobody gave one.

    Under `authority` the label of the first of these sources that spoke; under `majority` the most frequent one; under
    `recency` the one given last (an annotation without a time counts as the oldest). A rule that leaves several labels hands
    them on to the next.
    """
    labelled = [annotation for annotation in annotations if annotation.value is not None]
    if len(labelled) == 1:
        return labelled[0].value  # nearly all cases, and asked of every case again and again
    by_label: dict[tuple[str, Value | None], list[LabelledAnnotation]] = {}
    for annotation in labelled:
        # A bool and an int of equal value never meet in one judge; the type keeps them apart all the same.
        by_label.setdefault((type(annotation.value).__name__, annotation.value), []).append(annotation)
    if not by_label:
        return None
    best = max(by_label.values(), key=lambda said: (policy_strength(said, authority, policy), max(map(_recency, said))))
    return best[0].value


def policy_strength(
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


def _recency(annotation: LabelledAnnotation) -> tuple[str, str, str]:
    # created_at is normalised to UTC ISO 8601 by Feedback, so text order is time order.
    return (annotation.created_at or "", annotation.source, str(annotation.value))
