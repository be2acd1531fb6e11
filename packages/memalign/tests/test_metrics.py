from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.errors import InputError
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
pairs_of_scores = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), max_size=40)

# Cohen's table of two raters and a yes/no question: 20 both yes, 5 and 10 apart, 15 both no.
YES_NO = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15


def columns(pairs):
    return [a for a, _ in pairs], [b for _, b in pairs]


@pytest.mark.parametrize(
    ("measure", "pairs", "value"),
    [
        (cohen_kappa, YES_NO, 0.4),  # (0.7 - 0.5) / (1 - 0.5)
        # Means 2 and 3, variances and covariance 2/3: 2·2/3 / (2/3 + 2/3 + 1).
        (ccc, [(1e9 + 1, 1e9 + 2), (1e9 + 2, 1e9 + 3), (1e9 + 3, 1e9 + 4)], 4 / 7),
        (ccc, [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], -1.0),
    ],
)
def test_a_measure_of_a_hand_computed_table(measure, pairs, value):
    assert measure(*columns(pairs)) == pytest.approx(value)


def test_krippendorffs_own_example():
    # "Computing Krippendorff's Alpha-Reliability" (2011), section C: four observers,
    # twelve units, missing data.
    observers = (
        (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
        (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
        (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
        (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
    )
    units = [
        [value for value in unit if value is not None]
        for unit in zip(*observers, strict=True)
    ]
    assert krippendorff_alpha(units) == pytest.approx(0.743, abs=5e-4)
    assert krippendorff_alpha(units, level="ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(units, level="interval") == pytest.approx(0.849, abs=5e-4)


def test_mcnemar_is_the_binomial_test():
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(0, 6) == pytest.approx(2 / 64)
    assert mcnemar_exact(3, 10) == pytest.approx(2 * (1 + 13 + 78 + 286) / 2**13)
    assert mcnemar_exact(5, 5) == 1.0
    assert 0 < mcnemar_exact(2900, 3100) < 0.02
    with pytest.raises(InputError):
        mcnemar_exact(-1, 2)


def test_wilsons_interval_has_width_even_at_the_edge():
    assert wilson_interval(0, 0) is None
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    assert wilson_interval(81, 263) == pytest.approx((0.2535, 0.3682), abs=1e-4)
    assert wilson_interval(15, 148) == pytest.approx((0.0598, 0.1644), abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.2005), abs=1e-4)
    assert wilson_interval(1, 29) == pytest.approx((0.0018, 0.1963), abs=1e-4)


@pytest.mark.parametrize(
    ("measure", "pairs"),
    [
        (cohen_kappa, []),
        (ccc, []),
        (cohen_kappa, [("A", "A")] * 2),
        (ccc, [(3, 3)] * 2),
        (ccc, [(0.1, 0.1)] * 3),
        (ccc, [(1, 1)]),
    ],
)
def test_one_label_only_cannot_tell_agreement_from_chance(measure, pairs):
    assert measure(*columns(pairs) if pairs else ([], [])) is None


def test_alpha_needs_two_labels_and_a_case_of_two_people():
    assert {
        krippendorff_alpha(units) for units in ([["A", "A"], ["A"]], [["A"], ["B"]], [])
    } == {None}


@given(pairs_of_labels, pairs_of_scores)
def test_measures_are_bounded_symmetric_and_order_blind(labels, scores):
    for measure, pairs in ((cohen_kappa, labels), (ccc, scores)):
        first, second = columns(pairs)
        value = measure(first, second)
        assert value is None or -1 - 1e-9 <= value <= 1 + 1e-9
        assert value == pytest.approx(measure(second, first))
        assert value == pytest.approx(
            measure(*columns(random.Random(1).sample(pairs, len(pairs))))
        )
        assert measure(first, first) in (None, pytest.approx(1.0))


@given(pairs_of_scores.filter(lambda pairs: len(pairs) > 1))
def test_lins_concordance_is_kappa_with_quadratic_weights(pairs):
    first, second = columns(pairs)
    apart = sum((a - b) ** 2 for a, b in pairs)
    by_chance = sum((a - b) ** 2 for a in first for b in second) / len(pairs)
    assert ccc(first, second) == (
        pytest.approx(1 - apart / by_chance) if by_chance else None
    )


@pytest.mark.parametrize("measure", [cohen_kappa, ccc])
def test_weighted_cases_give_what_repeated_cases_give(measure):
    draw = random.Random(3)
    truth = [draw.randint(1, 4) for _ in range(30)]
    judged = [min(4, max(1, score + draw.choice((-1, 0, 0, 1)))) for score in truth]
    weights = [[draw.choice((0, 1, 1, 2)) for _ in truth] for _ in range(50)]
    repeated = [
        measure(
            *(
                [value for value, n in zip(column, row, strict=True) for _ in range(n)]
                for column in (judged, truth)
            )
        )
        for row in weights
    ]
    assert KERNELS[measure](
        np.array(weights, dtype=float), judged, truth
    ) == pytest.approx(repeated)


def test_an_estimate_prints_itself():
    assert str(Estimate(value=0.5, low=0.25, high=0.75)) == "0.50 [0.25, 0.75]"
    assert str(Estimate(value=None)) == "n/a"
    assert str(Estimate(value=1.0)) == "1.00"
    assert f"{Estimate(value=0.5, low=0.25, high=0.75):.0%}" == "50% [25%, 75%]"
    assert [f"{Estimate(value=value):.2f}" for value in (None, 1.0)] == ["n/a", "1.00"]
