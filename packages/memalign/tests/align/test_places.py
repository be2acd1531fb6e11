"""Rules about two alternatives: what was A in one item is B in the next."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalign.align.position_terms import without_positions
from memalign.content import sides_of
from memalign.models.base import ChatRequest, Limits
from tests.support.scripted import scripted

AB = ("A", "B")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("argument B gives a source", "the preferred argument gives a source"),
        ("argument A uses opinion while argument B gives facts",
         "the other argument uses opinion while the preferred argument gives facts"),
        ("the answer B is kinder than the answer A", "the preferred answer is kinder than the other answer"),
        ("A argues the wrong side while B does not", "the other one argues the wrong side while the preferred one does not"),
        ("B is impassioned", "the preferred one is impassioned"),
        ("A good point is made with a source", "A good point is made with a source"),
        ("both A and B are rude, but B is shorter", "both the other one and the preferred one are rude, but the preferred one is shorter"),
        ("it names plan B-52 and plan-B", "it names plan B-52 and plan-B"),
        ("argument A's source is better", "the other argument's source is better"),
        ("it names a price", "it names a price"),
        ("the argument in A directly addresses the issue", "the argument in the other one directly addresses the issue"),
        ("argument 2 makes that point quickly", "the preferred argument makes that point quickly"),
        ("a1 has better reasons; a2 is only loud", "the other one has better reasons; the preferred one is only loud"),
        ("A2 is kinder", "the preferred one is kinder"),
        ("the first answer is rude, the second one is not", "the other answer is rude, the preferred one is not"),
        ("arg #1 has 2 reasons, and the price is 2 euros", "the other arg has 2 reasons, and the price is 2 euros"),
    ],
)  # fmt: skip
def test_a_place_becomes_the_role_that_it_had(said: str, kept: str) -> None:
    assert without_positions(said, chosen="B", choices=AB) == kept


def test_the_roles_change_with_the_experts_choice() -> None:
    assert without_positions("answer A is kind", chosen="A", choices=AB) == "the preferred answer is kind"
    assert without_positions("response_1 is kind", chosen="response_2", choices=("response_1", "response_2")) == (
        "the other one is kind"
    )


def test_two_unchosen_places_become_one_and_the_other() -> None:
    said = "answer B and answer A say the same"
    assert without_positions(said, chosen=None, choices=AB) == "one answer and the other answer say the same"
    assert without_positions("B adds what A lacks", chosen=None, choices=AB) == "one adds what the other one lacks"


@given(
    words=st.lists(st.sampled_from(["argument", "A", "B", "is", "better", "than", "the", "both", "and"]), max_size=12)
)
def test_only_the_second_place_is_taken_out(words: list[str]) -> None:
    text = without_positions(" ".join(words), chosen="A", choices=AB)
    assert not re.search(r"\bB\b", text)
    assert [word for word in words if word in ("better", "than", "is")] == [
        word for word in text.split() if word in ("better", "than", "is")
    ]


def test_labels_name_sides_that_the_item_shows() -> None:
    pair = {"inputs": {"A": "q", "D": "r"}, "outputs": {"B": "y", "A": "x", "note": "z"}}
    assert sides_of(pair, AB) == {"B": "y", "A": "x"}
    assert sides_of(pair, (*AB, "tie")) == {"B": "y", "A": "x"}
    assert sides_of(pair, ("A", "D")) == {"A": "q", "D": "r"}
    assert sides_of({"outputs": "x"}, AB) == {}
    assert sides_of(pair, ("good", "bad")) == {}
    assert sides_of(pair, ()) == {}


@pytest.mark.parametrize(
    ("value", "when", "because", "rule"),
    [
        ("tie", "both cite the same source", "answer A and answer B say the same",
         "When both cite the same source and one answer and the other answer say the same: tie."),
        ("B", "a debate is about uniforms", "argument B gives reasons, argument A only feelings",
         "When a debate is about uniforms: the preferred argument gives reasons, the other argument only feelings."),
    ],
)  # fmt: skip
def test_a_weak_judges_rule_holds_for_either_place(value: str, when: str, because: str, rule: str) -> None:
    def answer(request: ChatRequest) -> dict[str, object]:
        if "when" in request.schema["properties"]:
            return {"when": when, "because": because}
        return {"rationale": "It is longer.", "value": "A"}

    judge, _ = scripted(answer, limits=Limits(shard_size=1, brief=True), feedback_value_type="A|B|tie")
    row = {"id": "p-1", "outputs": {"A": "x", "B": "y"}, "value": value, "rationale": "So it is."}
    (guideline,) = judge.align([row]).guidelines
    assert guideline.text == rule
