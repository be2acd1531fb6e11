"""What the scripts share: options, raw lines that a stopped run completes, tables, and shares."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import memalign as ma
from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.io import read_judgments
from memalign.metrics import Estimate
from memalign.values import Value

Line = dict[str, Any]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the script's docstring, with its line breaks."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=form)


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a JSONL file; none if there is no file."""
    if not path.exists():
        return []
    lines = path.read_text("utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def write_lines(
    path: Path, lines: Iterable[Line], mode: Literal["w", "a"] = "w"
) -> None:
    """Write a JSONL file, or add to it."""
    with path.open(mode, encoding="utf-8") as out:
        for line in lines:
            text = json.dumps(line, ensure_ascii=False)
            out.write(f"{text}\n")


def markdown(titles: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    rule = ["---"] * len(titles)
    lines = []
    for cells in (titles, rule, *rows):
        texts = [str(cell) for cell in cells]
        joined = " | ".join(texts)
        lines.append(f"| {joined} |")
    return "\n".join(lines)


def judge_of(
    name: str,
    instructions: str,
    model: Any,
    reflection_model: str | None = None,
    **facts: Any,
) -> ma.Judge:
    """Return a judge that has learned nothing.

    Args:
        name: The judge's name.
        instructions: Its instructions, with the fields of an item.
        model: The model that judges.
        reflection_model: The model that distils; the judge's own without it.
        facts: More facts of the judge. Without a `feedback_value_type` its verdicts are bools.
    """
    facts.setdefault("feedback_value_type", bool)
    if reflection_model is not None:
        facts["parameters"] = {"reflection_model": reflection_model}
    return ma.Judge(name=name, instructions=instructions, model=model, **facts)


def aligned(
    judge: ma.Judge,
    rows: Sequence[ma.Feedback],
    database: Path,
    max_cost: float | None = None,
) -> ma.Judge:
    """Teach a judge in a registry, where rows that were learned before cost nothing."""
    registry = ma.Registry(f"sqlite:///{database}")
    if judge.name not in [entry.name for entry in registry.list()]:
        registry.create(judge)
    return registry.align(
        judge.name, rows, optimizer=ma.MemAlign(max_cost=max_cost)
    ).judge


def judged_values(path: Path) -> dict[str, Value]:
    """Return the verdicts in a file of judgments, by the id of the item; none without a file."""
    if not path.exists() or path.stat().st_size == 0:
        return {}
    values = {}
    for name, judgment in read_judgments(path).judgments.items():
        if judgment.value is not None:
            values[name] = judgment.value
    return values


def share(right: Sequence[bool], groups: Sequence[str] | None = None) -> Estimate:
    """Return the share that is right, with Wilson's 95 % interval, by group of cases if given."""
    return estimate_mean(right, groups, share_interval)
