"""Both ways with plain MLflow: another interpreter with MLflow, DSPy and LiteLLM, and without memalign, on the same store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.genai import scorers

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import as_mlflow_asks, fetched, lesson, tone_judge

COMPETITOR = Path(__file__).parents[5] / ".competitors" / "bin" / "python"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not COMPETITOR.exists(),
        reason="there is no .competitors: a venv with mlflow, dspy and litellm, without memalign",
    ),
    pytest.mark.skipif(sys.platform == "win32", reason="the competitors' environment is looked for where POSIX has it"),
]

BEGIN = """
import importlib.util, json, sys
assert importlib.util.find_spec("memalign") is None
import mlflow
from mlflow.genai.judges import make_judge
from mlflow.genai.scorers import get_scorer, list_scorers
store, experiment, *ids = sys.argv[1:]
mlflow.set_tracking_uri(store)
mlflow.set_experiment(experiment_id=experiment)
def told(**facts):
    print("TOLD" + json.dumps(facts))
"""

RUN = """
judge = get_scorer(name="tone")
trace = mlflow.get_trace(ids[0])
told(
    kind=type(judge).__name__,
    listed=[each.name for each in list_scorers()],
    instructions=judge.instructions,
    first=judge(trace=trace).value,
    other=judge(inputs={"question": "question 9"}, outputs="answer 9").value,
)
"""

LEARN = """
from mlflow.genai.judges.optimizers import MemAlignOptimizer
judge = make_judge(name="tone", instructions=%r, model="openai:/small", feedback_value_type=bool)
aligned = judge.align([mlflow.get_trace(each) for each in ids], MemAlignOptimizer(reflection_lm="openai:/large"))
aligned.register()
told(guidelines=[each.guideline_text for each in aligned._semantic_memory])
"""


def plain(program: str, store: str, experiment: str, ids: list[str], home: Path) -> dict[str, Any]:
    """What a program of plain MLflow tells."""
    base = os.environ["OPENAI_BASE_URL"]
    given = {"OPENAI_API_BASE": base, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "DSPY_CACHEDIR": str(home / "dspy")}
    done = subprocess.run(
        [str(COMPETITOR), "-c", BEGIN + program, store, experiment, *ids],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | given,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = (line.removeprefix("TOLD") for line in done.stdout.splitlines() if line.startswith("TOLD"))
    return {name: value for line in lines for name, value in json.loads(line).items()}


def test_plain_mlflow_loads_and_runs_what_memalign_registered(endpoint: Endpoint, store, experiment, tmp_path):
    ids = [lesson(1), lesson(2)]
    aligned = tone_judge().align(fetched(*ids), MemAlignOptimizer())
    aligned.register()
    endpoint.answer = lambda body: json.dumps(as_mlflow_asks(body))
    found = plain(RUN, store, experiment, ids, tmp_path)
    assert (found["kind"], found["listed"]) == ("InstructionsJudge", ["tone"])
    assert found["instructions"] == aligned.instructions
    assert (found["first"], found["other"]) == (False, True)
    assert load("tone").memalign_judge == aligned.memalign_judge


def test_a_judge_aligned_by_mlflow_is_adopted(endpoint: Endpoint, mind, store, experiment, tmp_path):
    ids = [lesson(1), lesson(2)]
    endpoint.answer = lambda body: json.dumps(as_mlflow_asks(body))
    program = LEARN % tone_judge().instructions
    assert plain(program, store, experiment, ids, tmp_path)["guidelines"] == ["case 1 is unkind", "case 2 is unkind"]
    endpoint.answer = mind.answer
    adopted = load("tone")
    assert isinstance(adopted, MemAlignJudge)
    assert [each.guideline_text for each in adopted._semantic_memory] == ["case 1 is unkind", "case 2 is unkind"]
    assert {each._trace_id: each.result for each in adopted._episodic_memory} == dict.fromkeys(ids, False)
    assert adopted._optimizer.reflection_lm == "openai:/large"
    assert adopted(inputs={"question": "question 1"}, outputs="answer 1").value is False
    more = adopted.align(fetched(lesson(3)))
    assert len(more._semantic_memory) == 3
    more.register()
    assert [type(each).__name__ for each in scorers.list_scorers()] == ["InstructionsJudge"]
    assert load("tone").instructions == more.instructions
    assert len(more.unalign([ids[0]])._semantic_memory) == 2
    assert mlflow.get_trace(ids[0]) is not None
