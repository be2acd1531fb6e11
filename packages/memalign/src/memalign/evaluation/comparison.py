"""Whether one judge agrees with people better than another, case by case on the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memalign.errors import InputError
from memalign.evaluation.cases import (
    Cases,
    ScoredCase,
    accuracy,
    clusters,
    same_value,
    with_verdict,
)
from memalign.evaluation.intervals import estimate_mean, paired_interval
from memalign.evaluation.wording import say
from memalign.metrics import Estimate, mcnemar_exact
from memalign.notebook import html_view
from memalign.values import value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation

__all__ = ["Comparison", "compare"]

Verdict = Literal["ahead", "behind", "tied"]

_ALPHA = 0.05
_SAME_FILE = "evaluate both judges on the same labelled file"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The second judge's accuracy against the first's, over the cases that both scored.

    Attributes:
        n: How many cases both scored.
        left_out: Cases that are in one evaluation only, or lack a verdict in one.
        verdict: The second's: "ahead" or "behind" when the interval of the difference excludes 0
            and p is below 0.05; else "tied", which says that n cases do not tell them apart, not
            that they are equal.
        first: The first judge's accuracy on these cases, with its interval at 95 %.
        second: The second's.
        difference: Second minus first, with its interval at 95 %.
        fixed: The ids that only the second got right.
        broken: Those that only the first did.
        mcnemar_p: McNemar's exact p of their difference.
    """

    n: int
    left_out: int
    verdict: Verdict
    first: Estimate
    second: Estimate
    difference: Estimate
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    mcnemar_p: float

    def __str__(self) -> str:
        return "\n".join(say("comparison", one=self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_view(str(self).splitlines())


def compare(first: Evaluation | Cases, second: Evaluation | Cases) -> Comparison:
    """Compare two judges on the cases that both scored, paired by id.

    Where cases have a group, the interval is wider; fewer than ten groups give none, and the two
    are tied.

    Args:
        first: An evaluation, or scored cases.
        second: The other judge's, of the same labelled file.

    Returns:
        The second against the first.

    Raises:
        InputError: No case was scored by both, or a case has two different labels.
    """
    before = first if isinstance(first, Sequence) else first.cases
    after = second if isinstance(second, Sequence) else second.cases
    scored = {case.id: case for case in with_verdict(after)}
    old = [case for case in with_verdict(before) if case.id in scored]
    new = [scored[case.id] for case in old]
    if not old:
        raise InputError(f"no case was scored in both; {_SAME_FILE}")
    fixed = []
    broken = []
    changes = []
    for one, other in zip(old, new, strict=True):
        _need_same_label(one, other)
        change = bool(other.correct) - bool(one.correct)
        changes.append(change)
        if change > 0:
            fixed.append(one.id)
        if change < 0:
            broken.append(one.id)
    difference = estimate_mean(changes, clusters(old), paired_interval)
    p = mcnemar_exact(len(fixed), len(broken))
    every = {case.id for case in (*before, *after)}
    return Comparison(
        n=len(old),
        left_out=len(every) - len(old),
        verdict=_verdict(difference, p),
        first=accuracy(old),
        second=accuracy(new),
        difference=difference,
        fixed=tuple(fixed),
        broken=tuple(broken),
        mcnemar_p=p,
    )


def _need_same_label(one: ScoredCase, other: ScoredCase) -> None:
    """Refuse a case that has another label in the second evaluation."""
    if not same_value(one.label, other.label):
        raise InputError(
            f"{one.id!r} has label {value_text(one.label)} in the first and "
            f"{value_text(other.label)} in the second; {_SAME_FILE}"
        )


def _verdict(difference: Estimate, p: float) -> Verdict:
    if p < _ALPHA and (difference.low or 0) > 0:
        return "ahead"
    if p < _ALPHA and (difference.high or 0) < 0:
        return "behind"
    return "tied"
