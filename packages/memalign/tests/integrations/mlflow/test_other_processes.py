"""A registered judge in a process without memalign: a plain judge of MLflow, with the guidelines in its instructions."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from mlflow.genai.scorers import get_scorer

from memalign.integrations.mlflow import MemAlignOptimizer, load
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import as_mlflow_asks, fetched, lesson, tone_judge

READ = """
import json, sys
sys.modules["memalign"] = None
import mlflow
from mlflow.genai.scorers import get_scorer, list_scorers
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment(experiment_id=sys.argv[2])
judge = get_scorer(name="tone")
verdicts = [judge(inputs={"question": f"question {n}"}, outputs=f"answer {n}").value for n in (1, 9)]
print("TOLD" + json.dumps([type(judge).__name__, [each.name for each in list_scorers()], judge.instructions, verdicts]))
"""


@pytest.mark.slow
def test_plain_mlflow_loads_and_runs_what_memalign_registered(endpoint: Endpoint, store: str, experiment: str):
    aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    aligned.register()
    endpoint.answer = lambda body: json.dumps(as_mlflow_asks(body))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, store, experiment],
        env=dict(os.environ) | {"OPENAI_API_BASE": endpoint.base_url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("TOLD"))
    found = json.loads(line.removeprefix("TOLD"))
    assert found == ["InstructionsJudge", ["tone"], aligned.instructions, [False, True]]


@pytest.mark.usefixtures("endpoint")
def test_a_guidelines_braces_name_no_field():
    aligned = tone_judge().align(fetched(lesson("{{ mood }}")), MemAlignOptimizer())
    assert [each.guideline_text for each in aligned._semantic_memory] == ["case {{ mood }} is unkind"]
    aligned.register()
    assert "case { { mood } } is unkind" in get_scorer(name="tone").instructions
    assert load("tone").instructions == aligned.instructions
