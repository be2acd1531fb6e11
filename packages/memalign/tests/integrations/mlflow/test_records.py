"""Aligned judges in MLflow's registry: small records that plain MLflow reads, and everything back here."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlflow
import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai import scorers
from mlflow.genai.judges.instructions_judge import InstructionsJudge
from mlflow.tracking._tracking_service.utils import _get_store

import memalign as ma
from memalign.integrations.mlflow import MemAlignJudge, MemAlignOptimizer, as_scorer, load
from tests.support.mlflow_world import INSTRUCTIONS, fetched, lesson, says, tone_judge

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint


@pytest.fixture
def aligned(endpoint: Endpoint) -> MemAlignJudge:
    judge: MemAlignJudge = tone_judge().align(fetched(lesson(1), lesson(2)), MemAlignOptimizer(retrieval_k=3))
    return judge


def record_of(name: str) -> dict[str, Any]:
    found = _get_store().get_scorer(mlflow.tracking.fluent._get_experiment_id(), name)
    record: dict[str, Any] = json.loads(found._serialized_scorer)
    return record


def test_a_registered_judge_returns_with_its_whole_memory(aligned):
    registered = aligned.register()
    assert registered.status.value == "STOPPED"
    assert [each.name for each in scorers.list_scorers()] == ["tone"]
    loaded = load("tone")
    assert isinstance(loaded, MemAlignJudge)
    assert loaded.instructions == aligned.instructions
    assert len(loaded._semantic_memory) == len(loaded._episodic_memory) == 2
    assert loaded.memalign_judge == aligned.memalign_judge
    assert loaded(inputs={"question": "question 1"}, outputs="answer 1").value is False
    assert loaded.align(fetched(*aligned._episodic_trace_ids)) is loaded
    scorers.delete_scorer(name="tone", version="all")
    assert scorers.list_scorers() == []


def test_the_record_is_mlflows_own_and_small(aligned):
    aligned.register()
    record = record_of("tone")
    data = record["instructions_judge_pydantic_data"]
    assert record["memory_augmented_judge_data"] is None
    assert (data["model"], data["instructions"]) == ("openai:/small", aligned.instructions)
    own = data["memalign"]
    assert own["instructions"] == INSTRUCTIONS
    assert own["episodic_trace_ids"] == aligned._episodic_trace_ids
    assert [set(each) for each in own["semantic_memory"]] == [{"guideline_text", "source_trace_ids"}] * 2
    assert set(own) >= {"run_id", "artifact", "checksum"}
    assert "say: case" not in json.dumps(record)
    assert len(json.dumps(record)) < 4000


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
    aligned.register()
    aligned.align(fetched(lesson(3))).register()
    (listed,) = scorers.list_scorers()
    first = scorers.get_scorer(name="tone", version=1)
    assert [type(each) for each in (listed, first)] == [InstructionsJudge] * 2
    assert first.instructions == aligned.instructions
    assert load(first).memalign_judge == aligned.memalign_judge
    assert len(load(listed)._semantic_memory) == 3
    assert load(aligned) is aligned


def test_another_name_is_another_scorer(aligned):
    aligned.register(name="warmth")
    loaded = load("warmth")
    assert (loaded.name, loaded.memalign_judge.name) == ("warmth", "warmth")
    assert loaded(inputs="q", outputs="answer 9").name == "warmth"
    assert aligned.name == "tone"


def test_settings_and_address_survive_without_headers(endpoint, monkeypatch):
    judge = tone_judge(
        base_url=endpoint.base_url, extra_headers={"Authorization": "secret"}, inference_params={"temperature": 0.2}
    )
    optimizer = MemAlignOptimizer(parameters={"samples": 2}, authority=["ana"], shard_size=2)
    judge.align(fetched(lesson(1)), optimizer).register()
    assert "secret" not in json.dumps(record_of("tone"))
    loaded = load("tone", extra_headers={"Authorization": "given again"})
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    loaded(inputs="q", outputs="answer 9")
    assert endpoint.requests[-1]["temperature"] == 0.2
    assert endpoint.headers[-1]["authorization"] == "given again"
    assert loaded._optimizer == optimizer
    assert loaded.memalign_judge.parameters == {"temperature": 0.2, "samples": 2}


def test_a_memory_that_is_gone_is_made_again_on_request(aligned, tmp_path):
    aligned.register()
    run_id = record_of("tone")["instructions_judge_pydantic_data"]["memalign"]["run_id"]
    for file in Path(tmp_path).rglob("judge.json"):
        file.unlink()
    with pytest.raises(MlflowException, match=f"{run_id}.*rebuild=True"):
        load("tone")
    again = load("tone", rebuild=True)
    assert again.instructions == aligned.instructions
    assert len(again._episodic_memory) == 2
    assert again(inputs="q", outputs="answer 1").value is False


def test_a_memory_that_was_changed_is_refused(aligned, tmp_path):
    aligned.register()
    (file,) = Path(tmp_path).rglob("judge.json")
    file.write_text(file.read_text().replace("case 1 is unkind", "case 1 is lovely"))
    with pytest.raises(MlflowException, match="damaged or was edited"):
        load("tone")


def test_a_refused_judge_leaves_no_run(aligned, experiment, monkeypatch):
    def refuse(*_: Any, **__: Any) -> None:
        raise MlflowException("no room")

    monkeypatch.setattr(type(_get_store()), "register_scorer", refuse)
    with pytest.raises(MlflowException, match="no room"):
        aligned.register()
    assert mlflow.search_runs([experiment], output_format="list") == []


def test_without_write_access_to_artifacts_registering_says_so(aligned, tmp_path):
    wall = tmp_path / "a file"
    wall.write_text("no folder")
    closed = mlflow.create_experiment(f"closed {tmp_path}", artifact_location=(wall / "artifacts").as_uri())
    with pytest.raises(MlflowException, match=r"its memory cannot be written to the artifacts .*Registry\(\)\.save"):
        aligned.register(experiment_id=closed)
    assert mlflow.search_runs([closed], output_format="list") == []
    assert scorers.list_scorers(experiment_id=closed) == []


def test_without_an_experiment_registering_says_so(aligned):
    with pytest.raises(MlflowException, match=r"no run can be made in experiment 987654 .*Registry\(\)\.save"):
        aligned.register(experiment_id="987654")


# -- from MLflow's optimizer, from our registry, and back -------------------------------------------------------------------


def theirs(judge: Any, trace_ids: list[str], guidelines: list[dict[str, Any]]) -> None:
    """What MLflow's own optimizer leaves in the registry."""
    dump = judge.model_dump()
    data = {
        "base_judge": dump,
        "episodic_trace_ids": trace_ids,
        "semantic_memory": guidelines,
        "reflection_lm": "openai:/large",
        "retrieval_k": 4,
        "embedding_model": "openai:/embed",
        "embedding_dim": 512,
    }
    record = {**dump, "instructions_judge_pydantic_data": None, "memory_augmented_judge_data": data}
    _get_store().register_scorer(mlflow.tracking.fluent._get_experiment_id(), judge.name, json.dumps(record))


def test_an_adopted_mlflow_judge_learns_and_forgets(endpoint, caplog):
    one, two = lesson(1), lesson(2)
    theirs(
        tone_judge(),
        [one, two, "tr-gone"],
        [
            {"guideline_text": "case 1 is unkind", "source_trace_ids": [one]},
            {"guideline_text": "case 2 is unkind", "source_trace_ids": [one, two]},
            {"guideline_text": "case 5 is unkind", "source_trace_ids": None},
            {"guideline_text": "from a trace that is gone", "source_trace_ids": ["tr-gone"]},
        ],
    )
    with caplog.at_level(logging.WARNING):
        adopted = load("tone")
    assert "1 traces are gone" in caplog.text
    assert [each.guideline_text for each in adopted._semantic_memory] == [
        "case 1 is unkind",
        "case 2 is unkind",
        "case 5 is unkind",
    ]
    assert adopted(inputs="q", outputs="answer 5").value is False
    seen = adopted(inputs={"question": "question 2"}, outputs="answer 2").metadata["retrieved_example_trace_ids"]
    assert two in seen  # similar cases are there at once
    assert endpoint.embedding_requests == []
    more = adopted.align(fetched(one, two, lesson(3)))
    assert len(more._semantic_memory) == 4
    forgot = more.unalign([two])
    assert {each.guideline_text for each in forgot._semantic_memory} == {
        "case 1 is unkind",
        "case 3 is unkind",
        "case 5 is unkind",
    }


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"omitted": 5}, "damaged"),
        ({"instructions": "another text {{ outputs }}"}, "edited after it was aligned"),
    ],
)
def test_one_of_our_records_does_not_break_listings(aligned, changes, why):
    aligned.register()
    record = record_of("tone")
    record["instructions_judge_pydantic_data"]["memalign"] |= changes
    _get_store().register_scorer(mlflow.tracking.fluent._get_experiment_id(), "tone", json.dumps(record))
    (listed,) = scorers.list_scorers()
    assert type(listed).__name__ == "InstructionsJudge"
    assert listed.instructions == aligned.instructions
    with pytest.raises(MlflowException, match=why):
        load("tone")
    assert load("tone", version=1).memalign_judge == aligned.memalign_judge


def test_a_judge_moves_to_our_registry_and_back(aligned, tmp_path):
    registry = ma.Registry(f"sqlite:///{tmp_path / 'judges.db'}")
    registry.save(aligned.memalign_judge)
    back = as_scorer(registry.load("tone"))
    assert back.instructions == aligned.instructions
    back.register(name="back")
    assert load("back").memalign_judge.memory == aligned.memalign_judge.memory


def test_any_judge_is_a_scorer_with_its_scale(endpoint):
    endpoint.answer = {"rationale": "r", "value": 4}
    judge = ma.Judge(
        name="quality", feedback_value_type="int:1..5", model="openai:small", instructions="How good is {{ outputs }}?"
    )
    score = as_scorer(judge)
    assert score.feedback_value_type is int
    result = mlflow.genai.evaluate(data=[{"inputs": {"q": "x"}, "outputs": "a"}], scorers=[score])
    assert list(result.result_df["quality/value"]) == [4]
    score.register()
    assert load("quality").memalign_judge.value_type.spec == "int:1..5"


def test_a_conversation_judge_is_a_session_scorer(endpoint):
    judge = ma.Judge(
        name="resolved", feedback_value_type=bool, model="openai:small", instructions="Resolved? {{ conversation }}"
    )
    score = as_scorer(judge)
    assert score.is_session_level_scorer
    endpoint.answer = {"rationale": "r", "value": True}
    ids = []
    for n in (1, 2):
        with mlflow.start_span("turn") as span:
            mlflow.update_current_trace(metadata={"mlflow.trace.session": "s-1"})
            span.set_inputs({"question": f"question {n}"})
            span.set_outputs(f"answer {n}")
        ids.append(span.trace_id)
    assert score(session=fetched(*ids)).value is True
    assert "answer 2" in str(endpoint.requests[-1])


def test_alignments_are_runs_where_that_is_asked_for(endpoint, experiment):
    tone_judge().align(fetched(lesson(1)), MemAlignOptimizer(log_run=True))
    (run,) = mlflow.search_runs([experiment], output_format="list")
    assert run.data.metrics["feedback.learned"] == 1
    assert run.data.metrics["guidelines.in_force"] == 1
    assert run.data.params["judge"] == "tone"
    report = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/memalign/report.json")
    assert [rule["text"] for rule in report["guidelines"]] == ["case 1 is unkind"]
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/memalign/report.html")
    assert page.startswith("<!doctype html>")
    assert "case 1 is unkind" in page
    assert "- **G1** case 1 is unkind" in run.data.tags["mlflow.note.content"]


@pytest.mark.usefixtures("endpoint")
def test_a_runs_page_escapes_what_people_wrote(experiment):
    trace_id = lesson("<script>alert(1)</script>")
    tone_judge().align(fetched(trace_id), MemAlignOptimizer(log_run=True))
    (run,) = mlflow.search_runs([experiment], output_format="list")
    page = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/memalign/report.html")
    for shown in (page, run.data.tags["mlflow.note.content"]):
        assert "<script" not in shown
