"""Whether one judge agrees with people better than another, case by case on the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from memalign.errors import InputError
from memalign.evaluation.cases import ScoredCase, clusters, estimate, same_value
from memalign.evaluation.intervals import difference_interval, paired_interval
from memalign.metrics import Estimate, Statistic, accuracy, ccc, mcnemar_exact
from memalign.values import Value, value_text

if TYPE_CHECKING:
    from memalign.evaluation.agreement import Evaluation

__all__ = ["Comparison", "compare"]

_ALPHA = 0.05
_SMALL = 0.001  # a smaller p is not written out


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The second judge against the first, over the `n` cases that both scored.

    `first` and `second` have each judge's figures on these cases, `differences` second minus first with 95 % intervals:
    accuracy (not for float), and ccc for numbers. `fixed` are the ids that only the second got right, `broken` those
    that only the first did; `mcnemar_p` is McNemar's exact p of their difference. These four are None or empty for
    float, where right and wrong have no edge. `left_out` cases are in one evaluation only, or lack a verdict in one.

    `verdict` is the second's, on `metric` (ccc for numbers, else accuracy): "ahead" or "behind" when the interval
    excludes 0, and for accuracy McNemar's p is below 0.05 too; else "tied", which says that n cases do not tell them
    apart, not that they are equal.
    """

    n: int
    left_out: int
    metric: str
    verdict: Literal["ahead", "behind", "tied"]
    first: dict[str, float | None]
    second: dict[str, float | None]
    differences: dict[str, Estimate]
    both_right: int | None
    both_wrong: int | None
    fixed: tuple[str, ...]
    broken: tuple[str, ...]
    mcnemar_p: float | None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values."""
        return dict(msgspec.to_builtins(self))

    def __str__(self) -> str:
        pairs = f"n = {self.n} cases scored by both" + (f", {self.left_out} left out" if self.left_out else "")
        metric = self.metric.replace("_", " ")
        lines = [f"the second judge is {'better' if self.verdict == 'ahead' else 'worse'} ({metric}), {pairs}"]
        if self.verdict == "tied":
            lines = [f"no clear difference ({metric}), {pairs}"]
        for name, difference in self.differences.items():
            before, after = Estimate(value=self.first[name]), Estimate(value=self.second[name])
            line = f"{name.replace('_', ' ')}: {before} -> {after}"
            if difference.value is not None:
                line += f"  difference {difference:+.2f}  {difference.no_interval or ''}".rstrip()
            lines.append(line)
        if self.mcnemar_p is not None:
            lines.append(
                f"{len(self.fixed)} fixed, {len(self.broken)} broken, {self.both_right} right both times, "
                f"{self.both_wrong} wrong both times; McNemar p "
                + (f"= {self.mcnemar_p:.3f}" if self.mcnemar_p >= _SMALL else f"< {_SMALL}")
            )
            ids = {"fixed": self.fixed, "broken": self.broken}
            lines += [f"{name}: {', '.join(ids[name])}" for name in ids if ids[name]]
        return "\n".join(lines)


def compare(first: Evaluation | Sequence[ScoredCase], second: Evaluation | Sequence[ScoredCase]) -> Comparison:
    """Compare two judges on the cases that both scored, paired by id.

    Where cases have a group, intervals are wider; fewer than ten groups give none, and the two are tied.

    Args:
        first: An evaluation, or scored cases.
        second: The other judge's, of the same labelled file.

    Returns:
        The second against the first.

    Raises:
        InputError: No case was scored by both, or a case has two different labels.
    """
    before, after = _by_id(first), _by_id(second)
    pairs: list[ScoredCase] = []
    rows: list[tuple[Value, Value, Value]] = []
    for example_id, one in before.items():
        other = after.get(example_id)
        if other is None or one.value is None or other.value is None:
            continue
        if not same_value(one.label, other.label):
            raise InputError(
                f"{example_id!r} has label {value_text(one.label)} in the first and {value_text(other.label)} in the "
                "second; evaluate both judges on the same labelled file"
            )
        pairs.append(one)
        rows.append((one.label, one.value, other.value))
    if not pairs:
        raise InputError("no case was scored in both; evaluate both judges on the same labelled file")
    columns = zip(*rows, strict=True)
    truth, old, new = ([value.strip() if isinstance(value, str) else value for value in column] for column in columns)
    groups, every = clusters(pairs), [*truth, *old, *new]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in every)
    continuous = numeric and any(isinstance(value, float) for value in every)

    statistics: dict[str, Statistic] = {} if continuous else {"accuracy": accuracy}
    statistics |= {"ccc": ccc} if numeric else {}
    differences = {name: _difference(statistic, old, new, truth, groups) for name, statistic in statistics.items()}
    right = [(case.id, a == label, b == label) for case, label, a, b in zip(pairs, truth, old, new, strict=True)]
    fixed = () if continuous else tuple(name for name, a, b in right if b and not a)
    broken = () if continuous else tuple(name for name, a, b in right if a and not b)
    p = None if continuous else mcnemar_exact(len(fixed), len(broken))
    # Of labels that are all the same there is no concordance.
    metric = "ccc" if numeric and (continuous or differences["ccc"].value is not None) else "accuracy"
    return Comparison(
        n=len(pairs),
        left_out=len(before.keys() | after.keys()) - len(pairs),
        metric=metric,
        verdict=_verdict(differences[metric], p if metric == "accuracy" else None),
        first={name: statistic(old, truth) for name, statistic in statistics.items()},
        second={name: statistic(new, truth) for name, statistic in statistics.items()},
        differences=differences,
        both_right=None if continuous else sum(a and b for _, a, b in right),
        both_wrong=None if continuous else sum(not a and not b for _, a, b in right),
        fixed=fixed,
        broken=broken,
        mcnemar_p=p,
    )


def _difference(
    statistic: Statistic,
    old: Sequence[Value],
    new: Sequence[Value],
    truth: Sequence[Value],
    groups: Sequence[str] | None,
) -> Estimate:
    before, after = statistic(old, truth), statistic(new, truth)

    def interval() -> tuple[float, float] | None:
        if statistic is not accuracy:
            return difference_interval(statistic, old, new, truth, groups)
        changes = [(b == label) - (a == label) for a, b, label in zip(old, new, truth, strict=True)]
        return paired_interval(changes, groups)

    return estimate(None if before is None or after is None else after - before, groups, interval)


def _verdict(difference: Estimate, p: float | None) -> Literal["ahead", "behind", "tied"]:
    if difference.low is None or difference.high is None or (p is not None and p >= _ALPHA):
        return "tied"
    return "ahead" if difference.low > 0 else "behind" if difference.high < 0 else "tied"


def _by_id(scored: Evaluation | Sequence[ScoredCase]) -> dict[str, ScoredCase]:
    cases = scored if isinstance(scored, Sequence) else scored.cases
    by_id = {case.id: case for case in cases}
    if len(by_id) != len(cases):
        raise InputError("an id comes twice among the cases of one evaluation")
    return by_id
