"""How many labelled cases a claim takes: for a table of claims, and for the cases at hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from memalign.evaluation.promise import fewest_for
from memalign.metrics import paired_share_interval, student_t, wilson_interval

__all__ = ["Claim", "claims", "fewest", "half_width"]

_MOST = 1_000_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A claim about a judge, how it is proven, and the fewest labelled cases that prove it."""

    claim: str
    method: str
    least: int


def half_width(share: float, n: int) -> float:
    """Return half of Wilson's interval of a share, as a share: 0.06 for 0.9 of 100 cases."""
    low, high = wilson_interval(share * n, n) or (0.0, 1.0)
    return (high - low) / 2


def fewest(holds: Callable[[int], bool], start: int = 2) -> int:
    """Return the fewest cases for which something holds, which then holds for all more; at most a million.

    Args:
        holds: What is asked of a number of cases.
        start: The least number that is tried.
    """
    high = start
    while not holds(high) and high < _MOST:
        high *= 2
    low = max(start, high // 2)
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


def claims() -> list[Claim]:
    """List common claims with the fewest labels that they take; docs/how-to/labels.md has this table."""
    width, gate = "Wilson's interval of a share", "the whole interval on the good side"
    traffic = "prediction-powered inference, for much unlabelled traffic"
    paired, promise = "Bonett and Price's interval of paired cases", "the exact binomial test, no error among them"
    listed: list[Claim] = []
    for points in (10, 5, 3):
        n = fewest(lambda n, points=points: half_width(0.85, n) <= points / 100)  # type: ignore[misc]
        listed.append(Claim(claim=f"agreement of about 85 %, to ±{points} points", method=width, least=n))
    for real in (95, 90, 85):
        n = fewest(lambda n, real=real: _lowest(real / 100, n) >= 0.8)  # type: ignore[misc]
        listed.append(Claim(claim=f"agreement of at least 80 %, when it is {real} %", method=gate, least=n))
    for points, turned in ((20, 30), (10, 20), (5, 15)):
        n = fewest(lambda n, points=points, turned=turned: _ahead(points / 100, turned / 100, n))  # type: ignore[misc]
        claim = f"one judge better than another by {points} points, when {turned} % of verdicts differ"
        listed.append(Claim(claim=claim, method=paired, least=n))
    for right in (100, 90):
        n = fewest(lambda n, right=right: _traffic_width(0.8, right / 100, n) <= 0.05)  # type: ignore[misc]
        judge = "by labels alone" if right == 100 else f"with a judge that is right in {right} %"
        listed.append(Claim(claim=f"a share of about 80 % in traffic, to ±5 points, {judge}", method=traffic, least=n))
    for least in (90, 95, 99):
        claim = f"of verdicts above a threshold people share at least {least} %"
        listed.append(Claim(claim=claim, method=promise, least=fewest_for(least / 100)))
    return listed


def _lowest(share: float, n: int) -> float:
    return (wilson_interval(share * n, n) or (0.0, 1.0))[0]


def _traffic_width(share: float, right: float, n: int) -> float:
    """Return half the width of a corrected share, for a judge that is right as often of either label."""
    says = share * right + (1 - share) * (1 - right)
    inside = share * right / says
    outside = share * (1 - right) / (1 - says) if says < 1 else 0.0
    variance = says * inside * (1 - inside) + (1 - says) * outside * (1 - outside)
    return student_t(0.95, max(n - 2, 1)) * math.sqrt((share * (1 - share) if right == 1 else variance) / n)


def _ahead(difference: float, turned: float, n: int) -> bool:
    """Return whether the interval of a difference excludes 0 when so many verdicts are fixed and broken."""
    fixed = (turned + difference) / 2 * n
    return paired_share_interval(turned * n - fixed, fixed, n)[0] > 0
