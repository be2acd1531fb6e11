"""Aligned judges in MLflow's registry: small records for plain MLflow, everything back here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai import scorers
from mlflow.genai.judges.instructions_judge import InstructionsJudge
from mlflow.genai.scorers import Scorer
from mlflow.tracking._tracking_service.utils import _get_store

from memalign import Memory
from memalign.integrations.mlflow import MemAlignOptimizer, load
from memalign.registry.bundle import write_bundle
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import (
    as_mlflow_asks,
    fetched,
    item,
    lesson,
    rules_of,
    says,
    taught,
    tone_judge,
)


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
    (listed,) = scorers.list_scorers()
    assert type(first) is type(listed) is InstructionsJudge
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


def test_a_judge_that_cannot_be_registered_leaves_no_run(
    aligned, experiment, tmp_path, monkeypatch
):
    wall = tmp_path / "a file"
    wall.write_text("no folder")
    closed = mlflow.create_experiment(
        f"closed {tmp_path}", artifact_location=(wall / "artifacts").as_uri()
    )
    reason = r"its memory cannot be written to the artifacts .*Registry\(\)\.save"
    with pytest.raises(MlflowException, match=reason):
        aligned.register(experiment_id=closed)
    assert scorers.list_scorers(experiment_id=closed) == []

    def refuse(*_: Any, **__: Any) -> None:
        raise MlflowException("no room")

    monkeypatch.setattr(type(_get_store()), "register_scorer", refuse)
    with pytest.raises(MlflowException, match="no room"):
        aligned.register()
    assert mlflow.search_runs([closed, experiment], output_format="list") == []


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("described", [None, "Whether we are kind"])
def test_what_get_scorer_gives_says_where_the_memory_is(described: str | None):
    taught(lesson(1), description=described).register()
    plain = scorers.get_scorer(name="tone")
    assert "memalign.integrations.mlflow.load('tone')" in plain.description
    assert plain.description.startswith(described or "Learned by memalign")
    assert load("tone").description == described
    assert plain.align(fetched(lesson(2)), MemAlignOptimizer()).description == described


@pytest.mark.usefixtures("endpoint")
def test_a_judge_that_was_never_aligned_is_not_loaded():
    tone_judge().register()
    with pytest.raises(MlflowException, match="never aligned by memalign"):
        load("tone")


@pytest.mark.usefixtures("endpoint")
def test_a_judge_that_mlflow_aligned_learns_anew_from_its_traces(caplog):
    class MemoryAugmentedJudge:  # as MLflow's own, whose import needs DSPy
        name = "tone"
        _base_judge = tone_judge()

    aligned = MemAlignOptimizer().align(MemoryAugmentedJudge(), fetched(lesson(1)))
    assert rules_of(aligned) == ["case 1 is unkind"]
    assert "guidelines are distilled again from these traces" in caplog.text


def test_one_of_our_records_does_not_break_listings(aligned):
    aligned.register()
    other = {"instructions": "another text {{ outputs }}"}
    for changes, why in (
        ({"omitted": 5}, "damaged"),
        (other, "edited after it was aligned"),
    ):
        record = record_of("tone")
        record["instructions_judge_pydantic_data"]["memalign"] |= changes
        _get_store().register_scorer(
            mlflow.tracking.fluent._get_experiment_id(), "tone", json.dumps(record)
        )
        (listed,) = scorers.list_scorers()
        assert type(listed) is InstructionsJudge
        assert listed.instructions == aligned.instructions
        with pytest.raises(MlflowException, match=why):
            load("tone")
        aligned.register()
    assert load("tone", version=1).memalign_judge == aligned.memalign_judge


def test_all_settings_survive_align_and_registration_but_headers(
    endpoint, store, tmp_path, monkeypatch
):
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
    tables = Path(store.removeprefix("sqlite:///")).parent.glob("mlflow.db*")
    for file in (*tables, *tmp_path.rglob("*.*")):
        assert b"theirs alone" not in file.read_bytes()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    loaded = load("tone", extra_headers={"Authorization": "given again"})
    for learned in (aligned, loaded):
        has_its_settings(learned)
        assert learned._optimizer == optimizer
    result = mlflow.genai.evaluate(data=[item(1), item(9)], scorers=[loaded])
    assert (result.metrics["tone/mean"], result.metrics["tone/max"]) == (0.5, 1.0)
    assert endpoint.requests[-1]["temperature"] == 0.2
    assert endpoint.headers[-1]["authorization"] == "given again"


def has_its_settings(learned):
    assert learned.description == "Whether we are kind"
    assert learned.aggregations == ["mean", "max"]
    assert getattr(learned, "timeout", 7) == 7
    assert learned.memalign_judge.parameters == {"temperature": 0.2, "timeout": 20}


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("name", ["team/tone", "tone\\warm", "t" * 150])
def test_any_name_that_mlflow_takes_is_kept(name: str):
    taught(lesson(1, name=name), name=name).register()
    (listed,) = scorers.list_scorers()
    assert listed.name == name
    loaded = load(name)
    verdict = loaded(inputs="q", outputs="answer 1")
    assert (verdict.name, verdict.value) == (name, False)
    assert len(rules_of(loaded.align(fetched(lesson(2, name=name))))) == 2


# -- a process without memalign ----------------------------------------------------

READ = """
import json, sys
sys.modules["memalign"] = None
import mlflow
from mlflow.genai.scorers import get_scorer, list_scorers
mlflow.set_tracking_uri(sys.argv[1])
mlflow.set_experiment(experiment_id=sys.argv[2])
judge = get_scorer(name="tone")
kind = type(judge).__name__
(listed,) = list_scorers()
one = judge(inputs={"question": "question 1"}, outputs="answer 1").value
nine = judge(inputs={"question": "question 9"}, outputs="answer 9").value
print("TOLD" + json.dumps([kind, listed.name, judge.instructions, one, nine]))
"""


@pytest.mark.slow
def test_plain_mlflow_loads_and_runs_what_memalign_registered(
    endpoint: Endpoint, store: str, experiment: str
):
    aligned = taught(lesson(1))
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
    found = json.loads(done.stdout.partition("TOLD")[2])
    assert found == ["InstructionsJudge", "tone", aligned.instructions, False, True]


@pytest.mark.usefixtures("endpoint")
def test_a_guidelines_braces_name_no_field():
    aligned = taught(lesson("{{ mood }}"))
    assert rules_of(aligned) == ["case {{ mood }} is unkind"]
    aligned.register()
    assert "case { { mood } } is unkind" in scorers.get_scorer(name="tone").instructions
    assert load("tone").instructions == aligned.instructions
