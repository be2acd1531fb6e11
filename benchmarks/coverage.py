"""Do the intervals of a corrected share, and the promise of a threshold, hold? In worlds whose truth is known.

    python benchmarks/coverage.py --worlds 10000

A world has a judge of some quality, a true share, some labelled and many unlabelled rows, and for some worlds groups of
five rows that belong together. The product's own functions see the labels and verdicts, never the truth. No model is
called. The table of shares counts how often the 95 % interval holds the truth; that of promises how often a threshold
was named above which the judge is right less often than promised.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from shared import markdown

from memalign.evaluation import ScoredCase
from memalign.evaluation.promise import promise_of
from memalign.evaluation.traffic import corrected_mean, corrected_share, refusal

LABELS = (30, 50, 100, 200)
ROWS = (200, 2_000, 20_000)
SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
RIGHT = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # how often the judge is right; 0.5 is useless
PROMISED = (0.8, 0.9, 0.95)
GROUP = 5
TOGETHER = 0.3  # correlation of two rows of a group

Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class World:
    """What was drawn, and what came of it; `covered` is None where the correction was refused."""

    labels: int
    rows: int
    share: float
    right: float
    grouped: bool
    covered: bool | None
    why: str
    width: float
    naive: bool
    people: float


def drawn(
    rng: np.random.Generator, count: int, share: float, right: float, grouped: bool
) -> tuple[Bools, Bools]:
    """People's labels and the judge's verdicts for rows of which five belong together, where they are grouped."""

    def uniform() -> NDArray[np.float64]:
        own = rng.random(count)
        if not grouped:
            return own
        common = np.repeat(rng.random(-(-count // GROUP)), GROUP)[:count]
        return np.where(rng.random(count) < math.sqrt(TOGETHER), common, own)

    labels = uniform() < share
    return labels, labels ^ (uniform() >= right)


def named(count: int, first: int = 0) -> list[str]:
    """The groups of rows that were drawn one after the other."""
    return [f"g{first + place // GROUP}" for place in range(count)]


def worlds(count: int, seed: int) -> Iterator[World]:
    """Draw worlds, and ask the product in each."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n, many = int(rng.choice(LABELS)), int(rng.choice(ROWS))
        share, right, grouped = (
            float(rng.choice(SHARES)),
            float(rng.choice(RIGHT)),
            bool(rng.random() < 0.5),
        )
        labels, verdicts = (part.tolist() for part in drawn(rng, n, share, right, grouped))
        others = drawn(rng, many, share, right, grouped)[1].tolist()
        groups = named(n) if grouped else None
        why = refusal(labels, verdicts, groups)
        own = sum(others) / many
        error = math.sqrt(own * (1 - own) / many)
        estimate = None
        if not why:
            estimate = corrected_share(
                labels, verdicts, others, groups, named(many, n) if grouped else None
            )
        low, high = (0.0, 1.0) if estimate is None else (estimate.low or 0.0, estimate.high or 0.0)
        yield World(
            labels=n,
            rows=many,
            share=share,
            right=right,
            grouped=grouped,
            covered=None if estimate is None else low <= share <= high,
            why=" ".join(
                word for word in why.split() if not any(digit in word for digit in "0123456789")
            ),
            width=high - low,
            naive=abs(own - share) <= 1.96 * error,
            people=2 * 1.96 * math.sqrt(share * (1 - share) / n),
        )


def row(name: str, cell: list[World]) -> list[str]:
    """One row of the table of shares."""
    given = [world for world in cell if world.covered is not None]
    covered = sum(bool(world.covered) for world in given) / max(len(given), 1)
    width = float(np.median([world.width for world in given])) if given else 0.0
    naive = sum(world.naive for world in cell) / len(cell)
    refused = 1 - len(given) / len(cell)
    return [
        name,
        f"{len(cell):,}",
        f"{refused:.0%}",
        f"{covered:.1%}",
        f"{width:.2f}",
        f"{naive:.0%}",
    ]


def shares_table(count: int, seed: int) -> str:
    """How often the interval of the corrected share holds the truth, by what was drawn."""
    made = list(worlds(count, seed))
    lines = [row("all", made)]
    keys: dict[str, Callable[[World], object]] = {
        "labels": lambda world: (world.labels, world.grouped),
        "rows": lambda world: world.rows,
        "true share": lambda world: world.share,
        "judge right": lambda world: world.right,
        "labels and share": lambda world: (world.labels, world.share),
    }
    worst = (1.0, "")
    for name, key in keys.items():
        for value in sorted({key(world) for world in made}, key=repr):
            cell = [world for world in made if key(world) == value]
            given = [world for world in cell if world.covered is not None]
            words = f"{name} {value}"
            if name == "labels" and isinstance(value, tuple):
                words = f"{value[0]} labels{', in groups' if value[1] else ''}"
            if given:
                worst = min(
                    worst, (sum(bool(world.covered) for world in given) / len(given), words)
                )
            if name != "labels and share":
                lines.append(row(words, cell))
    head = (
        "worlds",
        "n",
        "refused",
        "interval holds the truth",
        "its median width",
        "the judge's own share does",
    )
    reasons = Counter(world.why for world in made if world.why).most_common()
    refused = "\n".join(f"- {times:,}: {why}" for why, times in reasons)
    return (
        f"{markdown(head, lines)}\n\nworst cell: {worst[1]}, {worst[0]:.1%}\n\nrefused:\n{refused}"
    )


def means(count: int, seed: int) -> list[str]:
    """How often the interval of a corrected mean score from 1 to 5 holds the truth."""
    rng = np.random.default_rng(seed)
    held = given = 0
    for _ in range(count):
        n, many = int(rng.choice(LABELS)), int(rng.choice(ROWS))
        middle, noise, lean = rng.uniform(1.5, 4.5), rng.uniform(0.2, 2.0), rng.uniform(-1, 1)
        every = np.clip(np.rint(rng.normal(middle, 1.0, 200_000)), 1, 5)
        truth = float(every.mean())
        labels, rest = rng.choice(every, n), rng.choice(every, many)
        verdicts = np.clip(np.rint(labels + lean + rng.normal(0, noise, n)), 1, 5)
        others = np.clip(np.rint(rest + lean + rng.normal(0, noise, many)), 1, 5)
        if refusal(labels.tolist(), verdicts.tolist()):
            continue
        estimate = corrected_mean(labels.tolist(), verdicts.tolist(), others.tolist())
        given += 1
        held += (estimate.low or 0) <= truth <= (estimate.high or 0)
    return [
        "mean scores from 1 to 5",
        f"{count:,}",
        f"{1 - given / count:.0%}",
        f"{held / given:.1%}",
    ]


def promises(count: int, seed: int) -> list[list[str]]:
    """How often a threshold was named, and how often its promise was broken, by what confidence says of the truth."""
    rng = np.random.default_rng(seed)
    true_to: dict[str, Callable[[NDArray[np.float64], float], NDArray[np.float64]]] = {
        "confidence is true": lambda sure, _: sure,
        "too sure of itself": lambda sure, _: 0.5 + 0.8 * (sure - 0.5),
        "confidence says nothing, a point short of the promise": lambda sure, least: np.full_like(
            sure, least - 0.01
        ),
    }
    lines = []
    for name, right_of in true_to.items():
        for grouped in (False, True):
            named_, broken, passed = 0, 0, 0.0
            traffic = 0.5 + 0.5 * rng.beta(5, 1, 200_000)
            for _ in range(count):
                n, least = int(rng.choice((100, 200, 500))), float(rng.choice(PROMISED))
                sure = 0.5 + 0.5 * rng.beta(5, 1, n)
                luck = rng.random(n)
                if grouped:
                    common = np.repeat(rng.random(-(-n // GROUP)), GROUP)[:n]
                    luck = np.where(rng.random(n) < math.sqrt(TOGETHER), common, luck)
                right = luck < right_of(sure, least)
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
                found = promise_of(cases, least).kept
                if found is not None:
                    passing = traffic[traffic >= found.at]
                    named_ += 1
                    broken += float(right_of(passing, least).mean()) < least
                    passed += len(passing) / len(traffic)
            words = f"{name}{', in groups' if grouped else ''}"
            share = f"{passed / max(named_, 1):.0%}"
            lines.append(
                [words, f"{count:,}", f"{named_ / count:.0%}", share, f"{broken / count:.1%}"]
            )
    return lines


def main() -> None:
    """Print the tables."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--worlds", type=int, default=10_000, help="worlds of the table of shares")
    options.add_argument("--seed", type=int, default=1)
    settings = options.parse_args()
    print(shares_table(settings.worlds, settings.seed), "\n")
    print(
        markdown(
            ("worlds", "n", "refused", "interval holds the truth"),
            [means(settings.worlds // 5, settings.seed)],
        )
    )
    head = ("worlds", "n", "a threshold is named", "then passes", "promise broken")
    print(f"\n{markdown(head, promises(settings.worlds // 10, settings.seed))}")


if __name__ == "__main__":
    main()
