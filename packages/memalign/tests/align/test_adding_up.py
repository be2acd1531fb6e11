"""From comments to a verdict that adds up: checks are written, answered, weighed, named, and forgotten with their comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from memalign import Example, Judge, Judgment, MemAlign, aio
from memalign.models.base import ChatRequest, Limits, Question
from memalign.testing import ScriptedChatModel, ScriptedDecisionModel
from tests.support.scripted import by_kind, change, records_in, scripted

DATE, ABOUT = "Does the reply name a day?", "Is the reply about a delivery?"
KINDS = ["check model", "decision model"]


def row(number: int) -> dict[str, Any]:
    dated = number % 2 == 0
    return {
        "id": f"t-{number}",
        "source": "ana",
        "inputs": f"Where is parcel {number}?",
        "outputs": f"It comes on {number + 1} May." if dated else f"It comes soon, {number}.",
        "value": dated,
        "rationale": "Names the day." if dated else "Which day?",
    }


def distilled(request: ChatRequest) -> Any:
    """One rule a comment."""
    dated = "Names the day" in request.user
    checks = [{"question": DATE, "answer": "yes" if dated else "no"}, {"question": ABOUT, "answer": "yes"}]
    text = "When a customer asks when, a reply with the day is good." if dated else "Without a day a reply is bad."
    return {"changes": [change("ADD", name, text=text, checks=checks) for name in records_in(request)]}


def decide(state: str, question: Question) -> Any:
    """One that sees a day where it is asked for one, and gives a verdict that tells nothing."""
    if question.key == "value":
        return {"true": 0.8, "false": 0.2}
    return (0.95 if " May" in state.rsplit("outputs:", 1)[1] else 0.05) if question.text == DATE else 0.9


def taught(kind: str, numbers: Iterable[int] = range(24)) -> Judge:
    chat = ScriptedChatModel(by_kind(changes=distilled), limits=Limits(shard_size=1))
    decisions = ScriptedDecisionModel(decide)
    models = {"model": decisions} if kind == "decision model" else {"model": chat, "check_model": decisions}
    judge, _ = scripted(instructions="Is the reply good?\n{{ inputs }}\n{{ outputs }}", retrieval_k=0, **models)
    rows, optimizer = [row(number) for number in numbers], MemAlign(reflection_model=chat)
    first = aio.run(optimizer.align(judge, rows[::2])).judge  # what has guidelines judges the rest before it is taught
    before = {each["id"]: Judgment(id=each["id"], value=True, memory_hash=first.memory.hash) for each in rows[1::2]}
    return aio.run(optimizer.align(first, rows[1::2], own_verdicts=before)).judge


def judged(judge: Judge, outputs: str) -> Judgment:
    return judge(Example(id="new", inputs="Where is my bicycle?", outputs=outputs))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_taught_decides_and_is_named(kind: str) -> None:
    judge = taught(kind)
    made = judged(judge, "It comes on 9 May.")
    assert (made.value, made.own_value) == (True, True)
    made = judged(judge, "It comes quickly.")
    assert (made.value, made.own_value, made.decided_by) == (False, True, "calibrator")
    first = next(finding for finding in made.findings if finding.guideline)
    assert (first.check, first.answer) == (DATE, "no")
    assert first.contribution is not None
    assert first.contribution > 0.5
    assert (made.confidence or 0.0) > 0.5
    assert str(first.taught_by[0]).endswith("@ana")
    assert str(first).startswith(f"{first.guideline} (")
    assert f"{first.contribution:+.1f}" in str(first)
    assert made.rationale is not None
    assert "The model's own verdict: true." in made.rationale
    assert any(each.guideline is None for each in made.findings), "what nobody taught is named as what it is"


@pytest.mark.parametrize("kind", KINDS)
def test_one_label_throughout_leaves_the_model_to_decide(kind: str) -> None:
    made = judged(taught(kind, range(0, 24, 2)), "It comes quickly.")
    assert (made.value, made.own_value, made.decided_by) == (True, True, "model")
