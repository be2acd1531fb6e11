"""The benchmarks run as their docstrings say, go on where they stopped, and print their tables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from checkout import ROOT, benchmark


def rows_of(table: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]


def test_competence_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file, figure = tmp_path / "competence.jsonl", tmp_path / "competence.svg"
    assert "| plain | " in benchmark("competence.py", file, "--arms", "chat", "--most", "1").stdout
    lines = file.read_text("utf-8").splitlines()
    benchmark("competence.py", file, "--arms", "chat", "--most", "1")
    assert file.read_text("utf-8").splitlines()[: len(lines)] == lines
    assert len({json.loads(line)["cell"] for line in file.read_text("utf-8").splitlines()}) == 2
    assert "| plain | " in benchmark("competence.py", file, "--table", "--figure", figure).stdout
    assert ElementTree.parse(figure).getroot().tag.endswith("svg")


def test_scale_has_a_line_a_step_and_asks_nothing_twice(tmp_path: Path) -> None:
    file, figure = tmp_path / "scale.jsonl", tmp_path / "scale.svg"
    table = benchmark("scale.py", file, "--sizes", "10", "--latency", "0", "--figure", figure).stdout
    aligns = {row[2]: row for row in rows_of(table) if row[0] == "align"}
    assert aligns["memalign"][4] == "1", "an align of ten comments is one call"
    assert aligns["memalign, decision model"][4].endswith("10 d.")
    assert {row[0] for row in rows_of(table)} >= {"a judgment", "one more", "one withdrawn", "one erased"}
    text = file.read_text("utf-8")
    assert all(float(row[7]) > 0 for row in aligns.values())
    assert benchmark("scale.py", file, "--sizes", "10", "--latency", "0").stdout == table
    assert file.read_text("utf-8") == text
    assert len(ElementTree.parse(figure).getroot().findall(".//{*}circle")) > 6


def test_a_simulated_model_learns_from_comments_and_follows_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does everything right but judge without a rule, asked in DSPy's form."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import simulated

    able = simulated.Competence(zero=0.0, following=1.0, distilling=1.0, reading=1.0)
    monkeypatch.setitem(simulated.MODELS, "m", (simulated.POLICIES["plain"], able))
    shown, *cases = simulated.rows(simulated.POLICIES["plain"], 21, seed=1)

    def asked(user: str, field: str, system: str = "") -> Any:
        last = f"starting with the field `[[ ## {field} ## ]]`, then `[[ ## completed ## ]]`"
        content = f"{user}\n\nRespond with the corresponding output fields, {last}."
        messages = [{"role": "system", "content": system}, {"role": "user", "content": content}]
        return simulated.chat({"model": "m", "messages": messages})

    def right(system: str) -> int:
        items = [f"[[ ## inputs ## ]]\n{row['inputs']}\n\n[[ ## outputs ## ]]\n{row['outputs']}" for row in cases]
        answers = [asked(item, "result", system) for item in items]
        return sum(f"\n{row['value']}\n" in answer for row, answer in zip(cases, answers, strict=True))

    assert "A good reply says by when." in asked(str(shown), "proposed_instruction")
    assert "by when" not in asked(str(shown | {"rationale": ""}), "proposed_instruction")
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
    (calibrator,) = [row for row in rows_of(benchmark("recorded.py", file).stdout) if row[0] == "the calibrator"]
    assert float(calibrator[1]) > 0.9
