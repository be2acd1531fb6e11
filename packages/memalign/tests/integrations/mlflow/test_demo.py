"""The demo of examples/ as a person runs it, on a SQLite store and on a tracking server.

The notebook is a copy of the script.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from mlflow.metrics.genai import model_utils

from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import mlflows_optimizer, teachable

EXAMPLES = Path(__file__).resolve().parents[5] / "examples"
DEMO = EXAMPLES / "mlflow_demo.py"
FOLDER = re.compile(r"/(home|root|Users|tmp|usr|work|private|var)/")
KNOWS_ADDRESS = "OPENAI_BASE_URL" in Path(model_utils.__file__).read_text("utf-8")
"""Whether MLflow's own judges ask a server that OPENAI_BASE_URL names."""


def steps(printed: str) -> None:
    """What any model must have led to; the verdicts themselves are the model's."""
    assert printed.count("after: ") == 2
    local = "model: local:" in printed  # MLflow asks no model in this process
    assert printed.count("before: ") == (0 if local else 2)
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
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("MEMALIGN_MODEL", "openai:/small")
        monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
        monkeypatch.setenv("OPENAI_API_BASE", endpoint.base_url)
        yield


def demo() -> str:
    """The demo's program; it tells the address to an MLflow that knows no OPENAI_BASE_URL."""
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
        printed = capsys.readouterr().out
        results = re.findall(
            r"^(?:before|after|semantic|registered|loaded|evaluated).*$",
            printed,
            re.MULTILINE,
        )
        rules = sorted(re.findall(r"^  - .*$", printed, re.MULTILINE))
        assert (len(results), len(rules)) == (10, 4)
        runs.append((results, rules))
    assert runs[0] == runs[1]


def test_what_only_memalign_has_leaves_mlflows_demo_whole() -> None:
    theirs = mlflows_own("mlflow.genai.judges.optimizers")
    compile(theirs, DEMO.name, "exec")
    used = re.findall(r"^(?!#).*memalign\..*$", theirs, re.MULTILINE)
    assert used == ["from memalign.models import default_model_name"]


def mlflows_own(module: str) -> str:
    """The demo without what only memalign has, and with the optimizer of this module."""
    program = demo().replace('load("send")  # (memalign)', 'get_scorer(name="send")')
    program = re.sub(r".*(\(memalign\)|MemAlignOptimizer, load).*\n", "", program)
    return f"""\
from {module} import MemAlignOptimizer
from mlflow.genai.scorers import get_scorer
{program}"""


def test_the_notebook_is_executed_and_shows_nobodys_folders():
    notebook = json.loads((EXAMPLES / "mlflow_demo.ipynb").read_text("utf-8"))
    count = 0
    printed = ""
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        count += 1
        assert cell["execution_count"] == count
        for output in cell["outputs"]:
            kind = output["output_type"]
            assert kind in ("stream", "display_data", "execute_result")
            assert not FOLDER.search(json.dumps(output))
            if output.get("name") == "stdout":
                printed += "".join(output["text"])
    steps(printed)


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
