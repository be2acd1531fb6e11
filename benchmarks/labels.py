"""How many labelled cases does a claim take? The table of docs/how-to/labels.md.

python benchmarks/labels.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from shared import markdown

from memalign.evaluation.promise import fewest_for
from memalign.evaluation.sentences import fewest, labels_for
from memalign.metrics import paired_share_interval, student_t, wilson_interval

Claim = tuple[str, int, str]
"""What one wants to say, the fewest labels that prove it, and how they do."""


def lowest(share: float, n: int) -> float:
    """Return the lower end of the interval of an agreement."""
    low, _ = wilson_interval(share * n, n) or (0.0, 1.0)
    return low


def is_ahead(points: int, turned: int, n: int) -> bool:
    """Return whether a difference excludes 0 when so many verdicts in a hundred differ."""
    differing = turned / 100 * n
    ahead = points / 100 * n
    fixed = (differing + ahead) / 2
    broken = differing - fixed
    low, _ = paired_share_interval(broken, fixed, n)
    return low > 0


def half_of_corrected(share: float, right: float, n: int) -> float:
    """Return half the width of a corrected share, if the judge is right equally often of both."""
    variance = 0.0
    # Of the rows that the judge gives the label, and of those that it does not.
    for chance in (right, 1 - right):
        meant = share * chance
        called = meant + (1 - share) * (1 - chance)
        inside = meant / called
        variance += called * inside * (1 - inside)
    degrees = max(n - 2, 1)
    t = student_t(0.95, degrees)
    return t * math.sqrt(variance / n)


def agreements() -> Iterator[Claim]:
    """Yield claims about one judge's agreement."""
    for points in (10, 5, 3):
        claim = f"agreement of about 85 %, to ±{points} points"
        n = labels_for(0.85, points / 100)
        yield claim, n, "Wilson's interval of a share"
    for real in (95, 90, 85):

        def is_above(n: int, share: float = real / 100) -> bool:
            return lowest(share, n) >= 0.8

        claim = f"agreement of at least 80 %, when it is {real} %"
        yield claim, fewest(is_above), "the whole interval on the good side"


def differences() -> Iterator[Claim]:
    """Yield claims about two judges."""
    for points, turned in ((20, 30), (10, 20), (5, 15)):
        differs = partial(is_ahead, points, turned)
        ahead = f"one judge better than another by {points} points"
        claim = f"{ahead}, when {turned} % of verdicts differ"
        method = "Bonett and Price's interval of paired cases"
        yield claim, fewest(differs), method


def traffic() -> Iterator[Claim]:
    """Yield claims about unlabelled traffic."""
    claim = "a share of about 80 % in traffic, to ±5 points,"
    alone = labels_for(0.8, 0.05)
    yield f"{claim} by labels alone", alone, "Wilson's interval of a share"
    for right in (90, 95):

        def is_narrow(n: int, right: float = right / 100) -> bool:
            return half_of_corrected(0.8, right, n) <= 0.05

        method = "prediction-powered inference, for much unlabelled traffic"
        yield (
            f"{claim} with a judge that is right in {right} %",
            fewest(is_narrow),
            method,
        )
    for least in (90, 95, 99):
        claim = f"of verdicts above a threshold people share at least {least} %"
        method = "the exact binomial test, no error among them"
        yield claim, fewest_for(least / 100), method


def main() -> None:
    """Print the table."""
    rows = []
    for claim, n, method in (*agreements(), *differences(), *traffic()):
        rows.append((claim, f"{n:,}", method))
    print(markdown(("what you want to say", "labels", "by"), rows))


if __name__ == "__main__":
    main()
