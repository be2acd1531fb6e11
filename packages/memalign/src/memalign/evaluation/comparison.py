"""Whether one judge agrees with people better than another, case by case on the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from memalign.errors import InputError
from memalign.evaluation.cases import ScoredCase, clusters, estimate, same_value
from memalign.evaluation.intervals import paired_interval
from memalign.metrics import Estimate, mcnemar_exact
from memalign.notebook import html_view
from memalign.values import value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation

__all__ = ["Comparison", "compare"]

Verdict = Literal["ahead", "behind", "tied"]

_ALPHA = 0.05
_WORDS: dict[Verdict, str] = {
    "ahead": "the second judge is better",
    "behind": "the second judge is worse",
    "tied": "no clear difference",
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The second judge's accuracy against the first's, over the cases that both scored.

    Attributes:
        n: How many cases both scored.
        left_out: Cases that are in one evaluation only, or lack a verdict in one.
        verdict: The second's: "ahead" or "behind" when the interval of the difference excludes 0 and p is below 0.05;
            else "tied", which says that n cases do not tell them apart, not that they are equal.
        first: The first judge's accuracy on these cases.
        second: The second's.
        difference: Second minus first, with its interval at 95 %.
        fixed: The ids that only the second got right.
        broken: Those that only the first did.
        mcnemar_p: McNemar's exact p of their difference.
    """

    n: int
    left_out: int
    verdict: Verdict
    first: float
    second: float
    difference: Estimate
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    mcnemar_p: float

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_view(str(self).splitlines())

    def __str__(self) -> str:
        pairs = f"n = {self.n} cases scored by both"
        if self.left_out:
            pairs += f", {self.left_out} left out"
        difference = f"{self.difference:+.2f}  {self.difference.no_interval or ''}".rstrip()
        lines = [
            f"{_WORDS[self.verdict]}, {pairs}",
            f"accuracy: {self.first:.2f} -> {self.second:.2f}  difference {difference}",
            f"{len(self.fixed)} fixed, {len(self.broken)} broken; McNemar p = {self.mcnemar_p:.3f}",
        ]
        for name, ids in (("fixed", self.fixed), ("broken", self.broken)):
            if ids:
                lines.append(f"{name}: {', '.join(ids)}")
        return "\n".join(lines)


def compare(
    first: Evaluation | Sequence[ScoredCase], second: Evaluation | Sequence[ScoredCase]
) -> Comparison:
    """Compare two judges on the cases that both scored, paired by id.

    Where cases have a group, the interval is wider; fewer than ten groups give none, and the two are tied.

    Args:
        first: An evaluation, or scored cases.
        second: The other judge's, of the same labelled file.

    Returns:
        The second against the first.

    Raises:
        InputError: No case was scored by both, or a case has two different labels.
    """
    before, after = _by_id(first), _by_id(second)
    shared = [(old, after[name]) for name, old in before.items() if name in after]
    pairs = [(old, new) for old, new in shared if old.value is not None and new.value is not None]
    if not pairs:
        raise InputError(
            "no case was scored in both; evaluate both judges on the same labelled file"
        )
    _check_labels(pairs)
    n = len(pairs)
    groups = clusters([old for old, _ in pairs])
    changes = [bool(new.correct) - bool(old.correct) for old, new in pairs]
    difference = estimate(sum(changes) / n, groups, lambda: paired_interval(changes, groups))
    fixed = tuple(new.id for old, new in pairs if new.correct and not old.correct)
    broken = tuple(new.id for old, new in pairs if old.correct and not new.correct)
    p = mcnemar_exact(len(fixed), len(broken))
    return Comparison(
        n=n,
        left_out=len(before.keys() | after.keys()) - n,
        verdict=_verdict(difference, p),
        first=sum(bool(old.correct) for old, _ in pairs) / n,
        second=sum(bool(new.correct) for _, new in pairs) / n,
        difference=difference,
        fixed=fixed,
        broken=broken,
        mcnemar_p=p,
    )


def _by_id(side: Evaluation | Sequence[ScoredCase]) -> dict[str, ScoredCase]:
    cases = side if isinstance(side, Sequence) else side.cases
    return {case.id: case for case in cases}


def _check_labels(pairs: Sequence[tuple[ScoredCase, ScoredCase]]) -> None:
    """Refuse a case that has two different labels."""
    for old, new in pairs:
        if not same_value(old.label, new.label):
            raise InputError(
                f"{old.id!r} has label {value_text(old.label)} in the first and {value_text(new.label)} in the "
                "second; evaluate both judges on the same labelled file"
            )


def _verdict(difference: Estimate, p: float) -> Verdict:
    if difference.low is None or difference.high is None or p >= _ALPHA:
        return "tied"
    if difference.low > 0:
        return "ahead"
    return "behind" if difference.high < 0 else "tied"
