"""Running the benchmark that a test's configuration describes, and reading what it left."""

from __future__ import annotations

from pathlib import Path

import msgspec

from memalign import aio
from memalign_bench.config import Config, load_config
from memalign_bench.data.folder import load_folder
from memalign_bench.plan import Plan, make_plan
from memalign_bench.raw import Cell, Line, RawFolder
from memalign_bench.run import Outcome, run_benchmark


def plan_of(config: Path, **changes: object) -> Plan:
    loaded: Config = msgspec.structs.replace(load_config(config), **changes)
    return make_plan(loaded, load_folder(config.parent / loaded.data, loaded.tasks))


def go(config: Path, raw: Path | None = None, memo: str = "memo", **changes: object) -> Outcome:
    raw_folder = RawFolder(raw or config.parent / "raw")
    return aio.run(run_benchmark(plan_of(config, **changes), raw_folder, memo=config.parent / memo))


def lines_of(config: Path, method: str, stage: int, raw: Path | None = None) -> list[Line]:
    """In the order of ids: cases are judged side by side, and written as they are ready."""
    return sorted(RawFolder(raw or config.parent / "raw").lines(cell(method, stage)), key=lambda line: line.key)


def cell(method: str, stage: int) -> Cell:
    return Cell(model="openai:test", task="tone", seed=0, method=method, stage=stage)
