"""How an arm of a benchmark run compares with others on the first cases of its test sets, and on those that come later.

    python benchmarks/bench_later.py docs/results/core/run.toml --data FOLDER --first 0=50 1=70 2=70

`--first SEED=N`: the first N cases of every task of that seed. Whoever reads judgments while an arm is made reads the first ones,
so that only the later ones are fresh. First means the order in which a run judges (the split's), not that of the lines in a
raw file, which follows who was judged when. A line for each part and opponent: cases that both answered, how many each has
right, the difference in points with its 95 % interval by group, and McNemar's exact p.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from memalign.bench.config import load_config
from memalign.bench.data.folder import load_folder
from memalign.bench.plan import Plan, make_plan
from memalign.bench.report.primary import headline_stage
from memalign.bench.report.results import Judged, Key, load_results
from memalign.errors import MemalignError
from memalign.metrics import exact_match, mcnemar_exact, paired_bootstrap


def first_cases(plan: Plan, counts: dict[int, int]) -> set[Key]:
    """The first cases of each task's test set, as many as its seed's count says."""
    return {
        (task, seed, case.id)
        for (task, seed), split in plan.splits.items()
        for case in split.test[: counts.get(seed, 0)]
    }


def compared(mine: dict[Key, Judged], theirs: dict[Key, Judged]) -> dict[str, object]:
    """The verdicts of one arm beside those of another on the same cases."""
    won, lost = [one.right for one in mine.values()], [theirs[key].right for key in mine]
    fixed, broken = (sum(a and not b for a, b in zip(*pair, strict=True)) for pair in ((won, lost), (lost, won)))
    groups = [repr(one.cluster) for one in mine.values()]
    gain = paired_bootstrap(exact_match, lost, won, [True] * len(won), groups=groups)
    return {
        "n": len(won),
        "right": sum(won),
        "theirs": sum(lost),
        "fixed": fixed,
        "broken": broken,
        "p": round(mcnemar_exact(fixed, broken), 4),
        "points": [None if each is None else round(100 * each, 1) for each in (gain.value, gain.low, gain.high)],
    }


def main_(config_file: Path, data: Path | None, arm: str, counts: dict[int, int]) -> None:
    """Print a line for each model, other arm and part of the cases."""
    config = load_config(config_file)
    first = first_cases(make_plan(config, load_folder(data or config.folder / config.data, config.tasks)), counts)
    results = load_results(config.folder / "raw")
    for model in results.models:
        tasks = [task.name for task in results.tasks(model)]
        stage = headline_stage(results, model, arm)
        mine = results.judged(model, tasks, arm, stage)
        for against in (name for name in results.arms(model) if name != arm):
            theirs = results.judged(model, tasks, against, stage)
            for part in ("first", "later"):
                both = {key: one for key, one in mine.items() if key in theirs and (key in first) == (part == "first")}
                if both:
                    said = {"model": model, "stage": stage, "cases": part, "arm": arm, "against": against}
                    print(json.dumps(said | compared(both, theirs)))


def _count(text: str) -> tuple[int, int]:
    seed, _, count = text.partition("=")
    return int(seed), int(count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--arm", default="memalign")
    parser.add_argument("--first", type=_count, nargs="+", metavar="SEED=N", required=True)
    asked = parser.parse_args()
    try:
        main_(asked.run, asked.data, asked.arm, dict(asked.first))
    except MemalignError as error:
        parser.error(str(error))
