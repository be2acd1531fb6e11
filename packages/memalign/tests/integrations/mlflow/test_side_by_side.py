"""A judge before and after, in one evaluation of MLflow's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlflow

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.mlflow_world import fetched, lesson, tone_judge

if TYPE_CHECKING:
    import pytest

    from tests.support.endpoint import Endpoint
    from tests.support.mlflow_world import Mind


def test_one_evaluation_compares_plain_and_aligned(endpoint: Endpoint, mind: Mind, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_GENAI_EVAL_MAX_WORKERS", "4")
    mind.other = {"result": True, "rationale": "MLflow's own judge finds all kind"}
    aligned = tone_judge().align(fetched(lesson(1), lesson(2)), MemAlignOptimizer())
    plain = tone_judge(name="tone_before", base_url=endpoint.base_url)
    rows = [
        {
            "inputs": {"question": f"question {n}"},
            "outputs": f"answer {n}",
            "expectations": {"experts": n > 2},
        }
        for n in range(1, 5)
    ]
    frame = mlflow.genai.evaluate(data=rows, scorers=[plain, aligned]).result_df
    agreement = {name: (frame[f"{name}/value"] == frame["experts/value"]).mean() for name in ("tone_before", "tone")}
    assert agreement == {"tone_before": 0.5, "tone": 1.0}
