"""The benchmarks run as their docstrings say, go on where they stopped, and print their tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def benchmark(name: str, *arguments: str | Path) -> str:
    """What the script prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


@pytest.mark.parametrize("arm", ["chat"])
def test_competence_goes_on_where_it_stopped(tmp_path: Path, arm: str) -> None:
    file = tmp_path / "competence.jsonl"
    first = benchmark("competence.py", file, "--arms", arm, "--most", "1")
    lines = file.read_text("utf-8").splitlines()
    assert "| plain | " in first
    benchmark("competence.py", file, "--arms", arm, "--most", "1")
    assert file.read_text("utf-8").splitlines()[: len(lines)] == lines
    cells = {json.loads(line)["cell"] for line in file.read_text("utf-8").splitlines()}
    assert len(cells) == 2
    assert benchmark("competence.py", file, "--table").count("plain") >= 1


def test_price_prints_calls_and_dollars_of_each_step(tmp_path: Path) -> None:
    out = tmp_path / "price.jsonl"
    table = benchmark("price.py", "--runs", "1", "--latency", "0", "--many", "60", "--out", out)
    assert "| align of 50 | memalign | " in table
    assert "| align of 60 | memalign | " in table
    steps = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert {step["step"] for step in steps} >= {"align of 50", "five more", "later judgment after 50"}
    assert all(step["cost"] > 0 for step in steps)


def test_overhead_has_a_figure_of_each_step_beside_another_installation() -> None:
    table = benchmark("overhead.py", "--runs", "1", "--cases", "20", "--beside", sys.executable)
    figures = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    assert {"import", "--help", "align 50", "judgment, 20 cases"} <= {name for name, *_ in figures}
    assert all(float(cell.replace(",", "")) > 0 for _, *cells in figures for cell in cells)
