"""An MLflow judge learns from the feedback in traces, more of it later, and forgets it again."""

from __future__ import annotations

import re

import mlflow
import pytest
from mlflow.entities import Feedback
from mlflow.exceptions import MlflowException

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.endpoint import bad_request
from tests.support.mlflow_world import (
    INSTRUCTIONS,
    fetched,
    item,
    lesson,
    refused,
    says,
    taught,
    tone_judge,
    traced,
)


def test_a_verdict_is_mlflow_feedback_about_its_prompt(aligned):
    (trace,) = fetched(traced(1))
    feedback = aligned(trace=trace, inputs=item(1)["inputs"])
    assert isinstance(feedback, Feedback)
    assert (feedback.name, feedback.value) == ("tone", False)
    assert feedback.source.source_type == "LLM_JUDGE"
    assert feedback.trace_id == trace.info.trace_id


def test_a_verdict_says_what_was_learned_and_from_where(aligned):
    learned_from = aligned._episodic_trace_ids
    feedback = aligned(**item(1))
    assert feedback.rationale.startswith("so it is\n\nGuidelines:\n- G1 case ")
    for trace_id in learned_from:
        assert trace_id in feedback.rationale
    metadata = feedback.metadata
    assert set(metadata["retrieved_example_trace_ids"]) == set(learned_from)
    assert metadata["memalign.guideline_ids"] == ["G1", "G2"]
    assert "case 1 is unkind" in str(metadata["memalign.guidelines"])
    assert metadata["guideline"] == INSTRUCTIONS
    assert metadata["memalign.memory_hash"] == aligned.memalign_judge.memory.hash


def test_a_wrong_label_elsewhere_forgets_nothing_and_can_be_left_out(endpoint):
    one = traced(1)
    said = says(one, False, "say: case 1 is unkind", by="ana")
    says(one, False, "say: case 1 is rude", by="ben")
    aligned = taught(one)
    mlflow.delete_assessment(trace_id=one, assessment_id=said)
    says(wrong := traced(7), "perhaps", "say: nothing")
    before = len(endpoint.requests)
    with pytest.raises(MlflowException, match="use true or false"):
        aligned.align(fetched(one, wrong))
    assert len(endpoint.requests) == before
    tolerant = MemAlignOptimizer(skip_invalid=True)
    assert len(tolerant.align(aligned, fetched(one, wrong))._episodic_memory) == 1


def test_people_who_disagree_share_one_example_slot(endpoint, caplog):
    trace_id = traced(1)
    before = says(trace_id, True, "say: nothing", by="ana@example.org")
    says(trace_id, False, "say: case 1 is unkind", by="ana@example.org")
    says(trace_id, False, by="ben")
    says(trace_id, True, by="eva")
    aligned = taught(trace_id)
    labels = {
        episode.source: str(episode.result) for episode in aligned._episodic_memory
    }
    assert labels == {"ana@example.org": "False", "ben": "False", "eva": "True"}
    feedback = aligned(**item(7))
    assert feedback.metadata["retrieved_example_trace_ids"] == [trace_id]
    assert aligned.alignment.conflicts
    # The latest of a person counts, and that is noted.
    assert before in " ".join(aligned.alignment.notes)
    assert f"people differ on {trace_id}: " in caplog.text
    led = tone_judge().align(fetched(trace_id), MemAlignOptimizer(authority=["eva"]))
    memory = led.memalign_judge.memory
    assert memory.label(memory.cases[0]) is True, "authority outweighs a majority"


def test_traces_without_feedback_are_named_and_skipped(endpoint, caplog):
    without = traced(5)
    aligned = taught(without, lesson(1))
    assert len(aligned._episodic_memory) == 1
    assert f"skipped 1 of 2 traces, {without}" in caplog.text


def test_a_failed_lesson_is_learned_at_next_align(endpoint, mind, caplog):
    answer = endpoint.answer
    endpoint.answer = lambda body: "no" if "changes" in str(body) else mind.answer(body)
    traces = fetched(lesson(1), lesson(2), lesson(3))
    aligned = tone_judge().align(traces, MemAlignOptimizer())
    assert caplog.text.count("3 pieces of feedback") == 1
    (warning,) = re.findall(".*3 pieces of feedback.*", caplog.text)
    reasons = re.findall("ModelUnavailable|InvalidOutput", warning)
    assert len(reasons) == 1, "one reason is given once"
    assert (aligned._semantic_memory, len(aligned._episodic_memory)) == ([], 3)
    endpoint.answer = answer
    assert len(aligned.align(traces)._semantic_memory) == 3


def test_a_trace_already_deleted_can_be_unaligned(aligned, experiment):
    one, two = aligned._episodic_trace_ids
    mlflow.MlflowClient().delete_traces(experiment_id=experiment, trace_ids=[one])
    assert aligned.unalign([one])._episodic_trace_ids == [two]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"retrieval_k": 0}, "retrieval_k must be a positive integer"),
        ({"retrieval_k": True}, "retrieval_k must be a positive integer"),
        ({"embedding_dim": -1}, "embedding_dim must be a positive integer"),
        ({"authority": "ana"}, "authority is a list of sources"),
        ({"value_type": "int:5..1"}, "5..1"),
    ],
)
def test_an_impossible_setting_is_refused_when_given(arguments, message):
    with refused(message):
        MemAlignOptimizer(**arguments)


def test_anything_but_a_list_of_traces_is_refused(aligned):
    trace = fetched(aligned._episodic_trace_ids[0])[0]
    for traces in ([], "tr-1", ["tr-1"], None, trace):
        with refused("traces"):
            aligned.align(traces)
    for traces in ("tr-1", None, [3], trace, mlflow.search_traces()[["trace_id"]]):
        with refused("ids of traces"):
            aligned.unalign(traces)


def test_a_frame_of_traces_is_read_as_a_list_of_them(endpoint):
    ids = [lesson(1), lesson(2)]
    aligned = tone_judge().align(mlflow.search_traces(), MemAlignOptimizer())
    assert sorted(aligned._episodic_trace_ids) == sorted(ids)
    assert aligned.align(mlflow.search_traces()) is aligned
    assert aligned.unalign(mlflow.search_traces())._episodic_trace_ids == []
    assert len(endpoint.requests) == 1


def test_a_missing_field_is_the_callers_error(aligned, endpoint):
    before = len(endpoint.requests)
    with refused("needs outputs"):
        aligned(inputs="question 1")
    assert len(endpoint.requests) == before
    endpoint.answer = bad_request("no such model", status=404)  # and this one is not
    with pytest.raises(MlflowException) as error:
        aligned(inputs="question 1", outputs="answer 1")
    assert error.value.error_code == "INTERNAL_ERROR"
