"""How often a gate is wrong, over 250 simulated comparisons in which the truth is known.

A judge at the very edge may pass, and may be stopped, in one of twenty at most: 12 of
250. More than 21 is more than chance gives in a hundred such tests. Cases of a group (a
conversation, a source) go together: `alike` is the correlation of what decides them,
before it is cut into right and wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from memalign.evaluation import ScoredCase, compare
from memalign.evaluation.agreement import measure
from memalign.evaluation.criteria import outcome_of
from memalign.metrics import student_t
from memalign.values import ValueType
from tests.support.scored import scored

DRAWINGS = 250
MOST = 21


class Drawn(NamedTuple):
    """How many cases are drawn, how many go together as a group, and how much they are
    alike."""

    cases: int
    together: int = 1
    alike: float = 0.0

    def normal(self, chance: np.random.Generator) -> NDArray[np.float64]:
        """One number a case, standard normal each, correlated within groups."""
        groups = chance.normal(size=-(-self.cases // self.together))
        shared = groups.repeat(self.together)[: self.cases]
        own = chance.normal(size=self.cases)
        in_common = self.alike**0.5
        apart = (1 - self.alike) ** 0.5
        return np.asarray(in_common * shared + apart * own)

    def below(self, chance: np.random.Generator, share: float) -> NDArray[np.bool_]:
        """True for about this share of the cases."""
        return np.less(self.normal(chance), NormalDist().inv_cdf(share))

    def scored(
        self, labels: NDArray[np.generic], values: NDArray[np.generic]
    ) -> list[ScoredCase]:
        return scored(values.tolist(), labels.tolist(), together=self.together)


ALONE = [Drawn(10), Drawn(20), Drawn(60)]
GROUPED = [
    Drawn(20, 2, 0.3),
    Drawn(40, 4, 0.8),
    Drawn(100, 10, 0.3),
    Drawn(80, 4, 0.8),
]


def rates(decide: Callable[[np.random.Generator], str]) -> Counter[str]:
    chance = np.random.default_rng(5)
    return Counter(decide(chance) for _ in range(DRAWINGS))


def at_edge(found: Counter[str]) -> None:
    assert found["pass"] <= MOST
    assert found["worse"] <= MOST


# -- a minimum -------------------------------------------------------------------------


def true_kappa(positive: float, wrong: float) -> float:
    """Of a judge that is wrong about this share of the cases, whatever their label."""
    said = positive * (1 - wrong) + (1 - positive) * wrong
    by_chance = positive * said + (1 - positive) * (1 - said)
    return 1 - wrong / (1 - by_chance)


EDGES = [
    ("accuracy", 0.5, 0.3),
    ("accuracy", 0.5, 0.1),
    ("kappa", 0.5, 0.4),
    ("kappa", 0.1, 0.15),
]


@pytest.mark.parametrize("drawn", ALONE + GROUPED, ids=str)
@pytest.mark.parametrize(("metric", "positive", "wrong"), EDGES)
def test_labels_at_the_edge(drawn, metric, positive, wrong):
    edge = 1 - wrong if metric == "accuracy" else true_kappa(positive, wrong)

    def decide(chance: np.random.Generator) -> str:
        labels = drawn.below(chance, positive)
        values = labels ^ drawn.below(chance, wrong)
        figures = measure(ValueType.of(bool), drawn.scored(labels, values))
        return outcome_of(figures[metric], edge)

    at_edge(rates(decide))


@pytest.mark.parametrize("drawn", ALONE + GROUPED, ids=str)
@pytest.mark.parametrize("follows", [0.5, 0.8])
def test_scores_at_the_edge(drawn, follows):
    """Verdict and label have the same mean and spread, and so their CCC is their
    correlation."""
    scale = ValueType.of("float:-9..9")
    rest = (1 - follows**2) ** 0.5

    def decide(chance: np.random.Generator) -> str:
        labels = drawn.normal(chance)
        values = follows * labels + rest * drawn.normal(chance)
        figures = measure(scale, drawn.scored(labels, values))
        return outcome_of(figures["ccc"], follows)

    at_edge(rates(decide))


@pytest.mark.parametrize(
    ("kind", "too_high", "n", "low"),
    [
        ("int:1..5", [0, 1], 10, 0.6),
        ("int:1..5", [0, 1, 2, 5, 6, 7, 10, 11], 40, 0.85),
        ("float:1..5", [0, 1], 10, 0.6),
        ("float:1..5", [3], 20, 0.85),
    ],
)
def test_few_scores_that_are_close_are_told_apart_from_chance(kind, too_high, n, low):
    labels = 1 + np.arange(n) % 5
    values = labels.copy()
    values[too_high] += 1
    found = measure(ValueType.of(kind), Drawn(n).scored(labels, values))
    figure: Any = list(found.values())[-1]
    assert low < figure.low < figure.value < figure.high < 1


@pytest.mark.parametrize("kind", ["int:1..5", "float:1..5"])
def test_ten_scores_that_are_always_right_have_an_interval(kind):
    labels = np.array([1, 2, 3, 4, 5] * 2)
    found = measure(ValueType.of(kind), Drawn(10).scored(labels, labels))
    figure = list(found.values())[-1]
    assert (figure.low or 1) < 0.8
    assert figure.high == 1


# -- a baseline ------------------------------------------------------------------------


def against_baseline(
    drawn: Drawn, *, broken: float, fixed: float, points: float = 5
) -> Counter[str]:
    def decide(chance: np.random.Generator) -> str:
        turned = drawn.normal(chance)
        first = turned < NormalDist().inv_cdf(1 - fixed)
        second = turned > NormalDist().inv_cdf(broken)
        labels = np.ones(drawn.cases, dtype=bool)
        found = compare(drawn.scored(labels, first), drawn.scored(labels, second))
        return outcome_of(found.difference, -points / 100)

    return rates(decide)


@pytest.mark.parametrize(
    "drawn", [*ALONE, Drawn(200), *GROUPED, Drawn(200, 10, 0.8)], ids=str
)
@pytest.mark.parametrize(
    ("broken", "fixed", "points"), [(0.10, 0.05, 5), (0.15, 0.05, 10)]
)
def test_worse_by_what_is_allowed_and_no_more(drawn, broken, fixed, points):
    at_edge(against_baseline(drawn, broken=broken, fixed=fixed, points=points))


@pytest.mark.parametrize("drawn", [Drawn(150), Drawn(200, 4, 0.3)], ids=str)
def test_a_planted_regression_is_stopped_and_an_equal_judge_is_not(drawn):
    worse = against_baseline(drawn, broken=0.25, fixed=0.05)
    assert worse["pass"] == 0
    assert worse["worse"] > 0.8 * DRAWINGS
    assert against_baseline(drawn, broken=0.06, fixed=0.06)["worse"] <= 2


@pytest.mark.parametrize(
    ("degrees", "tabled"),
    [(3, 3.182), (5, 2.571), (9, 2.262), (30, 2.042), (None, 1.960)],
)
def test_students_t_is_the_tabled_one(degrees, tabled):
    assert student_t(0.95, degrees) == pytest.approx(tabled, abs=0.03)
