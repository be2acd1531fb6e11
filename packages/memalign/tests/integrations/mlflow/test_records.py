"""Aligned judges in MLflow's registry: small records that plain MLflow reads, and everything back here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai import scorers
from mlflow.genai.judges.instructions_judge import InstructionsJudge
from mlflow.tracking._tracking_service.utils import _get_store

from memalign import Memory
from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.registry.bundle import write_bundle
from tests.support.mlflow_world import fetched, lesson, says, tone_judge

if TYPE_CHECKING:
    pass


def record_of(name: str) -> dict[str, Any]:
    found = _get_store().get_scorer(mlflow.tracking.fluent._get_experiment_id(), name)
    record: dict[str, Any] = json.loads(found._serialized_scorer)
    return record


def test_a_registered_version_outlives_its_traces(aligned, experiment):
    aligned.register()
    first = aligned._episodic_trace_ids
    aligned.align(fetched(lesson(3))).register()
    says(first[0], True, "never mind", by="ben")
    mlflow.MlflowClient().delete_traces(experiment_id=experiment, trace_ids=[first[1]])
    old = load("tone", version=1)
    assert old.memalign_judge == aligned.memalign_judge
    assert len(load("tone")._semantic_memory) == 3


def test_mlflow_itself_gives_a_plain_judge_with_the_guidelines(aligned):
    assert aligned.register().status.value == "STOPPED"
    record = json.dumps(record_of("tone"))
    assert "say: case" not in record, "nobody's words beside the guidelines"
    assert len(record) < 4000
    aligned.align(fetched(lesson(3))).register()
    first = scorers.get_scorer(name="tone", version=1)
    assert [type(judge) for judge in (*scorers.list_scorers(), first)] == [InstructionsJudge] * 2
    assert first.instructions == aligned.instructions
    scorers.delete_scorer(name="tone", version="all")
    assert scorers.list_scorers() == []


def test_a_memory_that_was_changed_or_is_gone_is_refused(aligned, tmp_path):
    aligned.register()
    (file,) = Path(tmp_path).rglob("judge.json")
    file.write_text(file.read_text().replace("case 1 is unkind", "case 1 is lovely"))
    with pytest.raises(MlflowException, match="damaged or was edited"):
        load("tone")
    write_bundle(aligned.memalign_judge.replace(memory=Memory()), file)
    with pytest.raises(MlflowException, match="it is not the one that was registered"):
        load("tone")
    file.unlink()
    run_id = record_of("tone")["instructions_judge_pydantic_data"]["memalign"]["run_id"]
    with pytest.raises(MlflowException, match=f"{run_id}.*align it again"):
        load("tone")


def test_a_judge_that_cannot_be_registered_leaves_no_run(aligned, experiment, tmp_path, monkeypatch):
    wall = tmp_path / "a file"
    wall.write_text("no folder")
    closed = mlflow.create_experiment(f"closed {tmp_path}", artifact_location=(wall / "artifacts").as_uri())
    with pytest.raises(MlflowException, match=r"its memory cannot be written to the artifacts .*Registry\(\)\.save"):
        aligned.register(experiment_id=closed)
    assert scorers.list_scorers(experiment_id=closed) == []

    def refuse(*_: Any, **__: Any) -> None:
        raise MlflowException("no room")

    monkeypatch.setattr(type(_get_store()), "register_scorer", refuse)
    with pytest.raises(MlflowException, match="no room"):
        aligned.register()
    assert mlflow.search_runs([closed, experiment], output_format="list") == []


@pytest.mark.usefixtures("endpoint")
def test_a_judge_that_was_never_aligned_is_not_loaded():
    tone_judge().register()
    with pytest.raises(MlflowException, match="never aligned by memalign"):
        load("tone")


@pytest.mark.usefixtures("endpoint")
def test_a_judge_that_mlflow_aligned_learns_anew_from_its_traces(caplog):
    class MemoryAugmentedJudge:  # as MLflow's own, whose import needs DSPy
        name, _base_judge = "tone", tone_judge()

    aligned = MemAlignOptimizer().align(MemoryAugmentedJudge(), fetched(lesson(1)))
    assert [each.guideline_text for each in aligned._semantic_memory] == ["case 1 is unkind"]
    assert "guidelines are distilled again from these traces" in caplog.text


def test_one_of_our_records_does_not_break_listings(aligned):
    aligned.register()
    other = {"instructions": "another text {{ outputs }}"}
    for changes, why in (({"omitted": 5}, "damaged"), (other, "edited after it was aligned")):
        record = record_of("tone")
        record["instructions_judge_pydantic_data"]["memalign"] |= changes
        _get_store().register_scorer(mlflow.tracking.fluent._get_experiment_id(), "tone", json.dumps(record))
        (listed,) = scorers.list_scorers()
        assert (type(listed), listed.instructions) == (InstructionsJudge, aligned.instructions)
        with pytest.raises(MlflowException, match=why):
            load("tone")
        aligned.register()
    assert load("tone", version=1).memalign_judge == aligned.memalign_judge
