"""Instructions that name a part of a field."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from memalign import Example, Judge
from memalign.errors import InputError, InvalidRows
from memalign.judge import named_parts
from memalign.testing import ScriptedChatModel
from tests.support.rows import RawRow
from tests.support.scripted import Teacher, change, scripted


def judge(says: Any = True, **changes: Any) -> tuple[Judge, ScriptedChatModel]:
    return scripted({"rationale": "r", "value": says}, **changes)


QUESTION = (
    "Does the reply answer?\n"
    "Question: {{ inputs.question }}\nReply: {{ outputs[0].text }}"
)
ITEM: RawRow = {
    "inputs": {"question": "Where is it?", "user": "u-7"},
    "outputs": [{"text": "In transit.", "score": 0.5}],
}


def test_only_the_part_is_shown() -> None:
    one, model = judge(instructions=QUESTION)
    one(**ITEM)
    asked = model.requests[0]
    assert 'inputs.question: "Where is it?"' in asked.user
    assert 'outputs[0].text: "In transit."' in asked.user
    assert "u-7" not in asked.user
    assert "such as {{ inputs.question }}, refers to that field" in asked.system
    assert QUESTION in asked.system
    assert one.fields == ("inputs", "outputs")
    assert named_parts(one.instructions) == ("inputs.question", "outputs[0].text")


@pytest.mark.parametrize(
    ("item", "why"),
    [
        (
            ITEM | {"inputs": "Where is it?"},
            "{{ inputs.question }}, and the item has none: inputs has no such part",
        ),
        (
            ITEM | {"inputs": {"query": "?"}},
            "{{ inputs.question }}, and the item has none: inputs has query",
        ),
        (
            ITEM | {"outputs": []},
            "{{ outputs[0].text }}, and the item has none: outputs has no such part",
        ),
    ],
)
def test_an_item_without_the_part_costs_no_call(item: RawRow, why: str) -> None:
    one, model = judge(instructions=QUESTION)
    with pytest.raises(InputError) as caught:
        one(Example(id="t-3", **item))
    assert str(caught.value) == f"t-3: the instructions name {why}"
    whole, lacking = one.judge_many([{"id": "t-4", **ITEM}, {"id": "t-3", **item}])
    assert whole.error is None
    assert f"t-3: the instructions name {why}" in str(lacking.error)
    assert len(model.requests) == 1


def test_feedback_is_learned_and_shown_by_its_parts() -> None:
    one, model = scripted(
        Teacher([change("ADD", "F1", text="Say when.")]), instructions=QUESTION
    )
    row = {
        "id": "t-1",
        **ITEM,
        "value": False,
        "rationale": "No date.",
        "source": "ana",
    }
    lacking = row | {"id": "t-2", "inputs": {"query": "no question"}}
    why = r"instructions name \{\{ inputs.question \}\}, and the row has none"
    with pytest.raises(InvalidRows, match=why):
        one.align([row, lacking])
    aligned = one.align([row]).judge
    (distilled,) = model.requests
    assert "inputs.question: " in distilled.user
    assert "u-7" not in distilled.user
    aligned(inputs={"question": "When?", "user": "u-8"}, outputs=[{"text": "Soon."}])
    asked = model.requests[-1].user
    assert 'outputs[0].text: "In transit."' in asked  # the similar case
    assert "u-7" not in asked


def test_sides_may_be_named_by_their_parts() -> None:
    one, model = judge(
        "A",
        instructions="Which answers better? {{ outputs.A.text }} or {{ outputs.B.text }}",
        feedback_value_type=Literal["A", "B"],
        parameters={"swap": True},
    )
    one(outputs={"B": {"text": "second"}, "A": {"text": "first"}})
    as_it_is, swapped = model.requests
    assert 'outputs.A.text: "first"\noutputs.B.text: "second"' in as_it_is.user
    assert 'outputs.A.text: "second"\noutputs.B.text: "first"' in swapped.user
