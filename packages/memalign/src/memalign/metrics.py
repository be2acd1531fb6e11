"""Agreement between two raters, and how sure of it we may be: pure functions.

Every measure takes columns of equal length, one entry a case, and gives None, never NaN, where it
is not defined: no cases, or too little variety to tell agreement from chance.

A measure is written once, for weighted cases: the plain value is the one with all weights 1, and a
jackknife's is a row of weights with a case or a group of cases at 0, so that all of them together
cost a few matrix products.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memalign.values import value_text

Floats = NDArray[np.float64]

__all__ = [
    "KERNELS",
    "Estimate",
    "Statistic",
    "ccc",
    "cohen_kappa",
    "krippendorff_alpha",
    "mcnemar_exact",
    "paired_share_interval",
    "student_t",
    "wilson_interval",
]

Statistic = Callable[..., "float | None"]
"""A function of columns of equal length, such as `ccc`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A figure and its interval; None where the data give no figure, or no interval.

    `no_interval` says why there is none, where that is worth saying.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    no_interval: str | None = None

    def __str__(self) -> str:
        return f"{self:.2f}"

    def __format__(self, form: str) -> str:
        """Write the figure and its interval: `f"{accuracy:.0%}"` is `90% [83%, 95%]`."""
        if self.value is None:
            return "n/a"
        form = form or ".2f"
        figure = f"{self.value:{form}}"
        if self.low is None or self.high is None:
            return figure
        low = f"{self.low:{form}}"
        high = f"{self.high:{form}}"
        return f"{figure} [{low}, {high}]"


# -- agreement of two columns ----------------------------------------------------------------------


def cohen_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Agreement beyond what the two columns' label shares give by chance, in [-1, 1]. Cohen 1960.

    None when chance alone would make both agree on everything, as with one label only. Of numbers,
    the kappa in which a disagreement counts by its squared distance (Cohen 1968) is `ccc`.
    """
    return _once(_cohen_kappa, first, second)


def ccc(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Lin's concordance correlation coefficient: how close pairs lie to y = x, in [-1, 1].

    With variances over n, as in Lin 1989: so it is Cohen's kappa with quadratic weights too (Fleiss
    and Cohen 1973). None for fewer than two cases, or when all scores of both columns are equal.
    """
    if len(first) < 2:
        return None
    return _once(_ccc, first, second)


def krippendorff_alpha(
    units: Sequence[Sequence[Any]],
    *,
    level: Literal["nominal", "ordinal", "interval"] = "nominal",
) -> float | None:
    """Return the agreement of any number of people, missing labels allowed; 1 is perfect, 0 chance.

    `units` has for each case the labels that it was given, without the missing ones; a case with
    one label says nothing and is left out. Krippendorff 2011, "Computing Krippendorff's
    Alpha-Reliability". None when no case has two labels, or all labels are the same.
    """
    pairable = [unit for unit in units if len(unit) > 1]
    labels: set[Any] = set()
    for unit in pairable:
        labels.update(unit)
    order = sorted(labels, key=lambda label: (isinstance(label, str), label))
    if len(order) < 2:
        return None
    counts = np.array([[unit.count(label) for label in order] for unit in pairable])
    given = counts.sum(axis=0)
    if level == "nominal":
        distance = 1.0 - np.eye(len(order))
    else:
        # Ordinal: the number of labels given between the two, each end counted half.
        ranks = np.cumsum(given) - given / 2
        scores = np.array(order, float) if level == "interval" else ranks
        distance = np.subtract.outer(scores, scores) ** 2
    apart = (counts @ distance * counts).sum(axis=1)
    others = counts.sum(axis=1) - 1
    observed = (apart / others).sum()
    expected = given @ distance @ given
    expected /= given.sum() - 1
    if expected <= 0:
        return None
    return float(1.0 - observed / expected)


# -- how sure --------------------------------------------------------------------------------------


def student_t(level: float, degrees: int | None) -> float:
    """Return how many standard errors an interval reaches either way: the normal's, or Student's t.

    By the expansion of Abramowitz and Stegun 26.7.5, off by less than 0.03 from three degrees of
    freedom on.
    """
    normal = NormalDist()
    z = normal.inv_cdf((1 + level) / 2)
    if degrees is None:
        return z
    square = z * z
    first = (square + 1) / 4
    second = ((5 * square + 16) * square + 3) / 96
    third = (((3 * square + 19) * square + 17) * square - 15) / 384
    wider = third / degrees
    wider = (wider + second) / degrees
    wider = (wider + first) / degrees
    return z + z * wider


def wilson_interval(
    successes: float, n: float, *, level: float = 0.95, degrees: int | None = None
) -> tuple[float, float] | None:
    """Return Wilson's score interval of a share, corrected for continuity; None for n = 0.

    It is wide even when all of `n` succeeded. `n` may be the effective number of cases in groups;
    the `degrees` of freedom are then those of Student's t.
    """
    if n == 0:
        return None
    z = student_t(level, degrees)
    low = _least_share(successes, n, z)
    high = 1 - _least_share(n - successes, n, z)
    return low, high


def _least_share(successes: float, n: float, z: float) -> float:
    """Return the lower end of Wilson's interval; the upper one is that of the failures."""
    if successes <= 0:
        return 0.0
    square = z * z
    share = successes / n
    failures = n - successes
    spread = square - 2 - 1 / n + 4 * share * (failures + 1)
    root = sqrt(max(0.0, spread))
    low = 2 * successes + square - 1 - z * root
    return max(0.0, low / (2 * (n + square)))


def paired_share_interval(
    b: float, c: float, n: float, *, level: float = 0.95, degrees: int | None = None
) -> tuple[float, float]:
    """Return the interval of the difference of two shares on the same `n` cases, (c - b) / n.

    `b` cases are right only the first time, `c` only the second. It is wide even where none is. The
    counts may be effective ones, see `wilson_interval`.
    """
    z = student_t(level, degrees)
    total = n + 2
    first = (b + 1) / total
    second = (c + 1) / total
    middle = second - first
    variance = first + second - middle * middle
    error = (variance / total) ** 0.5
    half = z * error
    low = max(-1.0, middle - half)
    high = min(1.0, middle + half)
    return low, high


def mcnemar_exact(b: int, c: int) -> float:
    """Give the two-sided p of McNemar's test (1947) in its exact, binomial form.

    `b` and `c` are the cases that only one of two judges got right; the rest says nothing about
    their difference. Without such cases p is 1.
    """
    n = b + c
    fewer = min(b, c)
    tail = sum(comb(n, right) for right in range(fewer + 1))
    # Whole numbers to the end, so that thousands of cases neither overflow nor round to nothing too
    # early.
    return min(1.0, float(2 * tail / 2**n))


# -- the measures for weighted cases ---------------------------------------------------------------
# A kernel gets `weights`, shape (resamples, cases), and the columns; it gives one value a resample,
# NaN where the measure is not defined.

Kernel = Callable[..., Floats]


def _cohen_kappa(
    weights: Floats, first: Sequence[Any], second: Sequence[Any]
) -> Floats:
    words = list(map(value_text, (*first, *second)))
    labels, codes = np.unique(words, return_inverse=True)
    one = codes[: len(first)]
    other = codes[len(first) :]
    member = np.eye(len(labels))
    shares = weights @ member[one]
    other_shares = weights @ member[other]
    both = shares * other_shares
    by_chance = both.sum(axis=1)
    total = weights.sum(axis=1)
    differing = weights @ (one != other)
    at_most = total**2 - by_chance
    return 1.0 - _ratio(differing * total, at_most)


def _ccc(weights: Floats, first: Sequence[float], second: Sequence[float]) -> Floats:
    scores = np.array([first, second], dtype=float)
    # Moments around a common centre: the differences of large squares would lose the digits that
    # matter.
    x, y = scores - scores.mean()
    total = weights.sum(axis=1)

    def mean(column: Floats) -> Floats:
        return _ratio(weights @ column, total)

    covariance = mean(x * y) - mean(x) * mean(y)
    shared = 2 * covariance
    differences = x - y
    # Both variances and the squared distance of the means.
    spread = mean(differences**2) + shared
    found = _ratio(shared, spread)
    largest = max(np.abs(x).max(), np.abs(y).max())
    least = 1e-12 * largest**2
    found[spread <= least] = np.nan
    return found.clip(-1.0, 1.0)


KERNELS: dict[Statistic, Kernel] = {cohen_kappa: _cohen_kappa, ccc: _ccc}


def _once(kernel: Kernel, *columns: Sequence[Any]) -> float | None:
    n = len(columns[0])
    if n == 0:
        return None
    value = float(kernel(np.ones((1, n)), *columns)[0])
    if np.isnan(value):
        return None
    return value


def _ratio(top: Floats, bottom: Floats) -> Floats:
    """Return the quotients, NaN for each with nothing below."""
    quotients: Floats = np.full(np.shape(top), np.nan)
    np.divide(top, bottom, out=quotients, where=bottom > 0)
    return quotients
