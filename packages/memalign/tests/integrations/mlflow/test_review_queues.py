"""Review queues: what to label next goes in, what reviewers completed is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import mlflow
import pytest
from mlflow.exceptions import MlflowException

from memalign.integrations.mlflow import MemAlignOptimizer, queue_next, reviewed
from tests.support.mlflow_world import fetched, lesson, says, tone_judge, traced

review_queues = pytest.importorskip("mlflow.genai.review_queues", reason="review queues came with MLflow 3.14")
from mlflow.genai import label_schemas  # noqa: E402

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint


def queued(name: str, status: Literal["pending", "complete", "declined"] | None = None) -> set[str]:
    queue = review_queues.get_review_queue(name=name)
    return {item.item_id for item in review_queues.list_review_queue_items(queue.queue_id, status=status)}


def completed(name: str, *ids: str, status: Literal["complete", "declined"] = "complete") -> None:
    queue = review_queues.get_review_queue(name=name)
    for each in ids:
        review_queues.set_review_queue_item_status(queue.queue_id, item_id=each, status=status, completed_by="ana")


def test_what_to_label_next_becomes_a_queue(endpoint: Endpoint, experiment: str):
    aligned = tone_judge().align(fetched(lesson(1)), MemAlignOptimizer())
    fresh = [traced(n) for n in range(2, 6)]
    asked = len(endpoint.requests)
    chosen = queue_next(aligned, fetched(*aligned._episodic_trace_ids, *fresh), queue="next", n=2, users=["ana", "ben"])
    assert len(endpoint.requests) == asked + 4  # what is in memory is not judged
    assert queued("next", "pending") == {each.id for each in chosen.cases} < set(fresh)
    queue = review_queues.get_review_queue(name="next")
    assert sorted(queue.users) == ["ana", "ben"]
    question = label_schemas.get_label_schema("tone", experiment_id=experiment)
    assert queue.schema_ids == [question.schema_id]
    assert type(question.input).__name__ == "InputPassFail"
    assert question.enable_comment
    assert mlflow.get_trace(chosen.cases[0].id).info.tags["memalign.label_next"] == chosen.cases[0].reason
    more = queue_next(aligned, fetched(*fresh), queue="next", n=5)
    assert queued("next") == set(fresh)
    assert {each.id for each in more.cases}.isdisjoint(each.id for each in chosen.cases)
    with pytest.raises(MlflowException, match="nothing to put into the queue"):
        queue_next(aligned, fetched(*fresh), queue="next")


@pytest.mark.usefixtures("endpoint")
def test_only_what_reviewers_completed_is_learned():
    judge = tone_judge()
    done, refused, open_ = traced(1), traced(2), traced(3)
    queue_next(judge, fetched(done, refused, open_), queue="first")
    for each in (done, refused, open_):
        says(each, False, "say: case 1 is unkind")
    completed("first", done)
    completed("first", refused, status="declined")
    traces = reviewed(judge, queue="first")
    assert [each.info.trace_id for each in traces] == [done]
    authority = review_queues.get_review_queue(name="first").users
    aligned = judge.align(traces, MemAlignOptimizer(authority=authority))
    assert aligned(inputs={"question": "question 1"}, outputs="answer 1").value is False


@pytest.mark.usefixtures("endpoint")
def test_a_session_is_queued_once_and_whole():
    judge = tone_judge(name="service", instructions="Kind service? {{ conversation }}")
    first, second = traced(1, session="s-1"), traced(2, session="s-1")
    queue_next(judge, fetched(first, second), queue="sessions")
    assert queued("sessions") == {first}
    says(first, False, "say: case 2 is unkind", name="service")
    completed("sessions", first)
    traces = reviewed(judge, queue="sessions")
    assert {each.info.trace_id for each in traces} == {first, second}
    assert len(MemAlignOptimizer().align(judge, traces)._episodic_memory) == 1


@pytest.mark.parametrize(
    ("kind", "words", "shown"),
    [
        (Literal["good", "bad"], "Good? {{ outputs }}", {"options": ["good", "bad"]}),
        (int, "Rate 1-5 {{ outputs }}", {"min_value": 1, "max_value": 5}),
        (str, "Which tone? {{ outputs }}", {}),
    ],
)
def test_the_question_asks_for_the_judges_values(
    endpoint: Endpoint, kind: object, words: str, shown: dict[str, object]
):
    endpoint.answer = {"rationale": "so", "value": {"G": "good", "R": 3, "W": "warm"}[words[0]]}
    queue_next(tone_judge(feedback_value_type=kind, instructions=words), fetched(traced(1)), queue="values")
    (asked,) = (each.input for each in label_schemas.list_label_schemas() if each.name == "tone")
    assert {name: getattr(asked, name) for name in shown} == shown


@pytest.mark.parametrize(
    ("traces", "why"), [("tr-1", "must be a list"), ([], "no traces"), (["tr-1"], "must be Trace")]
)
def test_what_are_no_traces_is_not_queued(endpoint: Endpoint, traces: Any, why: str):
    with pytest.raises(MlflowException, match=why):
        queue_next(tone_judge(), traces, queue="none")
    assert endpoint.requests == []


def test_a_queue_that_is_not_there_is_named():
    with pytest.raises(MlflowException, match="nobody"):
        reviewed(tone_judge(), queue="nobody")


def test_labelling_sessions_are_on_databricks_alone():
    from mlflow.genai.labeling.stores import UnsupportedLabelingStoreURIException, _get_labeling_store

    with pytest.raises(UnsupportedLabelingStoreURIException, match="databricks"):
        _get_labeling_store()
