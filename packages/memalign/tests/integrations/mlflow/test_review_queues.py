"""What people answer in a review queue of MLflow's teaches."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import mlflow
import pytest

from memalign.integrations.mlflow import MemAlignOptimizer
from tests.support.mlflow_world import fetched, says, tone_judge, traced

if TYPE_CHECKING:
    from tests.support.endpoint import Endpoint


@pytest.mark.skipif(find_spec("mlflow.genai.review_queues") is None, reason="this MLflow has no review queues")
@pytest.mark.parametrize("place", ["store", pytest.param("server", marks=pytest.mark.slow)])
def test_a_review_queues_answers_teach(endpoint: Endpoint, place: str, request: pytest.FixtureRequest):
    from mlflow.genai.label_schemas import InputPassFail, create_label_schema
    from mlflow.genai.review_queues import (
        add_items_to_review_queue,
        create_review_queue,
        list_review_queue_items,
        set_review_queue_item_status,
    )

    if place == "server":
        mlflow.set_tracking_uri(request.getfixturevalue("server"))
        mlflow.set_experiment(f"queue {request.node.nodeid}")
    ids = [traced(1), traced(2)]
    choice = InputPassFail(positive_label="Kind", negative_label="Unkind")
    schema = create_label_schema(name="tone", type="feedback", input=choice, enable_comment=True)
    queue = create_review_queue("experts", queue_type="custom", users=["ana"], schema_ids=[schema.schema_id])
    add_items_to_review_queue(queue.queue_id, item_ids=ids)
    says(ids[0], False, "say: case 1 is unkind", by="ana")  # what the queue's page does with an answer
    set_review_queue_item_status(queue.queue_id, item_id=ids[0], status="complete", completed_by="ana")
    reviewed = [item.item_id for item in list_review_queue_items(queue.queue_id, status="complete")]
    aligned = tone_judge().align(fetched(*reviewed), MemAlignOptimizer())
    assert [guideline.guideline_text for guideline in aligned._semantic_memory] == ["case 1 is unkind"]
    assert [(episode._trace_id, episode.source) for episode in aligned._episodic_memory] == [(ids[0], "ana")]
