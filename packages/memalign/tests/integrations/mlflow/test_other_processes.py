"""Registered judges in processes that know memalign less: nobody imported it there, or it is not installed at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow.genai.scorers import get_scorer

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.entry_points import installed_entry_points
from tests.support.mlflow_world import fetched, lesson, tone_judge

pytestmark = pytest.mark.slow

READ = """
import json, sys
if sys.argv[3] == "absent":
    sys.modules["memalign"] = None
import mlflow
from mlflow.genai.scorers import get_scorer, list_scorers
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment(experiment_id=sys.argv[2])
assert sys.modules.get("memalign.judge") is None
judge = get_scorer(name="tone")
print("TOLD" + json.dumps({
    "kind": type(judge).__name__,
    "listed": sorted(each.name for each in list_scorers()),
    "instructions": judge.instructions,
}))
"""


def told(store: str, experiment: str, *, absent: bool, folder: Path) -> dict[str, Any]:
    """What another interpreter, with the entry points of our package, says of the judge `tone`."""
    paths = os.pathsep.join(map(str, installed_entry_points(folder / "points")))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READ, store, experiment, "absent" if absent else ""],
        env=dict(os.environ) | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("TOLD"))
    found: dict[str, Any] = json.loads(line.removeprefix("TOLD"))
    return found


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize(("absent", "kind"), [(True, "InstructionsJudge"), (False, "MemAlignJudge")])
def test_other_processes_load_a_registered_judge(absent: bool, kind: str, store: str, experiment: str, tmp_path: Path):
    aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    aligned.register()
    tone_judge(name="plain").register()
    found = told(store, experiment, absent=absent, folder=tmp_path)
    assert found == {"kind": kind, "listed": ["plain", "tone"], "instructions": aligned.instructions}


@pytest.mark.usefixtures("endpoint")
def test_a_guidelines_braces_name_no_field():
    aligned = tone_judge().align(fetched(lesson("{{ mood }}")), MemAlignOptimizer())
    assert [each.guideline_text for each in aligned._semantic_memory] == ["case {{ mood }} is unkind"]
    aligned.register()
    assert type(get_scorer(name="tone")).__name__ == "MemAlignJudge"
    assert "case { { mood } } is unkind" in aligned.instructions
