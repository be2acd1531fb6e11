"""What the scripts share: options, raw lines that a stopped run completes, and tables."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

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
