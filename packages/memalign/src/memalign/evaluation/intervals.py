"""Intervals that hold for ten cases too, and for cases that come in groups: by them a gate passes and stops.

A percentile bootstrap is too sure of itself there. Drawn at the edge, ten groups of cases passed a judge in a quarter
of the drawings, and not in one of forty (docs/decisions/0021-gate.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from memalign.errors import InputError
from memalign.metrics import (
    KERNELS,
    Statistic,
    ccc,
    paired_share_interval,
    student_t,
    wilson_interval,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = [
    "agreement_interval",
    "design_effect",
    "mean_interval",
    "paired_interval",
    "share_interval",
]

Interval = tuple[float, float]
Groups = Sequence[Hashable] | None
"""The group of every case; None where all cases are independent."""

_LEVEL = 0.95
_FEWEST = 3  # cases or groups
_MOST = 1000  # parts that are left out one after the other: of more cases several go together
_ALL_TOGETHER = 2.0
"""Groups that are added, in which all cases go together, to what the groups show of it: ten groups show little."""


def share_interval(right: Sequence[float], groups: Groups = None) -> Interval | None:
    """The interval of the share of cases that are `right`: Wilson's, over what the groups are worth."""
    effect, degrees = _design([float(one) for one in right], groups)
    return wilson_interval(sum(right) / effect, len(right) / effect, level=_LEVEL, degrees=degrees)


def paired_interval(changes: Sequence[int], groups: Groups = None) -> Interval | None:
    """Bonett and Price's interval of the mean change: 1 where only the second judge is right, -1 where the first is."""
    effect, degrees = _design([float(change) for change in changes], groups)
    worse, better, n = changes.count(-1), changes.count(1), len(changes)
    return paired_share_interval(
        worse / effect, better / effect, n / effect, level=_LEVEL, degrees=degrees
    )


def agreement_interval(
    statistic: Statistic, values: Sequence[Any], truth: Sequence[Any], groups: Groups = None
) -> Interval | None:
    """The interval of kappa or CCC, by leaving out one case, or group, after the other.

    Tukey's jackknife (1958) with Student's t. Of labels, four cases more (or groups) are counted in, one for each way
    in which verdict and label can meet, as Agresti and Coull (1998) do for a share: so a judge that is always right has
    an interval too. A CCC is taken on Fisher's scale; that of a judge that is always right as labels are. None for
    fewer than three cases or groups, and where one left out leaves no figure.
    """
    value = statistic(values, truth)
    units = [code % _MOST for code in (range(len(truth)) if groups is None else _codes(groups))]
    if value is None or len(set(units)) < _FEWEST:
        return None
    measure = KERNELS[statistic]
    if statistic is not ccc or value == 1:
        counts = Counter([*truth, *values])
        labels = (
            sorted(counts) if statistic is ccc else [label for label, _ in counts.most_common(2)]
        )
        more = list(product((labels[0], labels[-1]), repeat=2))
        middle, half = _spread(measure, *_with_more((values, truth), units, more))
        return (
            None
            if half is None
            else (max(-1.0, min(value, middle - half)), min(1.0, max(value, middle + half)))
        )
    half = _spread(measure, (values, truth), units)[1]
    if half is None:
        return None
    place, part = math.atanh(value), half / (1 - value * value)
    return math.tanh(place - part), math.tanh(place + part)


def mean_interval(values: Sequence[float], groups: Groups = None) -> Interval | None:
    """Return Student's interval of a mean, over what the groups are worth; None for fewer than three values."""
    n = len(values)
    if n < _FEWEST:
        return None
    effect, degrees = _design(values, groups)
    middle = sum(values) / n
    variance = sum((value - middle) ** 2 for value in values) / (n - 1)
    half = student_t(_LEVEL, degrees or n - 1) * math.sqrt(effect * variance / n)
    return middle - half, middle + half


def design_effect(values: Sequence[float], groups: Groups) -> float:
    """Return how many cases tell as much as one independent case, by how far those of a group go together."""
    return _design(values, groups)[0]


# -- groups --------------------------------------------------------------------------------------------------------


def _design(values: Sequence[float], groups: Groups) -> tuple[float, int | None]:
    """How many cases tell as much as one independent case (Kish 1965), and the degrees of freedom; 1 without groups.

    Where all values are the same the groups show nothing of it, and all cases of one are taken to go together.
    """
    if groups is None:
        return 1.0, None
    import numpy as np

    codes = _codes(groups)
    sizes, sums = np.bincount(codes), np.bincount(codes, np.array(values))
    n, count = len(values), len(sizes)
    if count < 2:
        raise InputError("cases of one group have no interval")
    most, spread = float((sizes**2).sum()) / n, float(np.var(values))
    if spread == 0:
        return most, count - 1
    apart = sums - sizes * np.mean(values)
    between = max(1.0, count / (count - 1) * float((apart**2).sum()) / (n * spread))
    return (count * between + _ALL_TOGETHER * most) / (count + _ALL_TOGETHER), count - 1


def _codes(groups: Sequence[Hashable]) -> list[int]:
    codes: dict[Hashable, int] = {}
    return [codes.setdefault(group, len(codes)) for group in groups]


# -- leaving out ---------------------------------------------------------------------------------------------------


def _with_more(
    columns: Sequence[Sequence[Any]], units: Sequence[int], more: Sequence[tuple[Any, ...]]
) -> tuple[list[list[Any]], list[int]]:
    """The columns and the units with a part more for each row of `more`, each as large as the mean part."""
    size, first = max(1, round(len(units) / len(set(units)))), max(units) + 1
    added = [row for row in more for _ in range(size)]
    parts = [first + number for number in range(len(more)) for _ in range(size)]
    return [[*column, *(row[place] for row in added)] for place, column in enumerate(columns)], [
        *units,
        *parts,
    ]


def _spread(
    measure: Any, columns: Sequence[Sequence[Any]], units: Sequence[int]
) -> tuple[float, float | None]:
    """The figure, and half of its interval; None where one part left out leaves no figure, or none changes it."""
    import numpy as np

    parts, every = np.array(units), np.unique(units)
    value = float(measure(np.ones((1, len(parts))), *columns)[0])
    step = max(1, 4_000_000 // len(parts))
    left_out = [
        measure((parts[None] != every[start : start + step, None]).astype(float), *columns)
        for start in range(0, len(every), step)
    ]
    away = np.concatenate(left_out) - value
    error = float(np.sqrt((len(every) - 1) / len(every) * (away**2).sum()))
    if not np.isfinite(error) or error < 1e-12:
        return value, None
    return value, student_t(_LEVEL, len(every) - 1) * error
