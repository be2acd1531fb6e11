"""What the scripts share: options, raw lines that a stopped run completes, tables, and shares."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import memalign as ma
from memalign.evaluation.intervals import estimate_mean, share_interval
from memalign.metrics import Estimate

Line = dict[str, Any]
Cells = Sequence[object]


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the script's docstring, with its line breaks."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=description, formatter_class=form)


def read_lines(path: Path) -> list[Line]:
    """Return the lines of a JSONL file; none if there is no file."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text("utf-8").split("\n"):
        if text.strip():
            line = json.loads(text)
            lines.append(line)
    return lines


def write_lines(
    path: Path, lines: Iterable[Line], mode: Literal["w", "a"] = "w"
) -> None:
    """Write a JSONL file, or add to it."""
    with path.open(mode, encoding="utf-8") as out:
        for line in lines:
            text = json.dumps(line, ensure_ascii=False)
            out.write(f"{text}\n")


def markdown(titles: Cells, rows: Iterable[Cells]) -> str:
    """Return a Markdown table."""
    rule = ["---"] * len(titles)
    lines = []
    for cells in (titles, rule, *rows):
        texts = map(str, cells)
        joined = " | ".join(texts)
        lines.append(f"| {joined} |")
    return "\n".join(lines)


def judge_of(
    name: str, instructions: str, model: Any, feedback_value_type: Any = bool
) -> ma.Judge:
    """Return a judge that has learned nothing."""
    return ma.Judge(
        name=name,
        instructions=instructions,
        model=model,
        feedback_value_type=feedback_value_type,
    )


def share(right: Sequence[bool]) -> Estimate:
    """Return the share that is right, with Wilson's 95 % interval."""
    return estimate_mean(right, None, share_interval)
