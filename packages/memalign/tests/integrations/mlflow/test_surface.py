"""An aligned judge as MLflow's other code handles it: copied, dumped, printed, aggregated, used by many at once."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai.judges import make_judge
from mlflow.genai.scorers import Scorer, list_scorers

from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, load
from tests.support.mlflow_world import INSTRUCTIONS, fetched, lesson, tone_judge

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint

CASE: dict[str, Any] = {"inputs": {"question": "question 1, as of today"}, "outputs": "answer 1"}


@pytest.fixture
def aligned(endpoint: Endpoint) -> MemAlignJudge:
    judge = make_judge(
        name="tone",
        instructions=INSTRUCTIONS,
        model="openai:/small",
        feedback_value_type=bool,
        description="Whether we are kind",
        base_url=endpoint.base_url,  # a model with connections of its own, which cannot be copied
        inference_params={"temperature": 0.2, "timeout": 20},
    )
    judge.aggregations = ["mean", "max"]
    if "timeout" in Scorer.model_fields:  # of newer versions of MLflow
        judge.timeout = 7
    learned: MemAlignJudge = judge.align(fetched(lesson(1), lesson(2)), MemAlignOptimizer())
    return learned


def test_a_copy_judges_learns_and_forgets_too(aligned):
    for other in (
        copy.copy(aligned),
        copy.deepcopy(aligned),
        aligned.model_copy(),
        aligned.model_copy(deep=True),
        aligned.register() and load("tone"),
    ):
        assert other is not aligned
        assert (other.name, other.instructions) == (aligned.name, aligned.instructions)
        assert other.memalign_judge.memory == aligned.memalign_judge.memory
        assert other(**CASE).value is False
        assert other.align(fetched(*aligned._episodic_trace_ids)) is other
        assert len(other.unalign(aligned._episodic_trace_ids[:1])._semantic_memory) == 1
        assert len(aligned._semantic_memory) == 2


def test_all_settings_survive_align_and_registration(aligned, endpoint, monkeypatch):
    aligned.register()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    for judge in (aligned, load("tone")):
        assert judge.description == "Whether we are kind"
        assert judge.aggregations == ["mean", "max"]
        assert getattr(judge, "timeout", 7) == 7
        assert judge.memalign_judge.parameters == {"temperature": 0.2, "timeout": 20}
        assert judge(**CASE).value is False
        assert endpoint.requests[-1]["temperature"] == 0.2


def test_aggregations_are_metrics_of_an_evaluation(aligned):
    rows = [{"inputs": {"question": f"question {n}"}, "outputs": f"answer {n}"} for n in (1, 9)]
    result = mlflow.genai.evaluate(data=rows, scorers=[aligned])
    assert (result.metrics["tone/mean"], result.metrics["tone/max"]) == (0.5, 1.0)


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("name", ["team/tone", "tone\\warm", "t" * 150])
def test_any_name_that_mlflow_takes_is_kept(name: str):
    aligned = tone_judge(name=name).align(fetched(lesson(1, name=name)), MemAlignOptimizer())
    aligned.register()
    assert [each.name for each in list_scorers()] == [name]
    loaded = load(name)
    verdict = loaded(inputs="q", outputs="answer 1")
    assert (verdict.name, verdict.value) == (name, False)
    assert len(loaded.align(fetched(lesson(2, name=name)))._semantic_memory) == 2


def test_mlflow_cannot_ask_a_model_in_this_process_and_nothing_is_patched():
    from mlflow.genai.judges.adapters import utils

    judge = tone_judge(model="local:/qwen2.5-coder-0.5b")
    with pytest.raises(MlflowException):
        judge(**CASE)
    assert utils.get_adapter.__module__ == "mlflow.genai.judges.adapters.utils"
    assert Scorer.model_validate.__func__.__module__ == "mlflow.genai.scorers.base"
