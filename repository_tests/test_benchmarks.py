"""The benchmarks run as their docstrings say, go on where they stopped, and print their tables."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent


def benchmark(name: str, *arguments: str | Path) -> str:
    """What the script prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]


def test_competence_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file, figure = tmp_path / "competence.jsonl", tmp_path / "competence.svg"
    assert "| plain | " in benchmark("competence.py", file, "--arms", "chat", "--most", "1")
    lines = file.read_text("utf-8").splitlines()
    benchmark("competence.py", file, "--arms", "chat", "--most", "1")
    assert file.read_text("utf-8").splitlines()[: len(lines)] == lines
    assert len({json.loads(line)["cell"] for line in file.read_text("utf-8").splitlines()}) == 2
    assert "| plain | " in benchmark("competence.py", file, "--table", "--figure", figure)
    assert ElementTree.parse(figure).getroot().tag.endswith("svg")


def test_scale_has_a_line_a_step_and_asks_nothing_twice(tmp_path: Path) -> None:
    file, figure = tmp_path / "scale.jsonl", tmp_path / "scale.svg"
    table = benchmark("scale.py", file, "--sizes", "10", "--latency", "0", "--figure", figure)
    aligns = {row[2]: row for row in rows_of(table) if row[0] == "align"}
    assert aligns["memalign"][4] == "1", "an align of ten comments is one call"
    assert aligns["memalign, decision model"][4].endswith("10 d.")
    assert {row[0] for row in rows_of(table)} >= {"a judgment", "one more", "one withdrawn", "one erased"}
    text = file.read_text("utf-8")
    assert all(float(row[7]) > 0 for row in aligns.values())
    assert benchmark("scale.py", file, "--sizes", "10", "--latency", "0") == table
    assert file.read_text("utf-8") == text
    assert len(ElementTree.parse(figure).getroot().findall(".//{*}circle")) > 6


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, with a model `m` that does everything right but judge without a rule."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import simulated

    able = simulated.Competence(zero=0.0, following=1.0, distilling=1.0, reading=1.0)
    monkeypatch.setitem(simulated.MODELS, "m", (simulated.POLICIES["plain"], able))
    return simulated


def asked(simulated: Any, user: str, *fields: str, system: str = "") -> str:
    """What the model answers in DSPy's form."""
    last = ", then ".join(f"`[[ ## {name} ## ]]`" for name in (*fields, "completed"))
    content = f"{user}\n\nRespond with the corresponding output fields, starting with the field {last}."
    messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
    answer = simulated.chat({"model": "m", "messages": messages})
    assert isinstance(answer, str)
    return answer


def test_a_simulated_model_learns_from_comments_alone(simulated: Any) -> None:
    (row,) = simulated.rows(simulated.POLICIES["plain"], 1, seed=1)
    assert "A good reply says by when." in asked(simulated, str(row), "proposed_instruction")
    assert "by when" not in asked(simulated, str(row | {"rationale": ""}), "proposed_instruction")


def test_a_simulated_model_follows_rules_and_comments(simulated: Any) -> None:
    shown, *cases = simulated.rows(simulated.POLICIES["plain"], 21, seed=1)

    def right(system: str) -> int:
        items = [f"[[ ## inputs ## ]]\n{row['inputs']}\n\n[[ ## outputs ## ]]\n{row['outputs']}" for row in cases]
        answers = [asked(simulated, item, "result", system=system) for item in items]
        return sum(f"\n{row['value']}\n" in answer for row, answer in zip(cases, answers, strict=True))

    assert [right(""), right("A good reply says by when."), right(f"Example: {shown['rationale']}")] == [0, 20, 20]


def test_recorded_answers_like_those_of_people_correlate_with_them(tmp_path: Path) -> None:
    file, dice = tmp_path / "recorded.jsonl", random.Random(0)
    with file.open("w", encoding="utf-8") as out:
        for number in range(80):
            label = dice.randint(1, 4)
            sure = [0.91 if level == label else 0.03 for level in (1, 2, 3, 4)]
            answers = {f"Q{question}": sure if question else [0.25] * 4 for question in range(9)}
            line = {"part": "synthetic" if number < 40 else "real", "answers": answers, "human": {"Q0": label}}
            out.write(json.dumps(line) + "\n")
    (calibrator,) = [row for row in rows_of(benchmark("recorded.py", file)) if row[0] == "the calibrator"]
    assert float(calibrator[1]) > 0.9
