"""What the head makes of the verdicts that a benchmark run has on record: one model's taught cases, judged before it learns.

    python benchmarks/bench_heads.py docs/results/core/run.toml --data FOLDER > docs/results/verdict/heads.jsonl

For every task and seed of the run the unaligned judge is asked about the taught cases (its pre-alignment verdicts; remembered calls cost
nothing again), the head is fitted on them, and recorded verdicts on unseen cases are put to it: those of `memalign` and
those of `bare`. A line each, and one of all: what the taught cases say of the head beforehand (ten-fold), what came of it, and
how what it makes of memalign's verdicts compares with the other arms' verdicts on the same cases.

With `--skip 70` the first 70 cases of each task and seed are left out: in the core run those read while memalign was made.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec

from memalign import aio
from memalign.errors import MemalignError
from memalign.judge.calibrator import calibrate, calibrator_worth
from memalign.judge.judge import Judge
from memalign.metrics import exact_match, mcnemar_exact, paired_bootstrap
from memalign.models import resolve
from memalign_bench.config import load_config
from memalign_bench.data.folder import load_folder
from memalign_bench.memo import Memo, cache_folder
from memalign_bench.methods.base import Setting
from memalign_bench.methods.judges import JudgeArm
from memalign_bench.plan import Plan, make_plan
from memalign_bench.raw import Cell, Line, RawFolder
from memalign_bench.tasks import Case

OTHERS = ("bare", "regression-features")
"""What the head's verdicts are compared with; the floor is the one that sees the same two features."""

PRE_ALIGNMENTD = JudgeArm(name="asked_before", stages=lambda _: frozenset({"pre_alignment"}), k=0)


async def asked_before(plan: Plan, cell: Cell, memo: Path) -> Judge:
    """The judge with the taught cases and its first verdicts on them, and nothing learned."""
    setting = Setting(task=plan.tasks[cell.task], chat=Memo(resolve(cell.model), memo / "calls"), seed=cell.seed)
    fitted: Any = await PRE_ALIGNMENTD.learn(setting, plan.splits[cell.task, cell.seed].train, None)
    return fitted.judge_  # type: ignore[no-any-return]


async def put(judge: Judge, lines: list[Line], tests: dict[str, Case]) -> list[tuple[Line, Any]]:
    """Each recorded verdict with what the head makes of it; empty where there is no head."""
    pairs = []
    for line in lines:
        if line.value is not None and line.id in tests:
            chances = await calibrate(judge, tests[line.id].example, line.value)
            if chances is None:
                return []
            pairs.append((line, max(chances, key=lambda label: chances[label])))
    return pairs


def recorded(raw: RawFolder, cell: Cell, arm: str) -> list[Line]:
    """The lines of another arm on the cases of `cell`."""
    return raw.lines(msgspec.structs.replace(cell, arm=arm, stage=0 if arm == "bare" else cell.stage))


def gained(pairs: list[tuple[str, Line, Any]]) -> dict[str, Any]:
    """How many verdicts are right before and after, and the difference in points with its interval, by group of a task."""
    right = [(line.value == line.label, late == line.label) for _, line, late in pairs]
    fixed, broken = right.count((False, True)), right.count((True, False))
    gain = paired_bootstrap(
        exact_match,
        [early for early, _ in right],
        [late for _, late in right],
        [True] * len(right),
        groups=[(task, line.group) for task, line, _ in pairs],
    )
    return {
        "n": len(right),
        "right": sum(early for early, _ in right),
        "head": sum(late for _, late in right),
        "fixed": fixed,
        "broken": broken,
        "p": round(mcnemar_exact(fixed, broken), 6),
        "points": [None if each is None else round(100 * each, 1) for each in (gain.value, gain.low, gain.high)],
    }


async def main_(config_file: Path, data: Path | None, memo: Path, skip: int) -> None:
    """Print a line for each task and seed, and one of all."""
    config = load_config(config_file)
    plan = make_plan(config, load_folder(data or config.folder / config.data, config.tasks))
    raw = RawFolder(config.folder / "raw")
    pooled: dict[str, list[tuple[str, Line, Any]]] = defaultdict(list)
    for cell in plan.cells:
        if cell.arm != "memalign":
            continue
        judge = await asked_before(plan, cell, memo)
        worth = await calibrator_worth(judge)
        tests = {case.id: case for case in plan.splits[cell.task, cell.seed].test[skip:]}
        said: dict[str, Any] = {"task": cell.task, "seed": cell.seed, "taught": None}
        if worth is not None:
            said["taught"] = {
                "n": worth.n,
                "right": worth.judge,
                "head": worth.head,
                "fixed": worth.fixed,
                "broken": worth.broken,
                "clear": worth.clear,
            }
        heads = {arm: await put(judge, recorded(raw, cell, arm), tests) for arm in ("memalign", "bare")}
        late = {line.id: value for line, value in heads["memalign"]}
        pairs = {arm: [(cell.task, *pair) for pair in heads[arm]] for arm in heads}
        for arm in OTHERS:
            both = [line for line in recorded(raw, cell, arm) if line.value is not None and line.id in late]
            pairs[f"memalign's head against {arm}"] = [(cell.task, line, late[line.id]) for line in both]
        for name, each in pairs.items():
            said[name] = gained(each) if each else None
            pooled[name] += each
        print(json.dumps(said), flush=True)
    print(json.dumps({"task": "all"} | {name: gained(each) for name, each in pooled.items() if each}), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--memo", type=Path, default=cache_folder())
    parser.add_argument("--skip", type=int, default=0, help="leave out so many cases of each task and seed")
    asked = parser.parse_args()
    try:
        aio.run(main_(asked.run, asked.data, asked.memo, asked.skip))
    except MemalignError as error:
        parser.error(str(error))
