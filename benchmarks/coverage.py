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
import re
from collections import Counter
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

Bools = NDArray[np.bool_]
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


@dataclass(frozen=True, kw_only=True)
class World:
    """What was drawn, and what came of it.

    Attributes:
        labels: How many rows people labelled.
        share: The true share.
        right: How often the judge is right.
        grouped: Five rows at a time belong together.
        estimate: The corrected share; None if the correction was refused.
        why: Why it was refused.
        naive: The judge's own share, with the interval of its count, holds the truth.
    """

    labels: int
    share: float
    right: float
    grouped: bool
    estimate: Estimate | None
    why: str
    naive: bool

    @property
    def covered(self) -> bool:
        """Return whether the interval holds the truth, where there is one."""
        return self.estimate is not None and holds(self.estimate, self.share)

    @property
    def title(self) -> str:
        """Return the world's row by number of labels."""
        where = ", in groups" if self.grouped else ""
        return f"{self.labels} labels{where}"


def uniform(rng: np.random.Generator, count: int, grouped: bool) -> Floats:
    """Draw numbers from 0 to 1; in groups, some are their group's instead of their own."""
    own = rng.random(count)
    if not grouped:
        return own
    groups = math.ceil(count / GROUP)
    theirs = rng.random(groups)
    common = np.repeat(theirs, GROUP)[:count]
    shared = rng.random(count) < math.sqrt(TOGETHER)
    return np.where(shared, common, own)


def drawn(
    rng: np.random.Generator, count: int, share: float, right: float, grouped: bool
) -> tuple[Bools, Bools]:
    """Draw people's labels and the judge's verdicts for some rows."""
    labels = uniform(rng, count, grouped) < share
    wrong = uniform(rng, count, grouped) >= right
    return labels, labels ^ wrong


def named(count: int, first: int = 0) -> list[str]:
    """Return the groups of rows that were drawn one after the other."""
    return [f"g{first + place // GROUP}" for place in range(count)]


def worlds(count: int, seed: int) -> Iterator[World]:
    """Draw worlds, and ask the product in each."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield world(rng)


def world(rng: np.random.Generator) -> World:
    """Draw a world, and ask the product."""
    n = int(rng.choice(LABELS))
    many = int(rng.choice(ROWS))
    share = float(rng.choice(SHARES))
    right = float(rng.choice(RIGHT))
    grouped = bool(rng.random() < 0.5)
    people, judge = drawn(rng, n, share, right, grouped)
    _, unlabelled = drawn(rng, many, share, right, grouped)
    labels = people.tolist()
    verdicts = judge.tolist()
    groups = named(n) if grouped else None
    why = refusal(labels, verdicts, groups)
    estimate = None
    if not why:
        others = unlabelled.tolist()
        other_groups = named(many, n) if grouped else None
        estimate = corrected_share(labels, verdicts, others, groups, other_groups)
    own = float(unlabelled.mean())
    error = math.sqrt(own * (1 - own) / many)
    return World(
        labels=n,
        share=share,
        right=right,
        grouped=grouped,
        estimate=estimate,
        why=without_figures(why),
        naive=abs(own - share) <= NORMAL * error,
    )


def without_figures(text: str) -> str:
    """Return a reason with `n` for each number, so that equal reasons are counted."""
    return re.sub(r"[\d.,]*\d", "n", text)


def where_given(cell: Sequence[World]) -> list[World]:
    """Return the worlds in which the share was corrected."""
    return [each for each in cell if each.estimate is not None]


def held(given: Sequence[World]) -> float:
    """Return the share of worlds whose interval holds the truth."""
    covered = [each.covered for each in given]
    return float(np.mean(covered))


def row(name: str, cell: Sequence[World]) -> list[str]:
    """Return a row of the table of shares; a hyphen where every correction was refused."""
    given = where_given(cell)
    widths = [width(each.estimate) for each in given]
    naive = np.mean([each.naive for each in cell])
    refused = 1 - len(given) / len(cell)
    return [
        name,
        f"{len(cell):,}",
        f"{refused:.0%}",
        f"{held(given):.1%}" if given else "-",
        f"{np.median(widths):.2f}" if given else "-",
        f"{naive:.0%}",
    ]


def holds(figure: Estimate, truth: float) -> bool:
    """Return whether the interval of a figure holds the truth."""
    if figure.low is None or figure.high is None:
        return True
    return bool(figure.low <= truth <= figure.high)


def width(figure: Estimate | None) -> float:
    """Return how wide the interval of a figure is."""
    if figure is None or figure.low is None or figure.high is None:
        return 1.0
    return figure.high - figure.low


def shares_table(made: Sequence[World]) -> str:
    """Return how often the interval of a corrected share holds the truth, by what was drawn."""
    cells = {"all": list(made)}
    cells |= by(lambda each: each.title, made)
    cells |= by(lambda each: f"true share {each.share}", made)
    cells |= by(lambda each: f"judge right {each.right}", made)
    lines = [row(title, cell) for title, cell in cells.items()]
    cells |= by(lambda each: f"labels and share {(each.labels, each.share)}", made)
    covered = {}
    for title, cell in cells.items():
        given = where_given(cell)
        if given:
            covered[title] = held(given)
    worst = min(covered, key=lambda title: (covered[title], title))
    parts = [
        markdown(SHARES_HEAD, lines),
        f"\nworst cell: {worst}, {covered[worst]:.1%}",
        "\nrefused:",
    ]
    reasons = Counter(each.why for each in made if each.why)
    for why, times in reasons.most_common():
        parts.append(f"- {times:,}: {why}")
    return "\n".join(parts)


def by(key: Callable[[World], str], made: Sequence[World]) -> dict[str, list[World]]:
    """Return the worlds by a title, in the order of titles."""
    cells: dict[str, list[World]] = {}
    for each in made:
        title = key(each)
        cells.setdefault(title, []).append(each)
    return dict(sorted(cells.items()))


def means(count: int, seed: int) -> list[str]:
    """Return how often the interval of a corrected mean score from 1 to 5 holds the truth."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        n = int(rng.choice(LABELS))
        many = int(rng.choice(ROWS))
        middle = rng.uniform(1.5, 4.5)
        noise = rng.uniform(0.2, 2.0)
        lean = rng.uniform(-1, 1)
        every = scores(rng.normal(middle, 1.0, TRAFFIC))
        labels = rng.choice(every, n)
        rest = rng.choice(every, many)
        errors = lean + rng.normal(0, noise, n)
        verdicts = scores(labels + errors).tolist()
        errors = lean + rng.normal(0, noise, many)
        others = scores(rest + errors).tolist()
        people = labels.tolist()
        if not refusal(people, verdicts):
            estimate = corrected_mean(people, verdicts, others)
            truth = float(every.mean())
            found.append(holds(estimate, truth))
    refused = 1 - len(found) / count
    return [
        "mean scores from 1 to 5",
        f"{count:,}",
        f"{refused:.0%}",
        f"{np.mean(found):.1%}",
    ]


def scores(values: Floats) -> Floats:
    """Return values as whole scores from 1 to 5."""
    return np.clip(np.rint(values), 1, 5)


Truth = Callable[[Floats, float], Floats]
TRUTHS: dict[str, Truth] = {
    "confidence is true": lambda sure, _: sure,
    "too sure of itself": lambda sure, _: 0.5 + 0.8 * (sure - 0.5),
    "confidence says nothing, a point short of the promise": (
        lambda sure, least: np.full_like(sure, least - 0.01)
    ),
}
"""How often a judge is right at a confidence, when so much is promised."""


def promises(count: int, seed: int) -> list[list[str]]:
    """Return how often a threshold was named, and how often its promise was broken."""
    rng = np.random.default_rng(seed)
    lines = []
    for name, truth in TRUTHS.items():
        for grouped in (False, True):
            line = promise_row(name, truth, rng, count, grouped=grouped)
            lines.append(line)
    return lines


def promise_row(
    name: str, truth: Truth, rng: np.random.Generator, count: int, *, grouped: bool
) -> list[str]:
    """Return a row of the table of promises."""
    traffic = confidences(rng, TRAFFIC)
    broken = 0
    passed = []
    for _ in range(count):
        n = int(rng.choice(CASES))
        least = float(rng.choice(PROMISED))
        cases = cases_of(truth, rng, n, least, grouped)
        kept = promise_of(cases, least).kept
        if kept is not None:
            passing = traffic[traffic >= kept.at]
            agreement = truth(passing, least).mean()
            broken += bool(agreement < least)
            passed.append(len(passing) / len(traffic))
    share = np.mean(passed or [0.0])
    return [
        f"{name}, in groups" if grouped else name,
        f"{count:,}",
        f"{len(passed) / count:.0%}",
        f"{share:.0%}",
        f"{broken / count:.1%}",
    ]


def confidences(rng: np.random.Generator, count: int) -> Floats:
    """Draw how sure a judge is, from a half to 1."""
    return 0.5 + 0.5 * rng.beta(5, 1, count)


def cases_of(
    truth: Truth, rng: np.random.Generator, n: int, least: float, grouped: bool
) -> list[ScoredCase]:
    """Draw labelled cases with verdicts and confidences."""
    sure = confidences(rng, n)
    right = uniform(rng, n, grouped) < truth(sure, least)
    cases = []
    for place, group in enumerate(named(n)):
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
    print(shares_table(list(worlds(count, SEED))), "\n")
    print(markdown(SHARES_HEAD[:4], [means(count // 5, SEED)]))
    print()
    print(markdown(PROMISES_HEAD, promises(count // 10, SEED)))


if __name__ == "__main__":
    main()
