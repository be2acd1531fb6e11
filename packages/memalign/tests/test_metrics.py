"""Figures of agreement: by hand, from their papers, and against each other."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.metrics import (
    KERNELS,
    Estimate,
    ccc,
    cohen_kappa,
    krippendorff_alpha,
    mcnemar_exact,
    wilson_interval,
)

pairs_of_labels = st.lists(
    st.tuples(st.sampled_from("ABC"), st.sampled_from("ABC")), max_size=40
)
scores = st.integers(1, 5)
pairs_of_scores = st.lists(st.tuples(scores, scores), max_size=40)

# Cohen's table of two raters and a yes/no question: 20 both yes, 5 and 10 apart, 15 both no.
ONE = "y" * 20 + "y" * 5 + "n" * 10 + "n" * 15
OTHER = "y" * 20 + "n" * 5 + "y" * 10 + "n" * 15


def columns(pairs):
    return tuple(zip(*pairs, strict=True)) or ((), ())


@pytest.mark.parametrize(
    ("measure", "first", "second", "value"),
    [
        (cohen_kappa, ONE, OTHER, 0.4),  # (0.7 - 0.5) / (1 - 0.5)
        # Means 2 and 3, variances and covariance 2/3: 2·2/3 / (2/3 + 2/3 + 1).
        (ccc, [1e9 + 1, 1e9 + 2, 1e9 + 3], [1e9 + 2, 1e9 + 3, 1e9 + 4], 4 / 7),
        (ccc, [1.0, 2.0, 3.0], [3.0, 2.0, 1.0], -1.0),
    ],
)
def test_a_measure_of_a_hand_computed_table(measure, first, second, value):
    assert measure(first, second) == pytest.approx(value)


# "Computing Krippendorff's Alpha-Reliability" (2011), section C: twelve units, four
# observers, missing data.
UNITS = (
    "1 1 1|2 2 3 2|3 3 3 3|3 3 3 3|2 2 2 2|1 2 3 4|4 4 4 4|1 1 2 1|2 2 2 2|5 5 5|1 1|3"
)


@pytest.mark.parametrize(
    ("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_own_example(level, alpha):
    units = [list(map(int, unit.split())) for unit in UNITS.split("|")]
    assert krippendorff_alpha(units, level=level) == pytest.approx(alpha, abs=5e-4)


def test_mcnemar_is_the_binomial_test():
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(0, 6) == pytest.approx(2 / 64)
    assert mcnemar_exact(3, 10) == pytest.approx(2 * (1 + 13 + 78 + 286) / 2**13)
    assert mcnemar_exact(5, 5) == 1.0
    assert 0 < mcnemar_exact(2900, 3100) < 0.02


@pytest.mark.parametrize(
    ("found", "of", "interval"),
    [
        # Newcombe 1998, table I.
        (81, 263, (0.2535, 0.3682)),
        (15, 148, (0.0598, 0.1644)),
        (0, 20, (0.0, 0.2005)),
        (1, 29, (0.0018, 0.1963)),
    ],
)
def test_wilsons_interval_has_width_even_at_the_edge(found, of, interval):
    assert wilson_interval(found, of) == pytest.approx(interval, abs=1e-4)
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize(
    ("measure", "labels"),
    [
        (cohen_kappa, []),
        (ccc, []),
        (cohen_kappa, ["A", "A"]),
        (ccc, [3, 3]),
        (ccc, [0.1, 0.1, 0.1]),
        (ccc, [1]),
    ],
)
def test_one_label_only_cannot_tell_agreement_from_chance(measure, labels):
    assert measure(labels, labels) is None


@pytest.mark.parametrize("units", [[["A", "A"], ["A"]], [["A"], ["B"]], []])
def test_alpha_needs_two_labels_and_a_case_of_two_people(units):
    assert krippendorff_alpha(units) is None


@given(pairs_of_labels, pairs_of_scores)
def test_measures_are_bounded_symmetric_and_order_blind(labels, scores):
    for measure, pairs in ((cohen_kappa, labels), (ccc, scores)):
        first, second = columns(pairs)
        value = measure(first, second)
        assert value is None or -1 - 1e-9 <= value <= 1 + 1e-9
        assert value == pytest.approx(measure(second, first))
        shuffled = random.Random(1).sample(pairs, len(pairs))
        assert value == pytest.approx(measure(*columns(shuffled)))
        assert measure(first, first) in (None, pytest.approx(1.0))


@given(pairs_of_scores.filter(lambda pairs: len(pairs) > 1))
def test_lins_concordance_is_kappa_with_quadratic_weights(pairs):
    first, second = map(np.array, columns(pairs))
    apart = ((first - second) ** 2).mean()
    by_chance = (np.subtract.outer(first, second) ** 2).mean()
    expected = pytest.approx(1 - apart / by_chance) if by_chance else None
    assert ccc(first.tolist(), second.tolist()) == expected


@pytest.mark.parametrize("measure", [cohen_kappa, ccc])
def test_weighted_cases_give_what_repeated_cases_give(measure):
    chance = np.random.default_rng(3)
    truth = chance.integers(1, 5, 30)
    judged = np.clip(truth + chance.choice([-1, 0, 0, 1], 30), 1, 4)
    weights = chance.choice([0, 1, 1, 2], (50, 30))
    weighted = KERNELS[measure](weights.astype(float), judged.tolist(), truth.tolist())
    for figure, times in zip(weighted, weights, strict=True):
        repeated = measure(judged.repeat(times).tolist(), truth.repeat(times).tolist())
        assert figure == pytest.approx(repeated)


def test_an_estimate_prints_itself():
    half = Estimate(value=0.5, low=0.25, high=0.75)
    assert str(half) == "0.50 [0.25, 0.75]"
    assert f"{half:.0%}" == "50% [25%, 75%]"
    assert str(Estimate(value=None)) == f"{Estimate(value=None):.2f}" == "n/a"
    assert str(Estimate(value=1.0)) == f"{Estimate(value=1.0):.2f}" == "1.00"
