"""What memory adds to one judgment: embedding the item, finding its cases, putting the prompt together.

    python benchmarks/bench_overhead.py                                       1,000 and 10,000 cases
    python benchmarks/bench_overhead.py --sizes 1000,10000,100000 --json results/overhead.json

The model is scripted and answers at once, the embedder is the in-process one, the memory is that of `bench_memory.py`:
cases of about 150 words, a guideline for every ten until there are 1,000. Milliseconds by the clock and of processor,
p50 and p95 over `--n` new items, the first of which (imports, caches) are left out. Fails nothing: a busy machine is no
regression.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

from bench_memory import INSTRUCTIONS, NAME, Model, made, rows  # type: ignore[import-not-found]  # beside this file

import memalign as ma

PHASES = ("embed", "retrieve", "assemble")
WARM_UP = 20


def measure(cases: int, *, n: int) -> dict[str, Any]:
    """Percentiles by phase at one size."""
    base = ma.Judge(name=NAME, instructions=INSTRUCTIONS, feedback_value_type=bool, model=Model())
    judge = made(base, rows(cases))
    items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows(n + WARM_UP, start=2 * 10**6)]
    walls: dict[str, list[float]] = {phase: [] for phase in (*PHASES, "all")}
    processor = []

    async def all_of_them() -> None:
        # One loop, as a service or `judge_many` has it: `judge(…)` wakes another thread for every item, which costs more.
        for number, item in enumerate(items):
            started = time.process_time()
            usage = (await judge.ajudge(**item)).usage
            if number >= WARM_UP:
                processor.append(time.process_time() - started)
                for phase in PHASES:
                    walls[phase].append(usage.seconds[phase])
                walls["all"].append(sum(usage.seconds[phase] for phase in PHASES))

    asyncio.run(all_of_them())
    return {"cases": cases, "n": n, **{phase: _percentiles(took) for phase, took in walls.items()}} | {
        "processor": _percentiles(processor)  # of the whole call, the scripted model's answer included
    }


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50": round(cuts[49] * 1e3, 3), "p95": round(cuts[94] * 1e3, 3)}


def main() -> None:
    """Measure every size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000")
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    found = [measure(int(size), n=args.n) for size in args.sizes.split(",")]
    columns = (*PHASES, "all", "processor")
    print("| cases | " + " | ".join(f"{name}: p50, p95" for name in columns) + " |\n|---:|" + "---:|" * len(columns))
    for each in found:
        cells = (f"{each[name]['p50']:.2f}, {each[name]['p95']:.2f}" for name in columns)
        print(f"| {each['cases']:,} | " + " | ".join(cells) + " |")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
