"""The demo of examples/, as a person runs it: the script, whose copy the notebook is, on a SQLite store and on a tracking server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from mlflow.metrics.genai import model_utils

from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import mlflows_optimizer, teachable

EXAMPLES = Path(__file__).resolve().parents[5] / "examples"
DEMO = EXAMPLES / "mlflow_demo.py"
KNOWS_ADDRESS = "OPENAI_BASE_URL" in Path(model_utils.__file__).read_text("utf-8")
"""Whether MLflow's own judges ask a server that OPENAI_BASE_URL names."""


def steps(printed: str) -> None:
    """What any model must have led to; the verdicts themselves are the model's."""
    assert printed.count("after: ") == 2
    assert printed.count("before: ") == (
        0 if "model: local:" in printed else 2
    )  # MLflow asks none in this process
    distilled = re.search(
        r"aligned: \d learned(?:.|\n)*Distilled Guidelines \((\d)\):", printed
    )
    assert distilled
    assert f"semantic memory {distilled[1]}, episodic memory 4" in printed
    assert re.search(r"semantic memory \d, episodic memory 3", printed)
    for line in (
        "registered: ['send']",
        "loaded: ",
        "the same memory: True",
        "evaluated 2 rows",
    ):
        assert line in printed
    assert printed.rstrip().endswith("registered: []")


def learned(printed: str) -> None:
    """What the loopback model says, which learns at once."""
    steps(printed)
    verdicts = re.findall(r"^(?:before|after|loaded): (\w+)", printed, re.MULTILINE)
    assert verdicts == ["True", "True", "False", "True", "False"]
    assert "aligned: 4 learned, new G1-G4" in printed
    assert "semantic memory 3, episodic memory 3" in printed


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, store: str) -> Iterator[None]:
    with Endpoint(teachable) as endpoint:
        variables = {
            "OPENAI_API_KEY": "none",
            "MEMALIGN_MODEL": "openai:/small",
            "MLFLOW_TRACKING_URI": store,
        }
        variables |= {
            "OPENAI_BASE_URL": endpoint.base_url,
            "OPENAI_API_BASE": endpoint.base_url,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        yield


def demo() -> str:
    """The demo's program; an MLflow whose own judges know no OPENAI_BASE_URL is given it as an argument."""
    program = DEMO.read_text("utf-8")
    if KNOWS_ADDRESS:
        return program
    address = 'base_url=os.environ["OPENAI_BASE_URL"] + "/chat/completions"'
    return program.replace("model=MODEL,", f"model=MODEL, {address},")


@pytest.mark.usefixtures("small")
def test_the_demo_turns_traces_into_a_registered_judge(capsys):
    exec(compile(demo(), DEMO.name, "exec"), {"__name__": "__main__"})
    learned(capsys.readouterr().out)


@pytest.mark.usefixtures("small")
@pytest.mark.skipif(
    not (find_spec("dspy") and KNOWS_ADDRESS),
    reason="MLflow's own judges need DSPy, and an MLflow that knows OPENAI_BASE_URL",
)
def test_the_import_alone_changes_nothing_that_mlflows_demo_prints(capsys):
    mlflows_optimizer()
    runs = []
    for module in ("mlflow.genai.judges.optimizers", "memalign.integrations.mlflow"):
        exec(compile(mlflows_own(module), DEMO.name, "exec"), {"__name__": "__main__"})
        lines = capsys.readouterr().out.splitlines()
        results = [
            line
            for line in lines
            if re.match("before|after|semantic|registered|loaded|evaluated", line)
        ]
        runs.append(
            (results, sorted(line for line in lines if line.startswith("  - ")))
        )
    assert runs[0] == runs[1]
    assert [len(part) for part in runs[0]] == [10, 4]


def test_what_only_memalign_has_leaves_mlflows_demo_whole() -> None:
    theirs = mlflows_own("mlflow.genai.judges.optimizers")
    compile(theirs, DEMO.name, "exec")
    used = [line for line in theirs.splitlines() if re.search(r"memalign\.", line)]
    assert [line for line in used if not line.startswith("#")] == [
        "from memalign.models import default_model_name"
    ]


def mlflows_own(module: str) -> str:
    """The demo without what only memalign has, and with the optimizer of this module."""
    program = demo().replace('load("send")  # (memalign)', 'get_scorer(name="send")')
    dropped = ("(memalign)", "MemAlignOptimizer, load")
    lines = [
        line
        for line in program.splitlines()
        if not any(words in line for words in dropped)
    ]
    imports = [
        f"from {module} import MemAlignOptimizer",
        "from mlflow.genai.scorers import get_scorer",
    ]
    return "\n".join([*imports, *lines])


def test_the_notebook_is_executed_and_shows_nobodys_folders():
    cells: list[dict[str, Any]] = json.loads(
        (EXAMPLES / "mlflow_demo.ipynb").read_text("utf-8")
    )["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} <= {
        "stream",
        "display_data",
        "execute_result",
    }
    steps(
        "".join(
            "".join(output["text"])
            for output in outputs
            if output.get("name") == "stdout"
        )
    )
    assert not re.search(
        r"/(home|root|Users|tmp|usr|work|private|var)/", json.dumps(outputs)
    )


def run(store: str, folder: Path, **environment: str) -> str:
    variables = dict(os.environ) | {"MLFLOW_TRACKING_URI": store} | environment
    script = folder / DEMO.name
    script.write_text(demo(), "utf-8")
    command = [sys.executable, str(script)]
    done = subprocess.run(
        command, env=variables, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_it_runs_on_a_tracking_server_too(server, tmp_path):
    learned(run(server, tmp_path))


@pytest.mark.slow
@pytest.mark.embedded
def test_it_runs_on_the_embedded_model(tmp_path):
    printed = run(
        "sqlite:///demo.db", tmp_path, MEMALIGN_MODEL="local:qwen2.5-coder-0.5b"
    )
    steps(printed)
    assert "model: local:/qwen2.5-coder-0.5b" in printed
