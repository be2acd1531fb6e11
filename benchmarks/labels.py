"""How many labelled cases does a claim take? The table of docs/how-to/labels.md.

python benchmarks/labels.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain

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
    right = share * n
    interval = wilson_interval(right, n)
    return interval is not None and interval[0] >= least


def is_ahead(points: int, turned: int, n: int) -> bool:
    """Return whether a difference excludes 0 when so many verdicts in a hundred differ."""
    ahead = points / 100 * n
    differing = turned / 100 * n
    fixed = (differing + ahead) / 2
    broken = differing - fixed
    low, _ = paired_share_interval(broken, fixed, n)
    return low > 0


def is_narrow(share: float, half: float, right: float, n: int) -> bool:
    """Return whether a corrected share is known so well, if the judge is right equally often."""
    wrong = 1 - right
    given = variance_of(share, right)
    refused = variance_of(share, wrong)
    error = math.sqrt((given + refused) / n)
    degrees = max(n - 2, 1)
    return student_t(0.95, degrees) * error <= half


def variance_of(share: float, chance: float) -> float:
    """Return what rows with one verdict add to the variance of a corrected share.

    Args:
        share: The true share of a label.
        chance: How likely a row with this label gets the verdict; others get it so much less.
    """
    meant = share * chance
    others = (1 - share) * (1 - chance)
    called = meant + others
    inside = meant / called
    return called * inside * (1 - inside)


def agreements() -> Iterator[Claim]:
    """Yield claims about one judge's agreement."""
    for points in (10, 5, 3):
        claim = f"agreement of about 85 %, to ±{points} points"
        half = points / 100
        yield claim, labels_for(0.85, half), WILSON
    for real in (95, 90, 85):
        claim = f"agreement of at least 80 %, when it is {real} %"
        share = real / 100
        above = partial(is_above, 0.8, share)
        yield claim, fewest(above), WHOLE


def differences() -> Iterator[Claim]:
    """Yield claims about two judges."""
    turned_by = {20: 30, 10: 20, 5: 15}
    for points, turned in turned_by.items():
        better = f"one judge better than another by {points} points"
        claim = f"{better}, when {turned} % of verdicts differ"
        ahead = partial(is_ahead, points, turned)
        yield claim, fewest(ahead), PAIRED


def traffic() -> Iterator[Claim]:
    """Yield claims about unlabelled traffic, and about the verdicts above a threshold."""
    known = "a share of about 80 % in traffic, to ±5 points,"
    claim = f"{known} by labels alone"
    yield claim, labels_for(0.8, 0.05), WILSON
    for percent in (90, 95):
        claim = f"{known} with a judge that is right in {percent} %"
        right = percent / 100
        narrow = partial(is_narrow, 0.8, 0.05, right)
        yield claim, fewest(narrow), CORRECTED
    for percent in (90, 95, 99):
        claim = f"of verdicts above a threshold people share at least {percent} %"
        least = percent / 100
        yield claim, fewest_for(least), EXACT


def main() -> None:
    """Print the table."""
    titles = ("what you want to say", "labels", "by")
    claims = chain(agreements(), differences(), traffic())
    print(markdown(titles, claims))


if __name__ == "__main__":
    main()
