"""MLflow's review queues and experts on our page teach the same judge, and MLflow has it all."""

from __future__ import annotations

from typing import Any

import mlflow
import pytest
from mlflow.entities import Feedback
from mlflow.exceptions import MlflowException

import memalign as ma
from memalign.integrations.mlflow import log_feedback
from tests.support.endpoint import Endpoint
from tests.support.mlflow_world import (
    fetched,
    refused,
    rules_of,
    says,
    taught,
    traced,
)


def assessments(trace_id: str) -> list[tuple[str, Any, str | None, bool]]:
    found = []
    for each in mlflow.get_trace(trace_id).info.assessments:
        valid = each.valid is not False
        found.append((each.source.source_id, each.value, each.rationale, valid))
    return sorted(found)


def test_experts_feedback_is_logged_once_and_changes_override():
    one = traced(1)
    two = traced(2)
    # Words about something else, and a program's, stay as they are.
    says(one, True, "fine", by="ana", name="safety")
    says(one, True, "fine", by="ana", kind="LLM_JUDGE")
    fine = [("ana", True, "fine", True)] * 2
    rows = [
        ma.Feedback(id=one, value=False, rationale="Too cold.", source="ana"),
        ma.Feedback(id=one, value=True, source="ben"),
        ma.Feedback(id=two, rationale="Names no day.", source="ana"),
        ma.Feedback(id="tr-gone", value=True, source="ana"),
    ]
    alone = keeps_words_alone()
    for outcome in ("logged", "unchanged"):
        assert log_feedback(rows, name="tone") == {
            f"{one}@ana": outcome,
            f"{one}@ben": outcome,
            f"{two}@ana": outcome if alone else "unlabelled",
            "tr-gone@ana": "missing",
        }
    assert assessments(one) == [
        ("ana", False, "Too cold.", True),
        *fine,
        ("ben", True, None, True),
    ]
    comment = ("ana", None, "Names no day.", True)
    assert assessments(two) == ([comment] if alone else [])
    changed = ma.Feedback(
        id=one, value=False, rationale="Too cold, and late.", source="ana"
    )
    assert log_feedback([changed], name="tone") == {f"{one}@ana": "overridden"}
    assert log_feedback([changed], name="tone") == {f"{one}@ana": "unchanged"}
    assert assessments(one) == [
        ("ana", False, "Too cold, and late.", True),
        ("ana", False, "Too cold.", False),
        *fine,
        ("ben", True, None, True),
    ]


def keeps_words_alone() -> bool:
    """MLflow's older versions want a value."""
    try:
        Feedback(rationale="Names no day.")
    except MlflowException:
        return False
    return True


def test_a_comment_that_mlflow_cannot_keep_costs_itself(
    monkeypatch: pytest.MonkeyPatch,
):
    known = "memalign.integrations.mlflow.assessments._keeps_words_alone"
    monkeypatch.setattr(known, lambda: False)
    one = traced(1)
    rows = [
        ma.Feedback(id=one, rationale="Names no day.", source="ana"),
        ma.Feedback(id=one, value=True, source="ben"),
    ]
    said = {f"{one}@ana": "unlabelled", f"{one}@ben": "logged"}
    assert log_feedback(rows, name="tone") == said


def test_a_later_word_in_mlflow_is_not_overridden_by_an_earlier_one():
    trace_id = traced(1)

    def logged(day: int, comment: str) -> str:
        said = ma.Feedback(
            id=trace_id,
            value=False,
            rationale=comment,
            source="ana",
            created_at=f"2020-01-0{day}T00:00:00Z",
        )
        return log_feedback([said], name="tone")[f"{trace_id}@ana"]

    assert logged(1, "Too cold.") == "logged"
    # Though the first was logged long after it was said.
    assert logged(2, "Cold, and late.") == "overridden"
    assert logged(1, "Too cold.") == "newer"
    says(trace_id, True, "On second thoughts it is kind.")
    before = assessments(trace_id)
    assert logged(2, "Cold, and late.") == "newer"
    assert assessments(trace_id) == before


def test_a_judges_memory_goes_to_mlflow_and_teaches_from_there(endpoint: Endpoint):
    trace_id = traced(1)
    judge = ma.Judge(
        name="tone",
        instructions="Kind? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model="openai:small",
    )
    row = {
        "id": trace_id,
        "inputs": "question 1",
        "outputs": "answer 1",
        "source": "ana",
        "value": False,
        "rationale": "say: case 1 is unkind",
    }
    here = judge.align([row]).judge
    assert log_feedback(here) == {f"{trace_id}@ana": "logged"}
    aligned = taught(trace_id)
    assert rules_of(aligned) == ["case 1 is unkind"]
    before = len(endpoint.requests)
    assert log_feedback(aligned.memalign_judge) == {f"{trace_id}@ana": "unchanged"}
    assert log_feedback(aligned) == {f"{trace_id}@ana": "unchanged"}
    assert aligned.align(fetched(trace_id)) is aligned
    assert len(endpoint.requests) == before


def test_what_is_no_feedback_or_has_no_name_is_refused():
    row: Any = ma.Feedback(id="tr-1", value=True)
    for rows, name in (
        ([row], ""),
        ([{"id": "tr-1", "value": True}], "tone"),
        (row, "tone"),
        (None, "tone"),
    ):
        with refused("log_feedback (needs the assessments' name|takes a judge)"):
            log_feedback(rows, name=name)


@pytest.mark.usefixtures("endpoint")
def test_a_review_queues_answers_teach():
    queues = pytest.importorskip("mlflow.genai.review_queues")
    from mlflow.genai.label_schemas import InputPassFail, create_label_schema

    one = traced(1)
    choice = InputPassFail(positive_label="Kind", negative_label="Unkind")
    schema = create_label_schema(
        name="tone", type="feedback", input=choice, enable_comment=True
    )
    queue = queues.create_review_queue(
        "experts", queue_type="custom", users=["ana"], schema_ids=[schema.schema_id]
    ).queue_id
    queues.add_items_to_review_queue(queue, item_ids=[one, traced(2)])
    # What the queue's page does with an answer.
    says(one, False, "say: case 1 is unkind", by="ana")
    queues.set_review_queue_item_status(
        queue, item_id=one, status="complete", completed_by="ana"
    )
    (reviewed,) = queues.list_review_queue_items(queue, status="complete")
    aligned = taught(reviewed.item_id)
    assert rules_of(aligned) == ["case 1 is unkind"]
    (episode,) = aligned._episodic_memory
    assert (episode._trace_id, episode.source) == (one, "ana")
