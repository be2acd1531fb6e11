"""What a guideline weighs: its questions' coefficients in plain words, or why it has none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from memalign import Judge
from memalign.align import edit_guideline
from memalign.models.base import ChatRequest
from memalign.testing import HashEmbedding, ScriptedChatModel
from memalign_server.review.weights import points, weights_of
from server_support import world
from server_support.reviewing import answer, post, put_in, wait

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "Does the reply show sympathy?"


def asking(request: ChatRequest) -> dict[str, Any]:
    """A model that passes every reply, has one rule with a question, and sees sympathy in the word `sorry`."""
    properties = request.schema["properties"]
    if "changes" in properties:
        labels = properties["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
        check = {"question": QUESTION, "answer": "no"}
        change = {
            "action": "ADD",
            "text": "Show sympathy first.",
            "feedback": labels,
            "guideline": "",
            "checks": [check],
        }
        return {"changes": [change]}
    item = request.user.rpartition("Now judge this item:")[2]
    reply: dict[str, Any] = {"rationale": "So.", "value": True}
    if "checks" in properties:
        reply["checks"] = dict.fromkeys(properties["checks"]["properties"], "yes" if "sorry" in item else "no")
    return reply


def taught(n: int) -> Judge:
    judge = world.judge("tone").replace(
        model=ScriptedChatModel(asking, name="scripted"), embedding_model=HashEmbedding()
    )
    rows = [
        {"id": f"t-{k}", "inputs": f"Order {k} is late.", "outputs": "I am sorry." if k % 2 else f"It is {k} days.",
         "value": bool(k % 2), "rationale": "Cold." if k == 0 else None}
        for k in range(n)
    ]  # fmt: skip
    return judge.align(rows).judge


def test_a_weight_is_the_calibrators_coefficient() -> None:
    judge = taught(24)
    weights = asyncio.run(weights_of(judge))
    weight = weights.by_id["G1"].coefficient
    assert weight is not None
    assert weights.fitted
    assert weight > 0.3
    assert asyncio.run(weights_of(judge.replace(parameters={"calibrate": False}))).by_id["G1"].why == "not weighed"
    retired = edit_guideline(judge, "G1", by="ana", retired=True)
    assert asyncio.run(weights_of(retired)).by_id["G1"].why == "not in force"


def test_few_labels_give_no_weight_yet(tmp_path: Path) -> None:
    from fastapi.testclient import TestClient

    world.registry(tmp_path, script=asking)
    with TestClient(world.server(tmp_path, script=asking), base_url=world.ADDRESS) as client:
        put_in(client)
        for case in ("late", "twice"):
            answer(client, case, value="false", rationale="Show sympathy first.")
        post(client, "/judges/tone/teach")
        wait(client)
        page = client.get("/judges/tone/memory").text
        assert 'id="weight-G1"' in page
        assert "/judges/tone/weights" in page
        shown = client.get("/judges/tone/weights").text
        assert "It has no weight yet: too few cases" in shown
        post(client, "/judges/tone/guidelines/new", text="Never promise a date.")
        post(client, "/judges/tone/guidelines", guideline="G1", action="retire")
        shown = client.get("/judges/tone/weights").text
        assert "it is not in use" in shown
        assert "it asks no yes-or-no question" in shown


@pytest.mark.parametrize(("log_odds", "moved"), [(0.0, 0), (1.0, 23), (-1.0, 23), (9.0, 50)])
def test_points_are_those_of_an_undecided_verdict(log_odds: float, moved: int) -> None:
    assert round(points(log_odds)) == moved
