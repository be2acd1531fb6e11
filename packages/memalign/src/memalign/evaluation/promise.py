"""What may pass without a person: agreement above thresholds of confidence, and the threshold that keeps a promise.

A promise is tested at thresholds that were fixed beforehand, from the strictest to the loosest, by the exact binomial
test, and the last one before the first failure is named (fixed-sequence testing: Bauer 1991; Learn then Test:
Angelopoulos and others 2021). So in at most one of twenty samples a threshold is named that does not keep it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memalign.errors import InputError
from memalign.evaluation.cases import FEWEST_GROUPS, estimate
from memalign.evaluation.intervals import design_effect, share_interval
from memalign.metrics import Estimate

__all__ = ["GRID", "Passing", "Promise", "binomial_tail", "check_promise", "fewest_for", "passing", "promise_of"]

GRID = (0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.96, 0.97, 0.98, 0.99, 0.995)
"""The thresholds, fixed before any label is seen."""

_ALPHA = 0.05
_NORMAL = 1.645  # standard errors of a one-sided test at 95 %
_FIRST = 1.6
"""The first test has so many times the fewest cases: then one error or two do not end the sequence at its beginning."""


@dataclass(frozen=True, kw_only=True)
class Passing:
    """The verdicts at least as sure as a threshold.

    Attributes:
        at: The threshold of the confidence, in [0, 1].
        label: The verdict that is looked at; None for all of them.
        n: Labelled cases that pass.
        share: Their share of the labelled cases with such a verdict; the others are left for people.
        agreement: How often people agree with those that pass, with its interval at 95 %.
    """

    at: float
    label: str | None = None
    n: int
    share: float
    agreement: Estimate


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The threshold above which people agree with at least `least` of the verdicts, at 95 % confidence.

    Attributes:
        least: What is promised, in (0, 1).
        kept: The threshold, what passes, and the agreement there; None where none is proven to keep it.
        why: Why there is none, and how many labels are missing.
        missing: Labelled cases that are missing at least; None where labels alone will not do.
    """

    least: float
    kept: Passing | None = None
    why: str = ""
    missing: int | None = None


def passing(
    confidences: Sequence[float],
    right: Sequence[bool],
    at: float,
    *,
    label: str | None = None,
    groups: Sequence[str] | None = None,
) -> Passing:
    """Measure the verdicts whose confidence is at least `at`.

    Args:
        confidences: The probability of each verdict, in [0, 1].
        right: Whether people give the same label.
        at: The threshold.
        label: Whose verdicts these are, for the result.
        groups: The group of each case, where cases belong together.
    """
    kept = [place for place, confidence in enumerate(confidences) if confidence >= at]
    good = [right[place] for place in kept]
    among = None if groups is None else [groups[place] for place in kept]
    share = sum(good) / len(good) if good else None
    agreement = estimate(share, among, lambda: share_interval(good, among))
    return Passing(at=at, label=label, n=len(kept), share=len(kept) / max(len(confidences), 1), agreement=agreement)


def check_promise(least: float) -> None:
    """Refuse what cannot be promised.

    Raises:
        InputError: It is not a share between 0 and 1.
    """
    if not 0 < least < 1:
        raise InputError(f"a promise is a share above 0 and below 1, such as 0.95, not {least:g}")


def promise_of(
    confidences: Sequence[float], right: Sequence[bool], least: float, groups: Sequence[str] | None = None
) -> Promise:
    """Find the lowest threshold that keeps a promise, or say what is missing for one.

    Args:
        confidences: The probability of each verdict, in [0, 1].
        right: Whether people give the same label.
        least: The agreement that is promised for all verdicts that pass, in (0, 1).
        groups: The group of each case, where cases belong together.

    Raises:
        InputError: The promise is not a share between 0 and 1.
    """
    check_promise(least)
    kept: Passing | None = None
    for step in _sequence(confidences, right, least, groups):
        if _refuted(step, confidences, right, least, groups):
            kept = step
        else:
            break
    if kept is not None:
        return Promise(least=least, kept=kept)
    return _missing(confidences, right, least)


def _sequence(
    confidences: Sequence[float], right: Sequence[bool], least: float, groups: Sequence[str] | None
) -> list[Passing]:
    """List the steps that are tested, the strictest first; chosen by how many cases pass, not by their labels."""
    steps: list[Passing] = []
    for at in reversed(GRID):
        step = passing(confidences, right, at, groups=groups)
        if step.n and steps and steps[-1].n == step.n:
            steps[-1] = step  # the same cases: the lower threshold lets more of the traffic pass
        else:
            steps.append(step)
    enough = [step for step in steps if step.n >= _FIRST * fewest_for(least)]
    return enough or [step for step in steps if step.n >= fewest_for(least)][-1:]


def _refuted(
    step: Passing, confidences: Sequence[float], right: Sequence[bool], least: float, groups: Sequence[str] | None
) -> bool:
    """Return whether it is refuted that the promise is broken at this step, by the exact binomial test."""
    places = [place for place, confidence in enumerate(confidences) if confidence >= step.at]
    wrong = sum(not right[place] for place in places)
    effect = 1.0
    if groups is not None:
        among = [groups[place] for place in places]
        if len(set(among)) < FEWEST_GROUPS:
            return False
        effect = design_effect([float(right[place]) for place in places], among)
    n = math.floor(len(places) / effect)
    return binomial_tail(math.ceil(wrong / effect), n, 1 - least) <= _ALPHA


def binomial_tail(most: int, n: int, share: float) -> float:
    """Return the probability of at most `most` of `n` cases, where each has the probability `share`."""
    if most >= n:
        return 1.0
    terms = []
    for k in range(most + 1):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        terms.append(math.exp(ways + k * math.log(share) + (n - k) * math.log1p(-share)))
    return math.fsum(terms)


def fewest_for(least: float, wrong: int = 0) -> int:
    """Return how many cases prove a promise at 95 % confidence when so many of them are wrong: 59 for 0.95 and none."""
    n = math.ceil(math.log(_ALPHA) / math.log(least)) if wrong == 0 else wrong + 1
    while binomial_tail(wrong, n, 1 - least) > _ALPHA:
        n += 1
    return n


def _missing(confidences: Sequence[float], right: Sequence[bool], least: float) -> Promise:
    """Say how many labels are missing, judged by the threshold at which people agree most."""
    n, fewest = len(right), fewest_for(least)
    if n < fewest:
        missing = fewest - n
        why = f"even without an error it takes {fewest} labelled cases, and {n} are here: at least {missing} more"
        return Promise(least=least, why=why, missing=missing)
    steps = [passing(confidences, right, at) for at in GRID]
    tried = [step for step in steps if step.n >= fewest / 2 and step.agreement.value is not None]
    best = max(tried, key=lambda step: (step.agreement.value or 0, step.n))
    agreed = best.agreement.value or 0.0
    if agreed <= least:
        why = f"where the judge is surest ({best.n} cases), people agree in {agreed:.1%}: labels alone will not help"
        return Promise(least=least, why=why)
    needed = max(_needed(least, agreed), math.ceil(_FIRST * fewest))
    missing = max(1, math.ceil((needed - best.n) / best.share))
    why = (
        f"at a confidence of {best.at:g} or more people agree in {agreed:.1%} of {best.n} cases; about {missing:,} "
        "more labels would prove it if they go on so"
    )
    return Promise(least=least, why=why, missing=missing)


def _needed(least: float, agreed: float) -> int:
    """Return about how many cases prove a promise if people go on to agree as often, by the normal approximation."""
    return math.ceil(_NORMAL**2 * least * (1 - least) / (agreed - least) ** 2)
