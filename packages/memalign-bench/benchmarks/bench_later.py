"""How a method of a benchmark run compares with others on the first cases of its test sets, and on those that come later.

    python benchmarks/bench_later.py results/core/run.toml --data FOLDER --first 0=50 1=70 2=70

`--first SEED=N`: the first N cases of every task of that seed. Whoever reads judgments while a method is made reads the first ones,
so that only the later ones are fresh. First means the order in which a run judges (the split's), not that of the lines in a
raw file, which follows who was judged when. A line for each part and opponent: cases that both answered, how many each has
right, the difference in points with its 95 % interval by group, McNemar's exact p, and what the report's rule makes of it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from memalign.errors import MemalignError
from memalign_bench.config import load_config
from memalign_bench.data.folder import load_folder
from memalign_bench.plan import Plan, make_plan
from memalign_bench.report.primary import Contrast, contrast, headline_stage
from memalign_bench.report.results import Key, load_results


def first_cases(plan: Plan, counts: dict[int, int]) -> set[Key]:
    """The first cases of each task's test set, as many as its seed's count says."""
    return {
        (task, seed, case.id)
        for (task, seed), split in plan.splits.items()
        for case in split.test[: counts.get(seed, 0)]
    }


def main_(config_file: Path, data: Path | None, method: str, counts: dict[int, int]) -> None:
    """Print a line for each model, other method and part of the cases."""
    config = load_config(config_file)
    first = first_cases(make_plan(config, load_folder(data or config.folder / config.data, config.tasks)), counts)
    results = load_results(config.folder / "raw")
    for model in results.models:
        tasks = results.tasks(model)
        known = results.known(model, [task.name for task in tasks])
        for against in (name for name in results.methods(model) if name != method):
            stage = headline_stage(results, model, method, against)
            for part, keys in (("first", known & first), ("later", known - first)):
                one = contrast(results, model, tasks, method, against, stage=stage, among=frozenset(keys))
                if one is not None:
                    print(json.dumps({"model": model, "cases": part} | told(one)))


def told(one: Contrast) -> dict[str, object]:
    """A comparison as a line has it."""
    found = one.difference
    return {
        "stage": one.stage,
        "method": one.method,
        "against": one.against,
        "n": one.n,
        "right": round(one.first * one.n),
        "theirs": round(one.second * one.n),
        "fixed": one.fixed,
        "broken": one.broken,
        "p": round(one.p, 4),
        "points": [None if each is None else round(100 * each, 1) for each in (found.value, found.low, found.high)],
        "verdict": one.verdict,
    }


def _count(text: str) -> tuple[int, int]:
    seed, _, count = text.partition("=")
    return int(seed), int(count)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--method", default="memalign")
    parser.add_argument("--first", type=_count, nargs="+", metavar="SEED=N", required=True)
    asked = parser.parse_args()
    try:
        main_(asked.run, asked.data, asked.method, dict(asked.first))
    except MemalignError as error:
        parser.error(str(error))
