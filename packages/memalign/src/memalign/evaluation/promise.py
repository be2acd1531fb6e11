"""What may pass without a person: agreement above thresholds of confidence, and a promise.

Fixed thresholds are tested from the strictest to the loosest by the exact binomial test, and the
last one before the first failure is named (fixed-sequence testing: Bauer 1991; Learn then Test:
Angelopoulos and others 2021). A threshold that breaks the promise is named in at most 5 % of
samples.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from memalign.errors import InputError
from memalign.evaluation.cases import Cases, ScoredCase, accuracy, clusters, outcomes
from memalign.evaluation.intervals import (
    FEWEST_GROUPS,
    design_effect,
    too_few_groups,
)
from memalign.metrics import Estimate

__all__ = [
    "Passing",
    "Promise",
    "binomial_tail",
    "check_promise",
    "fewest_for",
    "passing",
    "promise_of",
    "steps_of",
    "with_confidence",
]

# fmt: off
_GRID = (
    0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995,
)
# fmt: on
_ALPHA = 0.05
_ROUNDING = 1e-9  # what floating point may take from a whole number of cases
_Z_SQUARED = 2.7  # 1.645 squared, of a one-sided test at _ALPHA
_FIRST_TEST = 1.6
"""The first threshold that is tested passes 1.6 times the fewest cases, so that one error does not
end the sequence."""
_FIRST_SHARE = 1 / 3
"""It passes at least a third of all cases, for the same reason."""


@dataclass(frozen=True, kw_only=True)
class Passing:
    """The verdicts at least as sure as a threshold.

    Attributes:
        at: The threshold of the confidence, in [0, 1].
        label: The verdict that is looked at, in words; None for all of them.
        n: Labelled cases that pass.
        share: Their share of the labelled cases with such a verdict; the others are left for
            people.
        agreement: How often people agree with those that pass, with its interval at 95 %.
    """

    at: float
    label: str | None = None
    n: int
    share: float
    agreement: Estimate


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The threshold above which people agree with enough of the verdicts, at 95 % confidence.

    Attributes:
        least: The promised agreement, in (0, 1).
        kept: What passes the threshold that keeps the promise; None where none is proven to.
        why: Why there is none, and what would help.
        missing: About how many labelled cases are missing; None where that cannot be told, or where
            labels alone will not do.
    """

    least: float
    kept: Passing | None = None
    why: str = ""
    missing: int | None = None


def with_confidence(cases: Cases) -> list[ScoredCase]:
    """Return the cases whose verdict carries a probability."""
    return [case for case in cases if None not in (case.value, case.confidence)]


def passing(cases: Cases, at: float, label: str | None = None) -> Passing:
    """Measure the verdicts whose confidence is at least `at`.

    Args:
        cases: Cases with a verdict and a confidence.
        at: The threshold.
        label: Their verdict in words, where they all have the same.
    """
    pass_it = _at_least(cases, at)
    return Passing(
        at=at,
        label=label,
        n=len(pass_it),
        share=len(pass_it) / max(len(cases), 1),
        agreement=accuracy(pass_it),
    )


def _at_least(cases: Cases, at: float) -> list[ScoredCase]:
    return [case for case in cases if (case.confidence or 0.0) >= at]


def steps_of(cases: Cases, label: str | None = None) -> list[Passing]:
    """Measure the verdicts at every threshold; if the same cases pass several, at the lowest.

    Args:
        cases: Cases with a verdict and a confidence.
        label: Their verdict in words, where they all have the same.
    """
    steps: dict[int, Passing] = {}
    for at in _GRID:
        step = passing(cases, at, label)
        if step.n:
            steps.setdefault(step.n, step)
    return list(steps.values())


def check_promise(least: float) -> None:
    """Refuse what cannot be promised.

    Raises:
        InputError: It is not a share between 0 and 1.
    """
    if not isinstance(least, int | float) or not 0 < least < 1:
        raise InputError(
            f"a promise is a share above 0 and below 1, such as 0.95, not {least!r}"
        )


def promise_of(cases: Cases, least: float) -> Promise:
    """Find the lowest threshold that keeps a promise, or say what is missing for one.

    Args:
        cases: Cases with a verdict, of which those with a confidence count.
        least: The agreement that is promised for all verdicts that pass, in (0, 1).
    """
    known = with_confidence(cases)
    if cases and not known:
        return Promise(
            least=least,
            why="the verdicts carry no probability; those of decision models do, "
            "and those of pairs with --param swap=true",
        )
    fewest = fewest_for(least)
    steps = steps_of(known)
    kept = None
    for step in _sequence(steps, fewest, len(known)):
        if not _proven(_at_least(known, step.at), least):
            break
        kept = step
    if kept is not None:
        return Promise(least=least, kept=kept)
    if len(known) < fewest:
        missing = fewest - len(known)
        why = (
            f"even without an error it takes {fewest:,} labelled cases, "
            f"and {len(known)} are here: at least {missing:,} more"
        )
        return Promise(least=least, why=why, missing=missing)
    return _unproven(known, steps, least, fewest)


def _sequence(steps: Sequence[Passing], fewest: int, count: int) -> list[Passing]:
    """Return the thresholds to test, the strictest first.

    Where none passes enough cases to bear an error, only the loosest is tested.

    Args:
        steps: What passes each threshold, the loosest first.
        fewest: How many cases prove the promise if all are right.
        count: How many cases there are.
    """
    testable = [step for step in steps if step.n >= fewest]
    start = max(_FIRST_TEST * fewest, count * _FIRST_SHARE)
    robust = [step for step in testable if step.n >= start]
    return robust[::-1] or testable[:1]


def _proven(cases: Cases, least: float) -> bool:
    """Return whether the exact binomial test shows that people agree with enough verdicts."""
    groups = clusters(cases)
    if too_few_groups(groups) is not None:
        return False
    right = outcomes(cases)
    effect, _ = design_effect(right, groups)
    wrong = right.count(False) / effect
    n = len(right) / effect
    most = math.ceil(wrong - _ROUNDING)
    whole = math.floor(n + _ROUNDING)
    return binomial_tail(most, whole, 1 - least) <= _ALPHA


def _unproven(
    cases: Cases, steps: Sequence[Passing], least: float, fewest: int
) -> Promise:
    """Say what is missing, judged by the threshold at which people agree most."""
    broad = [step for step in steps if step.share >= _FIRST_SHARE]
    best = max(broad, key=lambda step: (step.agreement.value or 0.0, step.n))
    passed = _at_least(cases, best.at)
    groups = clusters(passed)
    few = too_few_groups(groups)
    agreed = best.agreement.value or 0.0
    highest = best.agreement.high or 1.0
    missing = None
    if highest < least:
        advice = ", so that labels alone will not help"
    elif few is not None:
        advice = f" of {few} groups; {FEWEST_GROUPS} are needed: label cases of others"
    elif agreed <= least:
        advice = ", which does not tell yet: label more"
    else:
        apart = agreed - least
        variance = least * (1 - least)
        effect, _ = design_effect(outcomes(passed), groups)
        needed = _Z_SQUARED * variance / apart**2
        needed = max(needed, _FIRST_TEST * fewest) * effect
        more = (needed - best.n) / best.share
        missing = max(1, math.ceil(more))
        advice = f"; about {missing:,} more labels would prove it"
    why = (
        f"at a confidence of {best.at:g} or more people agree in {agreed:.1%} of "
        f"{best.n} cases{advice}"
    )
    return Promise(least=least, why=why, missing=missing)


def binomial_tail(most: int, n: int, share: float) -> float:
    """Return the probability of at most `most` of `n` cases, each with the probability `share`."""
    other = math.log1p(-share)
    odds = math.log(share) - other
    # As a logarithm, because the first of many cases are too unlikely for a float.
    chance = n * other
    total = math.exp(chance)
    for count in range(1, min(most, n) + 1):
        likelier = (n - count + 1) / count
        chance += math.log(likelier) + odds
        total += math.exp(chance)
    return min(1.0, total)


def fewest_for(least: float, wrong: int = 0) -> int:
    """Return how many cases prove a promise: 59 for a share of 0.95 where none is wrong."""

    def proves(n: int) -> bool:
        return binomial_tail(wrong, n, 1 - least) <= _ALPHA

    enough = wrong + 1
    while not proves(enough):
        enough *= 2
    return bisect_left(range(enough), True, lo=wrong + 1, key=proves)
