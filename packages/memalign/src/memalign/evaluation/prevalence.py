"""How often something holds in a whole population, from few labels of people and many verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from memalign.metrics import Estimate

__all__ = ["prevalence"]


def prevalence(
    people: Sequence[bool], verdicts: Sequence[bool], population: Sequence[bool], *, level: float = 0.95
) -> Estimate:
    """The share of a whole population that people would mark, from few of their labels and many verdicts.

    `people` and `verdicts` are of the same labelled cases, `population` has the verdicts on all cases. The verdicts'
    share is corrected by what people said of the labelled cases, as far as the verdicts are worth it: prediction-powered
    inference with power tuning (PPI++, arXiv 2311.01453). The labelled cases must be drawn at random. None for fewer
    than two labelled cases, or no population.
    """
    n, many = len(people), len(population)
    if n < 2 or not many:
        return Estimate(value=None)
    y, f, g = (np.asarray(column, dtype=float) for column in (people, verdicts, population))
    spread = float(np.concatenate([f, g]).var())
    together = float(np.mean((y - y.mean()) * (f - f.mean())))
    power = 0.0 if spread == 0 else min(1.0, max(0.0, together / ((1 + n / many) * spread)))
    value = float(power * g.mean() + (y - power * f).mean())
    # One case more on either side, as far off as can be: few cases that all agree do not make the verdicts true.
    apart = np.append(y - power * f, [(y - power * f).mean() + side for side in (-1, 1)])
    error = float((power**2 * g.var() / many + apart.var(ddof=1) / (n + 2)) ** 0.5)
    half = NormalDist().inv_cdf((1 + level) / 2) * error
    low, high = value - half, value + half
    return Estimate(value=min(1.0, max(0.0, value)), low=max(0.0, low), high=min(1.0, high))
