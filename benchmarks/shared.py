"""What the scripts share: options, raw lines that a stopped run completes, tables, and shares with their interval."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import memalign as ma
from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.metrics import Estimate

Line = dict[str, Any]


def simulation_parser(description: str | None) -> argparse.ArgumentParser:
    """The options of scripts that ask simulated models."""
    options = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument(
        "file", type=Path, help="raw lines, JSONL; a file that is there is completed"
    )
    options.add_argument(
        "--competitors",
        type=Path,
        metavar="PYTHON",
        help="of their environment; else memalign alone",
    )
    options.add_argument("--figure", type=Path, help="the SVG to draw")
    options.add_argument("--table", action="store_true", help="ask nothing, print what is there")
    return options


def read(file: Path) -> list[Line]:
    """The lines of a JSONL file; none without the file."""
    return (
        [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    )


def append(file: Path, lines: Iterable[Line]) -> None:
    """Add lines to a JSONL file."""
    with file.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)


def markdown(titles: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def judge_of(
    name: str, instructions: str, model: Any, reflection_model: str | None = None, **facts: Any
) -> ma.Judge:
    """A judge that has learned nothing; its verdicts are bools unless `facts` has another type."""
    facts = {"feedback_value_type": bool} | facts
    parameters = {"reflection_model": reflection_model} if reflection_model else {}
    return ma.Judge(
        name=name, instructions=instructions, model=model, parameters=parameters, **facts
    )


def aligned(
    judge: ma.Judge, rows: Sequence[ma.Feedback], database: Path, max_cost: float | None = None
) -> ma.Judge:
    """The judge with what it learned of the rows, as a registry keeps it: what was learned already costs nothing."""
    registry = ma.Registry(f"sqlite:///{database}")
    if judge.name not in {entry.name for entry in registry.list()}:
        registry.create(judge)
    return registry.align(judge.name, rows, optimizer=ma.MemAlign(max_cost=max_cost)).judge


def share(right: Sequence[bool], groups: Sequence[str] | None = None) -> Estimate:
    """The share that is right, with the library's 95 % interval: Wilson's, by group of cases where there are groups."""
    return estimate_mean(right, groups, share_interval)
