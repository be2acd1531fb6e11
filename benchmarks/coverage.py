"""Do the intervals of a corrected share, and the promise of a threshold, hold?

    python benchmarks/coverage.py --worlds 10000

A world, whose truth is known, has a judge of some quality, a true share, some labelled and many
unlabelled rows, and for some worlds groups of five rows that belong together. The product's own
functions see the labels and verdicts, never the truth. No model is called. The table of shares
counts how often the 95 % interval holds the truth; that of promises how often a threshold was named
above which the judge is right less often than promised.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from shared import markdown, parser_of

from memalign.evaluation import ScoredCase
from memalign.evaluation.promise import promise_of
from memalign.evaluation.traffic import corrected_mean, corrected_share, refusal
from memalign.metrics import Estimate

LABELS = (30, 50, 100, 200)
ROWS = (200, 2_000, 20_000)
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
RIGHT = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # how often the judge is right; 0.5 is useless
PROMISED = (0.8, 0.9, 0.95)
CASES = (100, 200, 500)
GROUP = 5
TOGETHER = 0.3  # correlation of two rows of a group
NORMAL = 1.96  # standard errors to each side of a 95 % interval
TRAFFIC = 200_000
SEED = 1

Generator = np.random.Generator
Floats = NDArray[np.float64]

SHARES_HEAD = (
    "worlds",
    "n",
    "refused",
    "interval holds the truth",
    "its median width",
    "the judge's own share does",
)
PROMISES_HEAD = ("worlds", "n", "a threshold is named", "then passes", "promise broken")


# -- what worlds have in common --------------------------------------------------------


def uniform(rng: Generator, count: int, grouped: bool) -> Floats:
    """Draw numbers from 0 to 1; in groups, some are their group's instead of their own."""
    own = rng.random(count)
    if not grouped:
        return own
    groups = math.ceil(count / GROUP)
    theirs = rng.random(groups)
    common = np.repeat(theirs, GROUP)
    chance = math.sqrt(TOGETHER)
    shared = rng.random(count) < chance
    return np.where(shared, common[:count], own)


def groups_of(count: int, first: int = 0) -> list[str]:
    """Return the groups of rows that were drawn one after the other."""
    groups = []
    for place in range(count):
        number = first + place // GROUP
        groups.append(f"g{number}")
    return groups


def percent(part: float, whole: float, form: str = ".0%") -> str:
    """Return a share in percent; a hyphen if there is nothing to share."""
    if not whole:
        return "-"
    return format(part / whole, form)


def holds(figure: Estimate, truth: float) -> bool:
    """Return whether the interval of a figure holds the truth."""
    low, high = ends(figure)
    return low <= truth <= high


def ends(figure: Estimate) -> tuple[float, float]:
    """Return the ends of the interval of a figure."""
    assert figure.low is not None
    assert figure.high is not None
    return figure.low, figure.high


# -- shares ----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class World:
    """What was drawn, and what came of it.

    Attributes:
        labels: How many rows people labelled.
        share: The true share.
        right: How often the judge is right.
        grouped: Five rows at a time belong together.
        estimate: The corrected share; None if the correction was refused.
        naive: The judge's own share, with the interval of its count, holds the truth.
    """

    labels: int
    share: float
    right: float
    grouped: bool
    estimate: Estimate | None
    naive: bool

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the rows of the table to which the world belongs."""
        labels = f"{self.labels} labels"
        where = ", in groups" if self.grouped else ""
        return (
            "all",
            f"{labels}{where}",
            f"true share {self.share}",
            f"judge right {self.right}",
            f"{labels}, true share {self.share}",
        )


def world(rng: Generator) -> World:
    """Draw a world, and ask the product."""
    n = int(rng.choice(LABELS))
    many = int(rng.choice(ROWS))
    share = float(rng.choice(SHARES))
    right = float(rng.choice(RIGHT))
    grouped = bool(rng.random() < 0.5)
    labels, verdicts = drawn(rng, n, share, right, grouped)
    _, others = drawn(rng, many, share, right, grouped)
    groups = None
    other_groups = None
    if grouped:
        groups = groups_of(n)
        other_groups = groups_of(many, n)
    estimate = None
    if not refusal(labels, verdicts, groups):
        estimate = corrected_share(labels, verdicts, others, groups, other_groups)
    own = float(np.mean(others))
    variance = own * (1 - own) / many
    reach = NORMAL * math.sqrt(variance)
    return World(
        labels=n,
        share=share,
        right=right,
        grouped=grouped,
        estimate=estimate,
        naive=abs(own - share) <= reach,
    )


def drawn(
    rng: Generator, count: int, share: float, right: float, grouped: bool
) -> tuple[list[bool], list[bool]]:
    """Draw people's labels and the judge's verdicts for some rows."""
    labels = uniform(rng, count, grouped) < share
    wrong = uniform(rng, count, grouped) >= right
    verdicts = labels ^ wrong
    return labels.tolist(), verdicts.tolist()


def shares(count: int) -> Iterator[list[str]]:
    """Yield how often the interval of a corrected share holds the truth, by what was drawn."""
    rng = np.random.default_rng(SEED)
    cells = defaultdict(list)
    for _ in range(count):
        one = world(rng)
        for title in one.titles:
            cells[title].append(one)
    for title in sorted(cells):
        yield row(title, cells[title])


def row(title: str, cell: Sequence[World]) -> list[str]:
    """Return a row of the table of shares."""
    widths = []
    held = 0
    naive = 0
    for one in cell:
        naive += one.naive
        if one.estimate is not None:
            held += holds(one.estimate, one.share)
            low, high = ends(one.estimate)
            widths.append(high - low)
    n = len(cell)
    given = len(widths)
    width = "-"
    if widths:
        width = f"{np.median(widths):.2f}"
    return [
        title,
        f"{n:,}",
        percent(n - given, n),
        percent(held, given, ".1%"),
        width,
        percent(naive, n),
    ]


# -- mean scores -----------------------------------------------------------------------


def means(count: int) -> list[str]:
    """Return how often the interval of a corrected mean score from 1 to 5 holds the truth."""
    rng = np.random.default_rng(SEED)
    given = 0
    held = 0
    for _ in range(count):
        n = int(rng.choice(LABELS))
        many = int(rng.choice(ROWS))
        middle = rng.uniform(1.5, 4.5)
        noise = rng.uniform(0.2, 2.0)
        lean = rng.uniform(-1, 1)
        every = scores(rng.normal(middle, 1.0, TRAFFIC))
        labels = rng.choice(every, n)
        rest = rng.choice(every, many)
        people = labels.tolist()
        errors = lean + rng.normal(0, noise, n)
        verdicts = scores(labels + errors).tolist()
        errors = lean + rng.normal(0, noise, many)
        others = scores(rest + errors).tolist()
        if not refusal(people, verdicts):
            given += 1
            estimate = corrected_mean(people, verdicts, others)
            truth = float(every.mean())
            held += holds(estimate, truth)
    return [
        "mean scores from 1 to 5",
        f"{count:,}",
        percent(count - given, count),
        percent(held, given, ".1%"),
    ]


def scores(values: Floats) -> Floats:
    """Return values as whole scores from 1 to 5."""
    whole = np.rint(values)
    return np.clip(whole, 1, 5)


# -- promises --------------------------------------------------------------------------

Truth = Callable[[Floats, float], Floats]
TRUTHS: dict[str, Truth] = {
    "confidence is true": lambda sure, _: sure,
    "too sure of itself": lambda sure, _: 0.5 + 0.8 * (sure - 0.5),
    "confidence says nothing, a point short of the promise": (
        lambda sure, least: np.full_like(sure, least - 0.01)
    ),
}
"""How often a judge is right at a confidence, when so much is promised."""


def promises(count: int) -> Iterator[list[str]]:
    """Yield how often a threshold was named, and how often its promise was broken."""
    rng = np.random.default_rng(SEED)
    for name, truth in TRUTHS.items():
        yield promise_row(name, truth, rng, count, grouped=False)
        yield promise_row(f"{name}, in groups", truth, rng, count, grouped=True)


def promise_row(
    title: str, truth: Truth, rng: Generator, count: int, *, grouped: bool
) -> list[str]:
    """Return a row of the table of promises."""
    traffic = confidences(rng, TRAFFIC)
    broken = 0
    named = 0
    passed = 0.0
    for _ in range(count):
        n = int(rng.choice(CASES))
        least = float(rng.choice(PROMISED))
        cases = cases_of(truth, rng, n, least, grouped)
        kept = promise_of(cases, least).kept
        if kept is not None:
            named += 1
            passing = traffic[traffic >= kept.at]
            passed += len(passing) / TRAFFIC
            agreement = truth(passing, least).mean()
            broken += bool(agreement < least)
    return [
        title,
        f"{count:,}",
        percent(named, count),
        percent(passed, named),
        percent(broken, count, ".1%"),
    ]


def confidences(rng: Generator, count: int) -> Floats:
    """Draw how sure a judge is, from a half to 1."""
    return 0.5 + 0.5 * rng.beta(5, 1, count)


def cases_of(
    truth: Truth, rng: Generator, n: int, least: float, grouped: bool
) -> list[ScoredCase]:
    """Draw labelled cases with verdicts and confidences."""
    sure = confidences(rng, n)
    chance = truth(sure, least)
    right = uniform(rng, n, grouped) < chance
    cases = []
    for place, group in enumerate(groups_of(n)):
        case = ScoredCase(
            id=str(place),
            label=True,
            value=bool(right[place]),
            confidence=float(sure[place]),
            group=group if grouped else None,
        )
        cases.append(case)
    return cases


def main() -> None:
    """Print the tables."""
    options = parser_of(__doc__)
    options.add_argument(
        "--worlds", type=int, default=10_000, help="worlds of the table of shares"
    )
    settings = options.parse_args()
    count = settings.worlds
    mean = means(count // 5)
    made = (
        markdown(SHARES_HEAD, shares(count)),
        markdown(SHARES_HEAD[:4], [mean]),
        markdown(PROMISES_HEAD, promises(count // 10)),
    )
    print("\n\n".join(made))


if __name__ == "__main__":
    main()
