"""An aligned judge as MLflow's other code handles it: copied, dumped, printed, aggregated, used by many at once."""

from __future__ import annotations

import copy
from pathlib import Path

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai.scorers import Scorer, list_scorers

from memalign.integrations.mlflow import MemAlignOptimizer, load
from tests.support.mlflow_world import fetched, lesson, tone_judge


def test_a_copy_judges_learns_and_forgets_too(endpoint):
    # A model with connections of its own cannot be copied.
    judge = tone_judge(base_url=endpoint.base_url, inference_params={"temperature": 0.2, "timeout": 20})
    aligned = judge.align(fetched(lesson(1), lesson(2)), MemAlignOptimizer())
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
        assert other(inputs={"question": "question 1, as of today"}, outputs="answer 1").value is False
        assert other.align(fetched(*aligned._episodic_trace_ids)) is other
        assert len(other.unalign(aligned._episodic_trace_ids[:1])._semantic_memory) == 1
        assert len(aligned._semantic_memory) == 2


def test_all_settings_survive_align_and_registration_but_headers(endpoint, store, tmp_path, monkeypatch):
    judge = tone_judge(
        description="Whether we are kind",
        base_url=endpoint.base_url,
        extra_headers={"Authorization": "theirs alone"},
        inference_params={"temperature": 0.2, "timeout": 20},
    )
    judge.aggregations = ["mean", "max"]
    if "timeout" in Scorer.model_fields:  # of newer versions of MLflow
        judge.timeout = 7
    optimizer = MemAlignOptimizer(authority=["ana"], value_type="bool")
    aligned = judge.align(fetched(lesson(1)), optimizer)
    aligned.register()
    files = [*Path(store.removeprefix("sqlite:///")).parent.glob("mlflow.db*"), *tmp_path.rglob("*.*")]
    assert not any(b"theirs alone" in file.read_bytes() for file in files)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    loaded = load("tone", extra_headers={"Authorization": "given again"})
    for learned in (aligned, loaded):
        assert (learned.description, learned.aggregations) == ("Whether we are kind", ["mean", "max"])
        assert getattr(learned, "timeout", 7) == 7
        assert learned._optimizer == optimizer
        assert learned.memalign_judge.parameters == {"temperature": 0.2, "timeout": 20}
    rows = [{"inputs": {"question": f"question {n}"}, "outputs": f"answer {n}"} for n in (1, 9)]
    result = mlflow.genai.evaluate(data=rows, scorers=[loaded])
    assert (result.metrics["tone/mean"], result.metrics["tone/max"]) == (0.5, 1.0)
    assert endpoint.requests[-1]["temperature"] == 0.2
    assert endpoint.headers[-1]["authorization"] == "given again"


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("name", ["team/tone", "tone\\warm", "t" * 150])
def test_any_name_that_mlflow_takes_is_kept(name: str):
    tone_judge(name=name).align(fetched(lesson(1, name=name)), MemAlignOptimizer()).register()
    assert [scorer.name for scorer in list_scorers()] == [name]
    loaded = load(name)
    verdict = loaded(inputs="q", outputs="answer 1")
    assert (verdict.name, verdict.value) == (name, False)
    assert len(loaded.align(fetched(lesson(2, name=name)))._semantic_memory) == 2


def test_mlflow_cannot_ask_a_model_in_this_process_and_nothing_is_patched():
    from mlflow.genai.judges.adapters import utils

    with pytest.raises(MlflowException):
        tone_judge(model="local:/qwen2.5-coder-0.5b")(inputs="q", outputs="a")
    assert utils.get_adapter.__module__ == "mlflow.genai.judges.adapters.utils"
    assert Scorer.model_validate.__func__.__module__ == "mlflow.genai.scorers.base"
