"""Registered judges in processes without memalign: plain judges of MLflow, with the guidelines in their instructions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from mlflow.genai.scorers import get_scorer

from memalign.integrations.mlflow import MemAlignOptimizer, load
from tests.support.mlflow_world import fetched, lesson, tone_judge

READ = """
import json, sys
sys.modules["memalign"] = None
import mlflow
from mlflow.genai.scorers import get_scorer, list_scorers
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment(experiment_id=sys.argv[2])
judge = get_scorer(name="tone")
print("TOLD" + json.dumps({
    "kind": type(judge).__name__,
    "listed": sorted(each.name for each in list_scorers()),
    "instructions": judge.instructions,
}))
"""


def told(store: str, experiment: str) -> dict[str, Any]:
    """What another interpreter, in which memalign cannot be imported, says of the judge `tone`."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, store, experiment],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("TOLD"))
    facts: dict[str, Any] = json.loads(line.removeprefix("TOLD"))
    return facts


@pytest.mark.slow
@pytest.mark.usefixtures("endpoint")
def test_other_processes_load_a_registered_judge(store: str, experiment: str):
    aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    aligned.register()
    tone_judge(name="plain").register()
    expected = {"kind": "InstructionsJudge", "listed": ["plain", "tone"], "instructions": aligned.instructions}
    assert told(store, experiment) == expected


@pytest.mark.usefixtures("endpoint")
def test_a_guidelines_braces_name_no_field():
    aligned = tone_judge().align(fetched(lesson("{{ mood }}")), MemAlignOptimizer())
    assert [each.guideline_text for each in aligned._semantic_memory] == ["case {{ mood }} is unkind"]
    aligned.register()
    assert "case { { mood } } is unkind" in get_scorer(name="tone").instructions
    assert load("tone").instructions == aligned.instructions
