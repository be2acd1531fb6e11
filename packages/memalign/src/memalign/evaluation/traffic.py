"""The share of each label in real traffic, corrected by the judge's errors on labelled cases.

The point is that of prediction-powered inference with a power-tuned weight (Angelopoulos, Duchi and
Zrnic 2023, PPI++), which for a verdict of two values is the post-stratified share. Its interval is
put together from Wilson's intervals of the two strata (Zou and Donner 2008), because a normal one
fails at thirty labels; benchmarks/coverage.py has tried it.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memalign.evaluation.cases import (
    Cases,
    ScoredCase,
    clusters,
    labels,
    verdicts,
    with_verdict,
)
from memalign.evaluation.intervals import (
    FEWEST_GROUPS,
    LEVEL,
    Groups,
    design_effect,
    estimate_mean,
    mean_interval,
    share_interval,
    too_few_groups,
)
from memalign.metrics import Estimate, student_t
from memalign.values import Value, ValueType, value_text

__all__ = [
    "Share",
    "Traffic",
    "corrected_mean",
    "corrected_share",
    "refusal",
    "traffic_of",
]

_FEWEST_LABELS = 20
_FEWEST_VERDICTS = 3  # labelled cases that the judge calls otherwise than most

_CHANCE = 1.07
"""The chi-square that chance alone exceeds in three of ten samples. A stricter test would keep only
lucky samples, whose intervals then cover too rarely."""

_ALL_TOGETHER = 4.0
"""Groups that are added in which all cases go together: ten groups show little of it."""

_LISTED = 12  # labels: of more, those that the judge gives most

Numbers = Sequence[float]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Share:
    """The share of one label in the traffic, or the mean of a score. Intervals are at 95 %.

    Attributes:
        label: The label in words; `mean` for the mean of a score.
        judge: As the judge says it, over all rows of the traffic.
        corrected: Corrected for the judge's errors; without a value where that is refused.
        people: As people say it, on the labelled cases alone.
        refused: Why there is no correction; empty where there is one.
    """

    label: str
    judge: float
    corrected: Estimate
    people: Estimate
    refused: str = ""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a judge's verdicts on unlabelled rows are worth, given its errors on labelled ones.

    Attributes:
        system: The system or week that the rows name in their column `system`, or None.
        labelled: How many labelled cases the correction rests on.
        judged: How many rows of traffic have a verdict, labelled ones among them included.
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


def traffic_of(
    kind: ValueType,
    cases: Cases,
    rows: Cases,
    taught: Mapping[str | None, int] | None = None,
) -> tuple[Traffic, ...]:
    """Correct the judge's shares of traffic by its errors on labelled cases.

    Rows of several systems are corrected one by one, each by labelled cases of its own: a
    correction that is shared can turn the sign of a comparison (arXiv 2605.06939).

    Args:
        kind: The judge's value type.
        cases: Labelled cases, drawn at random from the same traffic; they may be among the rows.
        rows: The judged traffic; its labels are not read.
        taught: How many more rows of each system the judge was taught.

    Returns:
        One result for each system, or one for all rows.
    """
    by_system: dict[str | None, list[ScoredCase]] = {}
    for row in rows:
        by_system.setdefault(row.system, []).append(row)
    left_out = taught or {}
    scored = with_verdict(cases)
    results = []
    for system, own_rows in by_system.items():
        own = scored
        if len(by_system) > 1:
            own = [case for case in scored if case.system == system]
        known = left_out.get(system, 0)
        results.append(_traffic(kind, own, own_rows, system, known))
    return tuple(results)


def _traffic(
    kind: ValueType, cases: Cases, rows: Cases, system: str | None, taught: int
) -> Traffic:
    """Correct the shares of one system."""
    judged = with_verdict(rows)
    labelled = {case.id for case in cases}
    others = [row for row in judged if row.id not in labelled]
    shares = []
    warnings = _other_systems(cases, system)
    if kind.kind == "str":
        warnings.append("free text has no shares")
    for label in _labels(kind, judged):
        share = _share(kind, label, cases, judged, others)
        shares.append(share)
        if others and not share.refused:
            warnings += _not_at_random(share.label, label, cases, others)
    return Traffic(
        system=system,
        labelled=len(cases),
        judged=len(judged),
        unscored=len(rows) - len(judged),
        taught=taught,
        shares=tuple(shares),
        warnings=tuple(warnings),
    )


def _labels(kind: ValueType, judged: Cases) -> Sequence[Value | None]:
    """Return the labels whose shares are corrected; None for the mean of a score."""
    if kind.numeric:
        return [None]
    if kind.kind == "bool":
        return kind.labels[:1]
    if len(kind.labels) <= _LISTED:
        return kind.labels
    commonest = Counter(verdicts(judged)).most_common(_LISTED)
    return [label for label, _ in commonest]


def _share(
    kind: ValueType, label: Value | None, cases: Cases, judged: Cases, others: Cases
) -> Share:
    """Correct the share of one label; without a label, the mean of the scores."""
    people = _numbers(label, labels(cases))
    said = _numbers(label, verdicts(cases))
    own = _numbers(label, verdicts(judged))
    groups = clusters(cases)
    if label is None:
        name = "mean"
        people_say = estimate_mean(people, groups, mean_interval)
    else:
        name = value_text(label)
        people_say = estimate_mean(people, groups, share_interval)
    judge_says = math.nan
    if own:
        judge_says = statistics.fmean(own)
    corrected = Estimate(value=None)
    refused = refusal(people, said, groups)
    if not refused:
        rest = _numbers(label, verdicts(others))
        parts = (people, said, rest, groups, clusters(others))
        if label is None:
            corrected = _on_scale(kind, corrected_mean(*parts))
        else:
            corrected = corrected_share(*parts)
    return Share(
        label=name,
        judge=judge_says,
        corrected=corrected,
        people=people_say,
        refused=refused,
    )


def _numbers(label: Value | None, values: Iterable[Any]) -> list[float]:
    """Return 1 for each value that is the label, else 0; without a label, the scores."""
    if label is None:
        return [float(value) for value in values]
    return [float(value == label) for value in values]


def _on_scale(kind: ValueType, figure: Estimate) -> Estimate:
    """Keep the mean of a score and its interval between the bounds of the scale."""
    ends: Any = (figure.value, figure.low, figure.high)
    inside = np.clip(ends, kind.low, kind.high)
    value, low, high = inside.tolist()
    return Estimate(value=value, low=low, high=high)


# -- what speaks against a correction -------------------------------------------------------------


def _other_systems(cases: Cases, system: str | None) -> list[str]:
    """Warn where labelled cases come from another system than the rows."""
    here = system or "no system"
    theirs = {case.system or "no system" for case in cases}
    if not theirs - {here}:
        return []
    named = ", ".join(sorted(theirs))
    return [f"labelled cases come from {named}, and the judged rows from {here}"]


def _not_at_random(
    name: str, label: Value | None, cases: Cases, others: Cases
) -> list[str]:
    """Warn where verdicts on labelled and other rows differ by more than three standard errors."""
    labelled = np.array(_numbers(label, verdicts(cases)))
    rest = np.array(_numbers(label, verdicts(others)))
    here = labelled.mean()
    there = rest.mean()
    error_here = labelled.std() / math.sqrt(len(labelled))
    error_there = rest.std() / math.sqrt(len(rest))
    error = math.hypot(error_here, error_there)
    together = np.append(labelled, rest)
    chance = max(3 * error, together.std() / 5)
    if abs(here - there) <= chance:
        return []
    return [
        f"by the judge's verdicts, {name} is {here:.2f} of labelled and {there:.2f} "
        "of other rows, so the labelled ones do not look drawn at random"
    ]


def refusal(people: Numbers, judge: Numbers, groups: Groups = None) -> str:
    """Say why verdicts cannot be corrected by these labels; empty if they can.

    Args:
        people: People's labels as numbers, 0 or 1 for a share.
        judge: The judge's verdicts on the same cases.
        groups: The group of each case, where cases belong together.
    """
    n = len(people)
    if n < _FEWEST_LABELS:
        return f"it takes {_FEWEST_LABELS} labelled cases, and {n} count here"
    few = too_few_groups(groups)
    if few is not None:
        return f"it takes {FEWEST_GROUPS} groups of labelled cases, and there are {few}"
    commonest = max(Counter(judge).values())
    if n - commonest < _FEWEST_VERDICTS:
        return (
            f"the judge says the same of {commonest} of {n} labelled cases, "
            "so its errors cannot be measured"
        )
    correlation = 0.0
    if np.std(people) > 0:
        correlation = statistics.correlation(people, judge)
    if n * correlation**2 < _CHANCE:
        return f"the judge's verdicts go with people's labels no more than by chance, on {n} cases"
    return ""


# -- the corrections ------------------------------------------------------------------------------


def corrected_share(
    people: Numbers,
    judge: Numbers,
    others: Numbers,
    groups: Groups = None,
    other_groups: Groups = None,
) -> Estimate:
    """Estimate a label's share in traffic of which the judge has seen all and people a part.

    The labelled cases must be drawn at random from the same traffic.

    Args:
        people: 1 where people give the label, else 0, for each labelled case.
        judge: 1 where the judge gives it, for the same cases.
        others: 1 where the judge gives it, for each row without a label.
        groups: The group of each labelled case; None where all are independent.
        other_groups: The group of each other row.

    Returns:
        The share in [0, 1] with its interval at 95 %.
    """
    y = np.array(people, dtype=float)
    said = np.array(judge, dtype=int)
    every = np.array([*judge, *others], dtype=float)
    share = every.mean()
    weight = np.array([1 - share, share])
    n, inside = _strata(y, said)
    slope = inside[1] - inside[0]
    # What each case adds to the error: as a verdict, and where it has a label as that too.
    influence = slope * (every - share) / len(every)
    wrong = y - inside[said]
    part = weight / np.maximum(n, 1)
    influence[: len(y)] += wrong * part[said]
    effect, t = _worth(influence, len(y), groups, other_groups)
    # The figure is a sum of three shares, and each moves it by so much.
    shares = np.append(inside, share)
    independent = np.append(n, len(every)) / effect
    factors = np.append(weight, slope)
    ends = _wilson(shares, independent, t)
    moves = factors * (ends - shares)
    down = np.linalg.norm(moves.min(axis=0))
    up = np.linalg.norm(moves.max(axis=0))
    value = weight @ inside
    low = float(value - down)
    high = float(value + up)
    return Estimate(
        value=float(value),
        low=max(0.0, low),
        high=min(1.0, high),
    )


def _strata(y: Floats, said: Any) -> tuple[Any, Floats]:
    """Part labelled cases into those that the judge does not say it of, and those it does.

    Returns:
        How many there are of either, and the share of each that people say it of; that of all where
        there is none.
    """
    n = np.bincount(said, minlength=2)
    meant = np.bincount(said, y, minlength=2)
    inside = np.full(2, y.mean())
    np.divide(meant, n, out=inside, where=n > 0)
    return n, inside


def corrected_mean(
    people: Numbers,
    judge: Numbers,
    others: Numbers,
    groups: Groups = None,
    other_groups: Groups = None,
) -> Estimate:
    """Estimate the mean score of traffic, in units of the score; see `corrected_share`."""
    y = np.array(people, dtype=float)
    every = np.array([*judge, *others], dtype=float)
    said = every[: len(y)]
    mean = every.mean()
    slope, start = np.polyfit(said, y, 1)
    fitted = start + slope * said
    wrong = y - fitted
    influence = slope * (every - mean) / len(every)
    influence[: len(y)] += wrong / (len(y) - 1)
    effect, t = _worth(influence, len(y), groups, other_groups)
    error = math.sqrt(effect) * np.linalg.norm(influence)
    half = float(t * error)
    value = float(start + slope * mean)
    return Estimate(value=value, low=value - half, high=value + half)


def _wilson(share: Floats, n: Floats, t: float) -> Floats:
    """Return the lower and the upper ends of Wilson's intervals (1927); with no case, 0 and 1.

    They are combined as Zou and Donner (2008) combine intervals of shares.
    """
    added = t * t
    yes = n * share
    middle = yes + added / 2
    variance = yes * (1 - share)
    half = t * np.sqrt(variance + added / 4)
    low = middle - half
    high = middle + half
    total = n + added
    return np.stack([low, high]) / total


def _worth(
    influence: Floats, labelled: int, groups: Groups, others: Groups
) -> tuple[float, float]:
    """Return the design effect of a figure, and Student's t.

    Args:
        influence: The part of each case in the figure's error, labelled cases first.
        labelled: How many of them are labelled.
        groups: Their groups; None where all are independent.
        others: The groups of the others.
    """
    named = None
    if groups or others:
        alone = [f"alone {place}" for place in range(len(influence))]
        first = groups or alone[:labelled]
        second = others or alone[labelled:]
        named = [*first, *second]
    effect, degrees = design_effect(
        influence,
        named,
        labelled=labelled,
        together=_ALL_TOGETHER,
    )
    degrees = degrees or labelled - 1
    return effect, student_t(LEVEL, degrees - 1)
