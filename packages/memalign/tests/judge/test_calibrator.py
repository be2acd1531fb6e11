"""The calibrator: what answers, what guidelines expect of them, and the model's own verdict say of labels and numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memalign.judge.calibrator import HABIT, VERDICT, Calibrator, Worth, conditional_logit, fit, softmax
from memalign.judge.decision import margin_of
from memalign.judge.observations import FEWEST, LabelledCase, Observation
from memalign.memory import Expectation
from memalign.values import ValueType

TYPES: dict[str, Sequence[Any]] = {
    "bool": (True, False),
    "A|B": ("A", "B"),
    "good|fair|poor": ("good", "fair", "poor"),
    "int:1..5": (1, 2, 3, 4, 5),
}
BOOL = ValueType.of(bool)


class World(NamedTuple):
    """Items with a label, the first `taught` of them with a comment that became a guideline."""

    cases: list[LabelledCase]
    taught: int

    def right(self, calibrator: Calibrator) -> float:
        """The calibrator's share of right verdicts on the others."""
        return fmean(calibrator.verdict(known) == label for known, label in self.cases[self.taught :])

    def own(self) -> float:
        return fmean(known.verdict == label for known, label in self.cases[self.taught :])

    def fitted(self) -> Calibrator:
        return fit(BOOL, self.cases[: self.taught])


def world(seed: int, *, taught: int, p: float, conditional: bool, own: float | None = None, unseen: int = 60) -> World:
    """Items with two features, each asked about in four wordings, every answer right with probability `p`.

    A comment tells both features of its own case, or the first, and the label: that they are alike, or the first.
    """
    rng = random.Random(seed)
    features = [(rng.random() < 0.5, rng.random() < 0.5) for _ in range(taught + unseen)]
    labels = [first == second if conditional else first for first, second in features]
    asked = [(number, wording) for number in range(2) for wording in range(4)]
    expected = []
    for (first, second), label in zip(features[:taught], labels, strict=False):
        one, other = f"0.{rng.randrange(4)}", f"1.{rng.randrange(4)}"
        checks = [(one, 1 if first else -1), (other, 1 if second else -1)][: 1 + conditional]
        expected.append(Expectation(label=label, checks=tuple(checks)))
    cases = []
    for place, (both, label) in enumerate(zip(features, labels, strict=True)):
        answers = {
            f"{number}.{wording}": abs(rng.gauss(2, 1)) * (1 if both[number] == (rng.random() < p) else -1)
            for number, wording in asked
        }
        verdict = None if own is None else label == (rng.random() < own)
        others = tuple(each for number, each in enumerate(expected) if number != place)
        cases.append(LabelledCase(Observation(answers, others, verdict), label))
    return World(cases, taught)


# Of a condition, a product of two answers, its weight learned, came to .50, .77, .51, .93 and .93 (below ten: not fitted).
CONDITIONS = [(0.85, 8, 0.66), (0.85, 20, 0.77), (0.95, 8, 0.8), (0.95, 20, 0.92)]
PLAIN = [(0.75, 20, 0.8), (0.95, 4, 0.9)]


@pytest.mark.parametrize(
    ("conditional", "p", "taught", "least"),
    [*((True, *each) for each in CONDITIONS), *((False, *each) for each in PLAIN)],
)
def test_few_comments_teach_a_rule(conditional: bool, p: float, taught: int, least: float) -> None:
    worlds = [world(seed, taught=taught, p=p, conditional=conditional) for seed in range(16)]
    assert fmean(each.right(each.fitted()) for each in worlds) > least


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("own", [0.9, 0.97])
def test_weak_checks_take_next_to_nothing_from_a_strong_verdict(conditional: bool, own: float) -> None:
    losses = []
    for seed, p, taught in product(range(8), (0.55, 0.65), (10, 24)):
        drawn = world(seed, taught=taught, p=p, conditional=conditional, own=own, unseen=40)
        calibrator = drawn.fitted()
        losses.append(drawn.own() - drawn.right(calibrator) if calibrator.worth.decides else 0.0)
    assert fmean(losses) < 0.02


def speaks(kind: str, label: Any, said: Any) -> float:
    """How much a yes is expected where the label is `label`, of a check that speaks for `said`."""
    if kind == "A|B":
        return 1.0 if label == "A" else -1.0
    if isinstance(label, bool | str):
        return 1.0 if label == said else -1.0
    values = TYPES[kind]
    return float(np.sign(said - np.mean(values)) * (label - np.mean(values)) / (max(values) - np.mean(values)))


def checks_of(kind: str) -> dict[str, Any]:
    """Two checks that tell the label, four that tell nothing, and the label that each speaks for."""
    labels = TYPES[kind]
    return {f"tells {n}": labels[-1 if n % 2 else 0] for n in range(2)} | {f"useless {n}": labels[0] for n in range(4)}


def cases_of(kind: str, *, count: int = 40, seed: int = 0, turned: bool = False) -> list[LabelledCase]:
    """Cases of which the model's own verdicts are drawn at random."""
    rng, labels, checks = random.Random(seed), TYPES[kind], checks_of(kind)
    expected = tuple(
        Expectation(label=None if kind == "A|B" else label, checks=((name, -1 if turned else 1),))
        for name, label in checks.items()
    )
    return [
        LabelledCase(
            Observation(
                {
                    name: 2 * (speaks(kind, label, said) if name.startswith("tells") else 0.0) + rng.gauss(0, 0.5)
                    for name, said in checks.items()
                },
                expected,
                rng.choice(list(labels)),
            ),
            label,
        )
        for label in (labels[number % len(labels)] for number in range(count))
    ]


def fitted(kind: str, cases: Sequence[LabelledCase] | None = None, **settings: Any) -> Calibrator:
    sides = ("A", "B") if kind == "A|B" else ()
    return fit(ValueType.of(kind), cases_of(kind, **settings) if cases is None else cases, sides)


def told(kind: str, label: Any, **changes: Any) -> Observation:
    """An item whose telling answers speak for the label."""
    answers = {
        name: 3 * speaks(kind, label, said) for name, said in checks_of(kind).items() if name.startswith("tells")
    }
    return cases_of(kind, count=1)[0].observation._replace(answers=answers, verdict=TYPES[kind][0], **changes)


@pytest.mark.parametrize("kind", TYPES)
def test_checks_decide_where_the_verdict_tells_nothing(kind: str) -> None:
    calibrator = fitted(kind)
    assert calibrator.worth.decides
    assert calibrator.worth.fixed > calibrator.worth.broken + 0.1 * calibrator.worth.n
    for label in (TYPES[kind][0], TYPES[kind][-1]):
        assert calibrator.verdict(told(kind, label)) == label


@pytest.mark.parametrize("kind", TYPES)
def test_contributions_add_up_to_the_log_odds(kind: str) -> None:
    calibrator, known = fitted(kind), told(kind, TYPES[kind][1])
    chances = calibrator.says(known)
    assert sum(chances.values()) == pytest.approx(1.0)
    for label in TYPES[kind]:  # whoever gave the verdict
        parts = calibrator.parts(known, label)
        other = max(chance for name, chance in chances.items() if name != label)
        assert sum(parts.values()) == pytest.approx(np.log(chances[label] / other))
        assert {HABIT, VERDICT} <= parts.keys()


def test_does_not_apply_is_no_answer() -> None:
    # A yes-leaning model: were "n/a" a margin between its answers, it would count as a no.
    assert margin_of({"yes": 0.2, "no": 0.3, "n/a": 0.5}) is None
    assert margin_of({"yes": 0.4, "no": 0.3, "n/a": 0.3}) == pytest.approx(np.log(4 / 3))


@pytest.mark.parametrize("kind", ["bool", "good|fair|poor", "int:1..5"])
def test_a_check_that_no_case_answered_turns_no_verdict(kind: str) -> None:
    calibrator, new = fitted(kind), Expectation(label=TYPES[kind][0], checks=(("learned today", 1),))
    for label in (TYPES[kind][0], TYPES[kind][-1]):
        known = told(kind, label)
        more = known._replace(answers={**known.answers, "learned today": 4.0}, expected=(*known.expected, new))
        assert calibrator.says(more) == calibrator.says(known)


def test_answers_that_always_lean_to_yes_are_measured_by_what_is_usual() -> None:
    rng, expected = random.Random(2), (Expectation(label=True, checks=(("kind", 1),)),)
    cases = [
        LabelledCase(Observation({"kind": 5.0 + (0.5 if label else -0.5) + rng.gauss(0, 0.2)}, expected), label)
        for label in [True, False] * 20
    ]
    calibrator = fitted("bool", cases)
    assert calibrator.verdict(Observation({"kind": 5.5}, expected)) is True
    assert calibrator.verdict(Observation({"kind": 4.5}, expected)) is False


@pytest.mark.parametrize("n", [12, 20, 50])
@pytest.mark.parametrize(
    ("fixed", "broken", "decides"),
    [(1, 0, False), (0, 1, False), (2, 0, True), (3, 1, False), (4, 1, True), (5, 3, False), (8, 4, True)],
)
def test_fixed_and_broken_cases_decide_whatever_their_number(n: int, fixed: int, broken: int, decides: bool) -> None:
    assert Worth(n=n, fixed=fixed, broken=broken).decides == decides


def test_a_calibrator_is_measured_on_cases_it_was_not_fitted_to() -> None:
    # Of labels that nothing tells a calibrator has half right, as verdicts at random have; on what it was fitted to it
    # would have more.
    gains = []
    for seed in range(12):
        labels = np.random.default_rng(seed).permutation([True, False] * 20)
        cases = [
            case._replace(label=bool(label)) for case, label in zip(cases_of("bool", seed=seed), labels, strict=True)
        ]
        worth = fitted("bool", cases).worth
        gains.append((worth.fixed - worth.broken) / worth.n)
    assert fmean(gains) < 0.06


@pytest.mark.parametrize("kind", TYPES)
def test_below_ten_cases_guidelines_count_as_meant_and_decide_nothing(kind: str) -> None:
    calibrator = fitted(kind, count=FEWEST - 1)
    for label in (TYPES[kind][0], TYPES[kind][-1]):
        known = told(kind, label)._replace(verdict=None)
        assert (calibrator.verdict(known), calibrator.fitted, calibrator.worth.decides) == (label, False, False)


def test_a_models_probabilities_count_beyond_its_label() -> None:
    def case(label: bool, sure: float) -> LabelledCase:
        return LabelledCase(Observation({}, (), True, {True: sure, False: 1 - sure}), label)

    cases = [case(label, 0.95 if label else 0.6) for label in [True, False] * 20]
    calibrator = fitted("bool", cases)
    sure, unsure = (calibrator.verdict(case(True, chance).observation) for chance in (0.95, 0.6))
    assert (sure, unsure) == (True, False)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(30, 120))
def test_no_other_weights_are_likelier(seed: int, labels: int, n: int) -> None:
    # The penalised likelihood is concave: where its slope is zero, it is at its best.
    rng = np.random.default_rng(seed)
    rows, codes = rng.normal(size=(n, labels, 3)), rng.integers(0, labels, n)
    rows[np.arange(n), codes, 0] += 2.0  # something to find
    ridge, centre = np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, -1.0])
    weights = conditional_logit(rows, codes, ridge, centre)
    misses = softmax(rows @ weights) - np.eye(labels)[codes]
    assert np.allclose(np.einsum("nkf,nk->f", rows, misses) + ridge * (weights - centre), 0.0, atol=1e-2)
