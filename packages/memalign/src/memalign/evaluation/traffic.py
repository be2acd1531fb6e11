"""The share of each label in real traffic: the judge's own share, corrected by its errors on labelled cases.

The point is that of prediction-powered inference with a power-tuned weight (Angelopoulos, Duchi and Zrnic 2023, PPI++),
which for a verdict of two values is the post-stratified share. Its interval is put together from Wilson's intervals of
the two strata (Zou and Donner 2008), because a normal one fails at thirty labels; benchmarks/coverage.py has tried it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from memalign.evaluation.cases import FEWEST_GROUPS, ScoredCase, clusters, estimate
from memalign.evaluation.intervals import mean_interval, share_interval
from memalign.metrics import Estimate, student_t
from memalign.values import Value, ValueType, value_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "FEWEST_LABELS",
    "JudgedRow",
    "Share",
    "Traffic",
    "corrected_mean",
    "corrected_share",
    "refusal",
    "traffic_of",
]

FEWEST_LABELS = 20
"""Labelled cases from which on a share is corrected: below, the intervals say next to nothing."""

_FEWEST_VERDICTS = 3
"""Labelled cases that the judge must put on either side, so that its errors there can be measured at all."""

_CHANCE = 1.07
"""The chi-square that chance alone exceeds in three of ten samples. A stricter test would keep only lucky samples,
whose intervals then cover too rarely."""

_ALL_TOGETHER = 4.0
"""Groups that are added in which all cases go together: ten groups show little of how far they do."""

_LEVEL = 0.95
_FEW_VALUES = 12  # verdicts that are compared between labelled and other rows


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of one label in the traffic, or the mean of a score. Intervals are at 95 %.

    Attributes:
        label: The label; None where it is the mean of a score.
        judge: As the judge says it, over all rows of the traffic.
        corrected: Corrected for the judge's errors; without a value where that is refused.
        people: As people say it, on the labelled cases alone.
        refused: Why there is no correction; empty where there is one.
    """

    label: Value | None
    judge: float
    corrected: Estimate
    people: Estimate
    refused: str = ""

    @property
    def name(self) -> str:
        """The label in words, or `mean`."""
        return "mean" if self.label is None else value_text(self.label)


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a judge's verdicts on unlabelled rows are worth, in the light of its errors on labelled ones.

    Attributes:
        system: The system or week that the rows name in their column `system`; None where they name none.
        labelled: How many labelled cases the correction rests on.
        judged: How many rows of traffic have a verdict, labelled ones that are among them included.
        unscored: How many have none, because the call failed.
        taught: How many were left out, because the judge was taught them.
        shares: A share for each label, or one for the mean.
        warnings: What speaks against the correction.
    """

    system: str | None = None
    labelled: int
    judged: int
    unscored: int = 0
    taught: int = 0
    shares: tuple[Share, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedRow:
    """One row of traffic: its verdict, and what it has in common with others; `taught` if the judge knows its label."""

    id: str
    value: Value | None
    group: str | None = None
    system: str | None = None
    taught: bool = False


def traffic_of(kind: ValueType, cases: Sequence[ScoredCase], rows: Sequence[JudgedRow]) -> tuple[Traffic, ...]:
    """Correct the judge's shares of traffic by its errors on labelled cases.

    Rows of several systems are corrected one by one, each by labelled cases of its own: a correction that is shared can
    turn the sign of a comparison (arXiv 2605.06939).

    Args:
        kind: The judge's value type.
        cases: Labelled cases, drawn at random from the same traffic; they may be among the rows.
        rows: The judged traffic.

    Returns:
        One result for each system, or one for all rows.
    """
    systems = sorted({row.system for row in rows if row.system is not None})
    if len(systems) < 2:
        return (_traffic(kind, cases, rows, systems[0] if systems else None),)
    each = []
    for system in systems:
        own = [case for case in cases if case.system == system]
        each.append(_traffic(kind, own, [row for row in rows if row.system == system], system))
    unnamed = [row for row in rows if row.system is None]
    if unnamed:
        each.append(_traffic(kind, [case for case in cases if case.system is None], unnamed, None))
    return tuple(each)


def _traffic(kind: ValueType, cases: Sequence[ScoredCase], rows: Sequence[JudgedRow], system: str | None) -> Traffic:
    scored = [case for case in cases if case.value is not None]
    ids = {case.id for case in scored}
    judged = [row for row in rows if row.value is not None and not row.taught]
    others = [row for row in judged if row.id not in ids]
    warnings = _warnings(scored, others, system)
    shares: list[Share] = []
    if judged and kind.numeric:
        shares.append(_share(None, kind, scored, judged, others))
    elif judged and kind.kind != "str":
        labels = kind.labels[:1] if kind.kind == "bool" else kind.labels
        shares += [_share(label, kind, scored, judged, others) for label in labels]
    elif judged:
        warnings.append("free text has no shares")
    return Traffic(
        system=system,
        labelled=len(scored),
        judged=len(judged),
        unscored=sum(row.value is None for row in rows),
        taught=sum(row.taught for row in rows),
        shares=tuple(shares),
        warnings=tuple(warnings),
    )


def _share(
    label: Value | None,
    kind: ValueType,
    cases: Sequence[ScoredCase],
    judged: Sequence[JudgedRow],
    others: Sequence[JudgedRow],
) -> Share:
    """Compute the share of one label, or the mean."""

    def number(value: Value | None) -> float:
        return float(value or 0) if label is None else float(value == label)

    truth = [number(case.label) for case in cases]
    verdicts = [number(case.value) for case in cases]
    said = [number(row.value) for row in judged]
    groups, other_groups = clusters(cases), _groups(others)
    people = Estimate(value=None)
    if truth:
        middle = sum(truth) / len(truth)
        interval = mean_interval if label is None else share_interval
        people = estimate(middle, groups, lambda: interval(truth, groups))
    own = sum(said) / len(said)
    if why := refusal(truth, verdicts, groups):
        return Share(label=label, judge=own, corrected=Estimate(value=None), people=people, refused=why)
    unlabelled = [number(row.value) for row in others]
    if label is not None:
        return Share(
            label=label,
            judge=own,
            corrected=corrected_share(truth, verdicts, unlabelled, groups, other_groups),
            people=people,
        )
    mean = corrected_mean(truth, verdicts, unlabelled, groups, other_groups)
    return Share(label=None, judge=own, corrected=_within(mean, kind), people=people)


def _within(mean: Estimate, kind: ValueType) -> Estimate:
    """Keep a mean and its interval on the scale."""
    least = -math.inf if kind.low is None else kind.low
    most = math.inf if kind.high is None else kind.high
    value, low, high = (max(least, min(most, part or 0.0)) for part in (mean.value, mean.low, mean.high))
    return Estimate(value=value, low=low, high=high)


def _groups(rows: Sequence[JudgedRow]) -> list[str] | None:
    """Name the group of each row, as `clusters` does of cases; None where no row has one."""
    if not any(row.group for row in rows):
        return None
    return [f"group {row.group}" if row.group else f"row {row.id}" for row in rows]


def _warnings(cases: Sequence[ScoredCase], others: Sequence[JudgedRow], system: str | None) -> list[str]:
    """Name what speaks against the labelled cases being drawn from the traffic."""
    warnings = []
    named = sorted({case.system or "no system" for case in cases})
    if (cases and (system or "no system") not in named) or len(named) > 1:
        theirs = system or "no system"
        warnings.append(f"labelled cases come from {', '.join(named)}, and the judged rows from {theirs}")
    verdicts = [case.value for case in cases]
    for value in sorted(set(verdicts), key=str)[:_FEW_VALUES]:
        labelled, all_others = verdicts.count(value), sum(row.value == value for row in others)
        if _differ(labelled, len(verdicts), all_others, len(others)):
            warnings.append(
                f"the judge says {value_text(value)} of {labelled / len(verdicts):.0%} of labelled and "
                f"{all_others / len(others):.0%} of other rows, so the labelled ones do not look drawn at random"
            )
            break
    return warnings


def _differ(one: int, n: int, other: int, m: int) -> bool:
    """Return whether two shares differ by a tenth and by more than three standard errors."""
    if not n or not m:
        return False
    pooled = (one + other) / (n + m)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m))
    return abs(one / n - other / m) > max(0.1, 3 * error)


def refusal(labels: Sequence[float], verdicts: Sequence[float], groups: Sequence[str] | None = None) -> str:
    """Say why verdicts cannot be corrected by these labels; empty if they can.

    Args:
        labels: People's labels as numbers, 0 or 1 for a share.
        verdicts: The judge's on the same cases.
        groups: The group of each case, where cases belong together.
    """
    n = len(labels)
    if n < FEWEST_LABELS:
        return f"it takes {FEWEST_LABELS} labelled cases, and {n} count here"
    if groups is not None and len(set(groups)) < FEWEST_GROUPS:
        return f"it takes {FEWEST_GROUPS} groups of labelled cases, and there are {len(set(groups))}"
    commonest = max(verdicts.count(value) for value in set(verdicts))
    if n - commonest < _FEWEST_VERDICTS:
        return f"the judge says the same of {commonest} of {n} labelled cases, so its errors cannot be measured"
    if n * _correlation(labels, verdicts) ** 2 < _CHANCE:
        return f"the judge's verdicts go with people's labels no more than by chance, on {n} cases"
    return ""


def corrected_share(
    labels: Sequence[float],
    verdicts: Sequence[float],
    others: Sequence[float],
    groups: Sequence[str] | None = None,
    other_groups: Sequence[str] | None = None,
) -> Estimate:
    """Estimate the share of a label in traffic of which the judge has seen all and people have seen a part.

    The labelled cases must be drawn at random from the same traffic.

    Args:
        labels: 1 where people give the label, else 0, for each labelled case.
        verdicts: 1 where the judge gives it, for the same cases.
        others: 1 where the judge gives it, for each row without a label.
        groups: The group of each labelled case; None where all are independent.
        other_groups: The group of each other row.

    Returns:
        The share in [0, 1] with its interval at 95 %.
    """
    import numpy as np

    y = np.array(labels, dtype=float)
    said = np.array(verdicts, dtype=bool)
    every = np.concatenate([said, np.array(others, dtype=bool)]).astype(float)
    weight = float(every.mean())
    inside = _rate(y[said], y)
    outside = _rate(y[~said], y)
    slope = inside - outside
    value = weight * inside + (1 - weight) * outside
    shares = np.where(said, weight / max(said.mean(), 1e-9), (1 - weight) / max(1 - said.mean(), 1e-9))
    influence = slope * (every - weight) / len(every)
    influence[: len(y)] += shares * (y - np.where(said, inside, outside)) / len(y)
    effect, degrees = _effect(influence, len(y), groups, other_groups)
    t = student_t(_LEVEL, degrees)
    parts = (
        (weight, _wilson(inside, said.sum() / effect, t), inside),
        (1 - weight, _wilson(outside, (~said).sum() / effect, t), outside),
        (slope, _wilson(weight, len(every) / effect, t), weight),
    )
    down = math.sqrt(sum((factor * (at - (low if factor > 0 else high))) ** 2 for factor, (low, high), at in parts))
    up = math.sqrt(sum((factor * ((high if factor > 0 else low) - at)) ** 2 for factor, (low, high), at in parts))
    return Estimate(value=value, low=max(0.0, value - down), high=min(1.0, value + up))


def corrected_mean(
    labels: Sequence[float],
    verdicts: Sequence[float],
    others: Sequence[float],
    groups: Sequence[str] | None = None,
    other_groups: Sequence[str] | None = None,
) -> Estimate:
    """Estimate the mean score of traffic, as `corrected_share` does a share; in the units of the score."""
    import numpy as np

    y = np.array(labels, dtype=float)
    said = np.array(verdicts, dtype=float)
    every = np.concatenate([said, np.array(others, dtype=float)])
    spread = float(np.var(said))
    slope = float(np.cov(y, said, bias=True)[0, 1]) / spread if spread > 0 else 0.0
    residual = y - y.mean() - slope * (said - said.mean())
    influence = slope * (every - every.mean()) / len(every)
    influence[: len(y)] += residual / len(y)
    value = float(y.mean() + slope * (every.mean() - said.mean()))
    effect, degrees = _effect(influence, len(y), groups, other_groups)
    half = student_t(_LEVEL, degrees) * math.sqrt(effect * float((influence**2).sum()) * len(y) / (len(y) - 2))
    return Estimate(value=value, low=value - half, high=value + half)


def _rate(some: Floats, every: Floats) -> float:
    """Return the mean of some cases, or of all if there are none of them."""
    return float(some.mean() if len(some) else every.mean())


def _wilson(share: float, n: float, t: float) -> tuple[float, float]:
    """Return Wilson's interval (1927) of a share; everything is possible without a case."""
    if n <= 0:
        return 0.0, 1.0
    middle = (share + t * t / (2 * n)) / (1 + t * t / n)
    half = t * math.sqrt(max(0.0, share * (1 - share) / n + t * t / (4 * n * n))) / (1 + t * t / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def _effect(
    influence: Floats, labelled: int, groups: Sequence[str] | None, others: Sequence[str] | None
) -> tuple[float, int]:
    """Return how many cases tell as much as one independent case (Kish 1965), and the degrees of freedom.

    Args:
        influence: What each case adds to the figure, labelled cases first.
        labelled: How many of them are labelled.
        groups: Their groups; None where all are independent.
        others: The groups of the others.
    """
    import numpy as np

    if groups is None and others is None:
        return 1.0, labelled - 2
    named = list(groups or (f"labelled {place}" for place in range(labelled)))
    named += others or (f"other {place}" for place in range(len(influence) - labelled))
    codes: dict[str, int] = {}
    places = np.array([codes.setdefault(name, len(codes)) for name in named])
    sums = np.bincount(places, influence)
    sizes = np.bincount(places[:labelled])
    count = int((sizes > 0).sum())
    most = float((sizes.astype(float) ** 2).sum()) / labelled
    alone = float((influence**2).sum())
    together = float((sums**2).sum()) * count / max(count - 1, 1)
    shown = max(1.0, together / alone) if alone > 0 else most
    return (count * shown + _ALL_TOGETHER * most) / (count + _ALL_TOGETHER), max(count - 2, 1)


def _correlation(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return Pearson's correlation of two columns; 0 where one of them does not vary."""
    import numpy as np

    x, y = np.array(one, dtype=float), np.array(other, dtype=float)
    spread = float(x.std() * y.std())
    return 0.0 if spread == 0 else float(((x - x.mean()) * (y - y.mean())).mean()) / spread
