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

WILSON = "Wilson's interval of a share"
WHOLE = "the whole interval on the good side"
PAIRED = "Bonett and Price's interval of paired cases"
CORRECTED = "prediction-powered inference, for much unlabelled traffic"
EXACT = "the exact binomial test, no error among them"


def is_above(least: float, share: float, n: int) -> bool:
    """Return whether the interval of a share is above another one."""
    interval = wilson_interval(share * n, n)
    if interval is None:
        return False
    low, _ = interval
    return low >= least


def is_ahead(points: int, turned: int, n: int) -> bool:
    """Return whether a difference excludes 0 when so many verdicts in a hundred differ."""
    fixed = (turned + points) / 200 * n
    broken = (turned - points) / 200 * n
    low, _ = paired_share_interval(broken, fixed, n)
    return low > 0


def is_narrow(share: float, half: float, right: float, n: int) -> bool:
    """Return whether a corrected share is known so well, if the judge is right equally often."""
    variance = 0.0
    # Of the rows that the judge gives the label, and of those that it does not.
    for chance in (right, 1 - right):
        meant = share * chance
        called = meant + (1 - share) * (1 - chance)
        inside = meant / called
        variance += called * inside * (1 - inside)
    degrees = max(n - 2, 1)
    t = student_t(0.95, degrees)
    return t * math.sqrt(variance / n) <= half


def claims() -> Iterator[Claim]:
    """Yield claims about one judge, about two, about unlabelled traffic, and about a threshold."""
    for points in (10, 5, 3):
        claim = f"agreement of about 85 %, to ±{points} points"
        yield claim, labels_for(0.85, points / 100), WILSON
    for real in (95, 90, 85):
        claim = f"agreement of at least 80 %, when it is {real} %"
        above = partial(is_above, 0.8, real / 100)
        yield claim, fewest(above), WHOLE
    for points, turned in ((20, 30), (10, 20), (5, 15)):
        better = f"one judge better than another by {points} points"
        claim = f"{better}, when {turned} % of verdicts differ"
        ahead = partial(is_ahead, points, turned)
        yield claim, fewest(ahead), PAIRED
    known = "a share of about 80 % in traffic, to ±5 points,"
    yield f"{known} by labels alone", labels_for(0.8, 0.05), WILSON
    for right in (90, 95):
        claim = f"{known} with a judge that is right in {right} %"
        narrow = partial(is_narrow, 0.8, 0.05, right / 100)
        yield claim, fewest(narrow), CORRECTED
    for least in (90, 95, 99):
        claim = f"of verdicts above a threshold people share at least {least} %"
        yield claim, fewest_for(least / 100), EXACT


def main() -> None:
    """Print the table."""
    titles = ("what you want to say", "labels", "by")
    print(markdown(titles, claims()))


if __name__ == "__main__":
    main()
