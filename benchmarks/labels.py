"""How many labelled cases does a claim take? The table of docs/how-to/labels.md.

python benchmarks/labels.py
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from shared import markdown

from memalign.evaluation.promise import fewest_for
from memalign.evaluation.sentences import fewest, half_width
from memalign.metrics import paired_share_interval, student_t, wilson_interval


def lowest(share: float, n: int) -> float:
    """The lower end of the interval of an agreement."""
    return (wilson_interval(share * n, n) or (0.0, 1.0))[0]


def _narrow(points: int, n: int) -> bool:
    """Return whether n labels give an agreement of 85 % to so many points."""
    return half_width(0.85, n) <= points / 100


def _good_enough(real: int, n: int) -> bool:
    """Return whether the whole interval of so many percent is at 80 % or above."""
    return lowest(real / 100, n) >= 0.8


def is_ahead(points: int, turned: int, n: int) -> bool:
    """Whether the interval of a difference excludes 0 when so many verdicts in a hundred differ."""
    fixed = (turned + points) / 200 * n
    return paired_share_interval(turned / 100 * n - fixed, fixed, n)[0] > 0


def half_of_corrected(share: float, right: float, n: int) -> float:
    """Half the width of a corrected share, for a judge that is right as often of either label."""
    says = share * right + (1 - share) * (1 - right)
    inside, outside = share * right / says, share * (1 - right) / (1 - says)
    variance = says * inside * (1 - inside) + (1 - says) * outside * (1 - outside)
    return student_t(0.95, max(n - 2, 1)) * math.sqrt(variance / n)


def claims() -> list[tuple[str, int, str]]:
    """Common claims, the fewest labels that prove each, and how."""
    listed: list[tuple[str, int, str]] = []

    def add(claim: str, method: str, holds: Callable[[int], bool]) -> None:
        listed.append((claim, fewest(holds), method))

    for points in (10, 5, 3):
        claim = f"agreement of about 85 %, to ±{points} points"
        add(
            claim,
            "Wilson's interval of a share",
            partial(_narrow, points),
        )
    for real in (95, 90, 85):
        claim = f"agreement of at least 80 %, when it is {real} %"
        add(
            claim,
            "the whole interval on the good side",
            partial(_good_enough, real),
        )
    for points, turned in ((20, 30), (10, 20), (5, 15)):
        claim = (
            f"one judge better than another by {points} points, when {turned} % of verdicts differ"
        )
        method = "Bonett and Price's interval of paired cases"
        add(claim, method, lambda n, p=points, t=turned: is_ahead(p, t, n))  # type: ignore[misc]
    claim = "a share of about 80 % in traffic, to ±5 points,"
    add(
        f"{claim} by labels alone",
        "Wilson's interval of a share",
        lambda n: half_width(0.8, n) <= 0.05,
    )
    for right in (90, 95):
        method = "prediction-powered inference, for much unlabelled traffic"
        words = f"{claim} with a judge that is right in {right} %"
        add(words, method, lambda n, r=right: half_of_corrected(0.8, r / 100, n) <= 0.05)  # type: ignore[misc]
    for least in (90, 95, 99):
        claim = f"of verdicts above a threshold people share at least {least} %"
        listed.append(
            (claim, fewest_for(least / 100), "the exact binomial test, no error among them")
        )
    return listed


def table() -> str:
    """The table in Markdown."""
    rows = [(claim, f"{n:,}", method) for claim, n, method in claims()]
    return markdown(("what you want to say", "labels", "by"), rows)


if __name__ == "__main__":
    print(table())
