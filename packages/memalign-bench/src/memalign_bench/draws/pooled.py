"""How good methods are over the draws of a study, each figure with its interval over draws and groups of items.

A draw's figure is taken on its unseen items: exact match, or of ranks Lin's CCC of the expected label. A task's figure is
the mean of its draws', the pooled one the mean of the tasks'. An interval is that of 2,000 resamples, between their 2.5th and
97.5th percentile: in each, of every task, the draws are drawn with replacement, and so are the groups of items (Owen 2007,
the pigeonhole bootstrap). All methods meet the same resamples, so that their differences are paired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memalign.metrics import Estimate
from memalign_bench.draws.drawing import Draw, Prepared
from memalign_bench.draws.study import Study

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Fitted", "Pool", "pooled"]

RESAMPLES = 2000
BINS = 5
FLOOR = 0.01
"""Before its log loss every probability is mixed with this much of equal ones, whatever the method."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """One task's draws, and each method's probabilities, (unseen items, labels), draw by draw."""

    study: Study
    draws: Sequence[Draw]
    chances: Mapping[str, Sequence[NDArray[np.float64]]]

    def log_loss(self, method: str) -> float:
        """The mean of -log p of the label, in nats."""
        import numpy as np

        chances, truth = self._all(method)
        mixed = (1 - FLOOR) * chances + FLOOR / chances.shape[1]
        return float(-np.log(mixed[np.arange(len(truth)), truth]).mean())

    def calibration_error(self, method: str) -> float:
        """Expected calibration error of the given label's probability, in five bins of equal width, over all draws."""
        import numpy as np

        chances, truth = self._all(method)
        sure, right = chances.max(axis=1), chances.argmax(axis=1) == truth
        places = np.minimum((sure * BINS).astype(int), BINS - 1)
        shares = [(places == n) for n in range(BINS)]
        return float(sum(abs(right[each].mean() - sure[each].mean()) * each.mean() for each in shares if each.any()))

    def _all(self, method: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        import numpy as np

        truth = Prepared(study=self.study).truth
        return np.concatenate(self.chances[method]), np.concatenate([truth[list(draw.unseen)] for draw in self.draws])


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Figures of some tasks: the first is the one that the data give, the others are resamples, (1 + resamples,) a task."""

    figures: Mapping[str, Mapping[str, NDArray[np.float64]]]
    """By task, then by method."""
    ranked: frozenset[str] = field(default=frozenset())
    """Tasks whose figure is CCC."""

    def tasks(self, *methods: str) -> tuple[str, ...]:
        """The tasks that have all of these methods."""
        return tuple(task for task, found in self.figures.items() if all(method in found for method in methods))

    def figure(self, method: str, tasks: Sequence[str]) -> Estimate:
        """The method's mean over the tasks; without any there is none."""
        return _estimate([self.figures[task][method] for task in tasks])

    def difference(self, method: str, other: str, tasks: Sequence[str]) -> Estimate:
        """How far the method is ahead of the other, on average over the tasks."""
        return _estimate([self.figures[task][method] - self.figures[task][other] for task in tasks])


def pooled(fitted: Sequence[Fitted]) -> Pool:
    """The figures of every task and method, and their resamples."""
    return Pool(
        figures={each.study.header.name: _figures(each) for each in fitted},
        ranked=frozenset(each.study.header.name for each in fitted if each.study.value_type.kind == "int"),
    )


def _estimate(columns: Sequence[NDArray[np.float64]]) -> Estimate:
    import numpy as np

    if not columns:
        return Estimate(value=None)
    mean = np.mean(columns, axis=0)
    low, high = np.nanpercentile(mean[1:], [2.5, 97.5])
    return Estimate(value=float(mean[0]), low=float(low), high=float(high))


def _figures(fitted: Fitted) -> dict[str, NDArray[np.float64]]:
    import numpy as np

    study, count = fitted.study, len(fitted.draws)
    rng = np.random.default_rng(0)
    groups = sorted({item.group for item in (study.items[n] for draw in fitted.draws for n in draw.unseen)})
    place = {name: n for n, name in enumerate(groups)}
    of = np.array([place.get(item.group, -1) for item in study.items])
    times = rng.multinomial(len(groups), [1 / len(groups)] * len(groups), size=RESAMPLES)
    items = np.vstack([np.ones(len(of)), np.where(of >= 0, times[:, of], 0)])
    draws = np.vstack([np.ones(count), rng.multinomial(count, [1 / count] * count, size=RESAMPLES)])
    truth = Prepared(study=study).truth
    found = {}
    for method, chances in fitted.chances.items():
        columns = []
        for draw, each in zip(fitted.draws, chances, strict=True):
            unseen = list(draw.unseen)
            columns.append(_figure(items[:, unseen], each, truth[unseen], ranked=study.value_type.kind == "int"))
        by_draw = np.stack(columns, axis=1)
        there = draws * ~np.isnan(by_draw)
        found[method] = (np.nan_to_num(by_draw) * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return found


def _figure(
    weights: NDArray[np.float64], chances: NDArray[np.float64], truth: NDArray[np.int64], *, ranked: bool
) -> NDArray[np.float64]:
    """Exact match or CCC of one draw, for each row of weights (resamples, items); nan where no item is left."""
    import numpy as np

    total = np.where(weights.sum(axis=1) > 0, weights.sum(axis=1), np.nan)
    if not ranked:
        right: NDArray[np.float64] = weights @ (chances.argmax(axis=1) == truth) / total
        return right
    x, y = chances @ np.arange(chances.shape[1]) - truth.mean(), truth - truth.mean()
    mx, my = weights @ x / total, weights @ y / total
    spread = weights @ (x**2 + y**2) / total - mx**2 - my**2 + (mx - my) ** 2
    both: NDArray[np.float64] = 2 * (weights @ (x * y) / total - mx * my) / np.maximum(spread, 1e-12)
    return both
