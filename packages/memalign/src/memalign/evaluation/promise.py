"""What may pass without a person: agreement above thresholds of confidence, and a promise.

A promise is tested at thresholds that were fixed beforehand, from the strictest to the loosest, by
the exact binomial test, and the last one before the first failure is named (fixed-sequence testing:
Bauer 1991; Learn then Test: Angelopoulos and others 2021). So in at most one of twenty samples a
threshold is named that does not keep it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from memalign.errors import InputError
from memalign.evaluation.cases import Cases, ScoredCase, clusters
from memalign.evaluation.intervals import (
    FEWEST_GROUPS,
    design_effect,
    estimate_mean,
    share_interval,
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
]

_GRID = (
    0.0,
    0.5,
    0.6,
    0.7,
    0.75,
    0.8,
    0.85,
    0.9,
    0.925,
    0.95,
    0.96,
    0.97,
    0.98,
    0.99,
    0.995,
)
_ALPHA = 0.05
_ROUNDING = 1e-9  # what floating point may take from a whole number of cases
_Z_SQUARED = 2.7  # 1.645 squared, of a one-sided test at _ALPHA
_FIRST = 1.6
"""The first test has so many times the fewest cases: one error does not end the sequence."""
_PART = 1 / 3
"""It has at least such a part of all cases, for the same reason."""


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
        kept: The threshold, what passes, and the agreement there; None where none is proven to keep
            it.
        why: Why there is none, and how many labels are missing.
        missing: Labelled cases that are missing at least; None where labels alone will not do.
    """

    least: float
    kept: Passing | None = None
    why: str = ""
    missing: int | None = None


def passing(cases: Cases, at: float) -> Passing:
    """Measure the verdicts whose confidence is at least `at`.

    Args:
        cases: Cases with a verdict and a confidence.
        at: The threshold.
    """
    sure = _sure(cases, at)
    return Passing(
        at=at,
        n=len(sure),
        share=len(sure) / max(len(cases), 1),
        agreement=estimate_mean(_right(sure), clusters(sure), share_interval),
    )


def steps_of(cases: Cases) -> list[Passing]:
    """Measure the verdicts at every threshold; if the same cases pass several, at the lowest.

    Args:
        cases: Cases with a verdict and a confidence.
    """
    lowest: dict[int, float] = {}
    for at in _GRID:
        lowest.setdefault(len(_sure(cases, at)), at)
    return [passing(cases, at) for n, at in lowest.items() if n]


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
        cases: Cases with a verdict and a confidence.
        least: The agreement that is promised for all verdicts that pass, in (0, 1).
    """
    fewest = fewest_for(least)
    steps = steps_of(cases)
    enough = [step for step in steps if step.n >= fewest]
    start = max(_FIRST * fewest, len(cases) * _PART)
    sequence = [step for step in enough if step.n >= start] or enough[:1]
    kept: Passing | None = None
    for step in reversed(sequence):
        if not _proven(_sure(cases, step.at), least):
            break
        kept = step
    if kept is not None:
        return Promise(least=least, kept=kept)
    return _missing(steps, least, fewest, len(cases))


def _sure(cases: Cases, at: float) -> list[ScoredCase]:
    return [case for case in cases if (case.confidence or 0.0) >= at]


def _right(cases: Cases) -> list[bool]:
    return [bool(case.correct) for case in cases]


def _proven(cases: Cases, least: float) -> bool:
    """Return whether the exact binomial test shows that people agree with enough verdicts."""
    right = _right(cases)
    groups = clusters(cases)
    if groups is not None and len(set(groups)) < FEWEST_GROUPS:
        return False
    effect, _ = design_effect(right, groups)
    wrong = math.ceil(right.count(False) / effect - _ROUNDING)
    n = math.floor(len(right) / effect + _ROUNDING)
    return binomial_tail(wrong, n, 1 - least) <= _ALPHA


def binomial_tail(most: int, n: int, share: float) -> float:
    """Return the probability of at most `most` of `n` cases, each with the probability `share`."""
    total = 0.0
    for k in range(min(most, n) + 1):
        ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        total += math.exp(ways + k * math.log(share) + (n - k) * math.log1p(-share))
    return min(1.0, total)


def fewest_for(least: float, wrong: int = 0) -> int:
    """Return how many cases prove a promise if so many are wrong: 59 for 0.95 and none."""
    n = wrong + 1
    while binomial_tail(wrong, n, 1 - least) > _ALPHA:
        n += 1
    return n


def _missing(steps: Sequence[Passing], least: float, fewest: int, n: int) -> Promise:
    """Say how many labels are missing, judged by the threshold at which people agree most."""
    if n < fewest:
        why = f"even without an error it takes {fewest:,} labelled cases, and {n} are here"
        return Promise(
            least=least, why=f"{why}: at least {fewest - n:,} more", missing=fewest - n
        )
    tried = [
        step for step in steps if step.share >= _PART
    ]  # no sequence begins with fewer
    best = max(tried, key=lambda step: (step.agreement.value or 0.0, step.n))
    agreed = best.agreement.value or 0.0
    why = f"at a confidence of {best.at:g} or more people agree in {agreed:.1%} of {best.n} cases"
    if (best.agreement.high or 1.0) < least:
        return Promise(least=least, why=f"{why}, so that labels alone will not help")
    if agreed <= least:
        return Promise(least=least, why=f"{why}, which does not tell yet: label more")
    needed = _Z_SQUARED * least * (1 - least) / (agreed - least) ** 2
    missing = math.ceil((max(needed, _FIRST * fewest) - best.n) / best.share)
    why = f"{why}; about {max(1, missing):,} more labels would prove it"
    return Promise(least=least, why=why, missing=max(1, missing))
