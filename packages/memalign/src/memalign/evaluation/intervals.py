"""Intervals that hold for ten cases too, and for cases that come in groups: by them a gate decides.

A percentile bootstrap is too sure of itself there. Drawn at the edge, ten groups of cases passed a
judge in a quarter of the drawings, and not in one of forty (docs/decisions/0021-gate.md).
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memalign.metrics import (
    KERNELS,
    Estimate,
    Statistic,
    ccc,
    paired_share_interval,
    student_t,
    wilson_interval,
)

__all__ = [
    "FEWEST_GROUPS",
    "LEVEL",
    "Groups",
    "agreement_interval",
    "design_effect",
    "estimate",
    "estimate_mean",
    "mean_interval",
    "paired_interval",
    "share_interval",
    "too_few_groups",
]

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
Interval = tuple[float, float]
Groups = Sequence[str] | None
"""The group of every case; None where all cases are independent."""

LEVEL = 0.95
FEWEST_GROUPS = 10
"""Groups from which on there is an interval: fewer do not show how far their cases go together."""

_FEWEST = 3  # cases or groups
_MOST = 1000  # parts that are left out one after the other: of more cases several go together
_CELLS = 4_000_000  # weights that are in memory at a time
_ALL_TOGETHER = 2.0
"""Groups that are added, in which all cases go together, to what the groups show of it."""


def too_few_groups(groups: Groups) -> int | None:
    """Return how many groups there are if an interval needs more, else None."""
    if groups is None:
        return None
    count = len(set(groups))
    return count if count < FEWEST_GROUPS else None


def estimate(
    value: float | None, groups: Groups, interval: Callable[[], Interval | None]
) -> Estimate:
    """Return a figure with its interval, or with the reason why its groups give none.

    Args:
        value: The figure; None where the cases give none.
        groups: The group of each case.
        interval: Computes the interval at 95 %.
    """
    if value is None:
        return Estimate(value=None)
    few = too_few_groups(groups)
    if few is not None:
        reason = (
            f"too few groups for an interval: there are {few}, "
            f"and {FEWEST_GROUPS} are needed"
        )
        return Estimate(value=value, no_interval=reason)
    low, high = interval() or (None, None)
    return Estimate(value=value, low=low, high=high)


def estimate_mean(
    values: Sequence[float],
    groups: Groups,
    interval: Callable[[Sequence[float], Groups], Interval | None],
) -> Estimate:
    """Return the mean of values with its interval, such as the share of cases that are right.

    Args:
        values: A number for each case.
        groups: The group of each case.
        interval: `share_interval`, `paired_interval` or `mean_interval`.
    """
    mean = sum(values) / len(values) if values else None
    return estimate(mean, groups, partial(interval, values, groups))


# -- the intervals --------------------------------------------------------------------------------


def share_interval(right: Sequence[float], groups: Groups = None) -> Interval | None:
    """Return Wilson's interval (1927) of the share of cases that are right.

    Args:
        right: 1 for each case that is right, else 0.
        groups: The group of each case, which decides how many cases they are worth.
    """
    effect, degrees = design_effect(right, groups)
    return wilson_interval(
        sum(right) / effect,
        len(right) / effect,
        level=LEVEL,
        degrees=degrees,
    )


def paired_interval(changes: Sequence[float], groups: Groups = None) -> Interval | None:
    """Return the interval of a mean change, by Bonett and Price (2012).

    Args:
        changes: For each case 1 where only the second judge is right, -1 where only the first is.
        groups: The group of each case.
    """
    effect, degrees = design_effect(changes, groups)
    return paired_share_interval(
        changes.count(-1) / effect,
        changes.count(1) / effect,
        len(changes) / effect,
        level=LEVEL,
        degrees=degrees,
    )


def mean_interval(values: Sequence[float], groups: Groups = None) -> Interval | None:
    """Return Student's interval of a mean, in the unit of the values; None below three values."""
    n = len(values)
    if n < _FEWEST:
        return None
    effect, degrees = design_effect(values, groups)
    t = student_t(LEVEL, degrees or n - 1)
    variance = statistics.variance(values)
    half = t * math.sqrt(effect * variance / n)
    mean = statistics.fmean(values)
    return mean - half, mean + half


def agreement_interval(
    statistic: Statistic,
    values: Sequence[Any],
    truth: Sequence[Any],
    groups: Groups = None,
) -> Interval | None:
    """Return the interval of kappa or CCC, by Tukey's jackknife (1958) with Student's t.

    A CCC between -1 and 1 has it on Fisher's scale. Any other figure has it after four more cases
    (or groups) were added.

    Args:
        statistic: `cohen_kappa` or `ccc`.
        values: The judge's verdicts.
        truth: People's labels of the same cases.
        groups: The group of each case; a group is left out as a whole.

    Returns:
        The interval in [-1, 1]; None for fewer than three cases or groups, and where one of them
        left out leaves no figure.
    """
    value = statistic(values, truth)
    parts = np.arange(len(truth)) if groups is None else _codes(groups)
    parts = parts % _MOST
    if value is None or len(np.unique(parts)) < _FEWEST:
        return None
    if statistic is ccc and abs(value) < 1:
        return _score_interval(value, values, truth, parts)
    return _label_interval(statistic, value, values, truth, parts)


def _score_interval(
    value: float,
    values: Sequence[Any],
    truth: Sequence[Any],
    parts: Codes,
) -> Interval | None:
    """Return the interval of a CCC between -1 and 1, on Fisher's scale (Lin 1989).

    Cases that are added at the ends of the scale would outweigh those that there are: of ten
    scores with a CCC of 0.95 the interval reached below 0.
    """
    measure = partial(KERNELS[ccc], first=values, second=truth)
    _, half = _jackknife(measure, np.ones(len(parts)), parts)
    if half is None:
        return None
    middle = math.atanh(value)
    half /= 1 - value**2
    return math.tanh(middle - half), math.tanh(middle + half)


def _label_interval(
    statistic: Statistic,
    value: float,
    values: Sequence[Any],
    truth: Sequence[Any],
    parts: Codes,
) -> Interval | None:
    """Return the interval after four more cases (or groups) were added.

    They are one for each way in which verdict and label can meet, as Agresti and Coull (1998) add
    them for a share: so a judge that is always right has an interval too.
    """
    one, other = _two_labels([*truth, *values], ordered=statistic is ccc)
    measure = partial(
        KERNELS[statistic],
        first=[*values, one, one, other, other],
        second=[*truth, one, other, one, other],
    )
    n = len(parts)
    size = max(1, round(n / len(np.unique(parts))))
    weights = np.append(np.ones(n), [size] * 4)
    added = parts.max() + np.arange(1, 5)
    middle, half = _jackknife(measure, weights, np.append(parts, added))
    if half is None:
        return None
    low = min(value, middle - half)
    high = max(value, middle + half)
    return max(-1.0, low), min(1.0, high)


def _two_labels(labels: Sequence[Any], *, ordered: bool) -> tuple[Any, Any]:
    """Return the ends of a scale, or the two commonest labels."""
    if ordered:
        return min(labels), max(labels)
    commonest = Counter(labels).most_common(2)
    first, _ = commonest[0]
    second, _ = commonest[-1]
    return first, second


def _jackknife(
    measure: Callable[[Floats], Floats], weights: Floats, parts: Codes
) -> tuple[float, float | None]:
    """Leave out one part after the other.

    Args:
        measure: Gives a figure for each row of weights.
        weights: How often each case counts.
        parts: The part of each case.

    Returns:
        The figure of all cases, and half of its interval; None where one part left out leaves no
        figure, or none changes it.
    """
    (value,) = measure(weights[None])
    every = np.unique(parts)
    count = len(every)
    chunks = math.ceil(count * len(parts) / _CELLS)
    squares = 0.0
    for chunk in np.array_split(every, chunks):
        others = parts != chunk[:, None]
        away = measure(weights * others) - value
        squares += float(away @ away)
    error = math.sqrt((count - 1) / count * squares)
    if not math.isfinite(error) or error < 1e-12:
        return float(value), None
    half = student_t(LEVEL, count - 1) * error
    return float(value), half


# -- groups ---------------------------------------------------------------------------------------


def design_effect(
    values: Any,
    groups: Groups,
    *,
    labelled: int | None = None,
    together: float = _ALL_TOGETHER,
) -> tuple[float, int | None]:
    """Return how many cases tell as much as one independent case (Kish 1965).

    Where all values are the same, the groups show nothing of how far their cases go together, and
    all cases of one are taken to do so.

    Args:
        values: A number for each case.
        groups: The group of each case, at least two of them; None where all are independent.
        labelled: How many of the first cases are the sample; all of them if not given.
        together: Groups that are added in which all cases go together.

    Returns:
        The effect, and the degrees of freedom; 1 and None without groups.
    """
    if groups is None:
        return 1.0, None
    codes = _codes(groups)
    sizes = np.bincount(codes[:labelled])
    count = int(np.count_nonzero(sizes))
    most = float(sizes @ sizes / sizes.sum())
    away = np.asarray(values, dtype=float)
    away = away - away.mean()
    alone = float(away @ away)
    shown = most
    if alone > 0:
        sums = np.bincount(codes, away)
        between = float(sums @ sums) / alone
        shown = max(1.0, between * count / (count - 1))
    total = count * shown + together * most
    return total / (count + together), count - 1


def _codes(groups: Sequence[str]) -> Codes:
    """Return a number for the group of each case."""
    return np.unique(np.array(groups), return_inverse=True)[1]
