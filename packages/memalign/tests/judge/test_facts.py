"""What tests of guidelines find in an item is said before the item, and listed in the judgment; it costs no call."""

from __future__ import annotations

from typing import Any

from memalign import Check, Guideline, Judge
from memalign.judge.code_tests import sentence
from memalign.memory import Memory
from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedChatModel
from memalign.types import CodeTest
from tests.support.keys import keys

NUMBER = CodeTest(kind="shape", text="KD/4821")
TAUGHT = Memory(
    guidelines=(
        Guideline(
            id="G1",
            text="A reply without the order's number is bad.",
            supported_by=keys("t-1@ana"),
            checks=(Check(question=sentence(NUMBER), test=NUMBER),),
        ),
    )
)


def judge(value_type: Any = bool, answer: Any = True, **limits: Any) -> tuple[Judge, list[ChatRequest]]:
    model = ScriptedChatModel(lambda _: {"rationale": "r", "value": answer}, limits=Limits(**limits))
    one = Judge(
        name="orders", instructions="Good? {{ outputs }}", feedback_value_type=value_type, model=model, memory=TAUGHT
    )
    return one, model.requests


def test_facts_stand_before_the_item_and_are_findings() -> None:
    one, requests = judge()
    made = one(outputs="It is HN/1234.")
    (fact,) = made.findings
    assert (fact.guideline, fact.check, fact.answer, fact.probability) == ("G1", sentence(NUMBER), "yes", 1.0)
    assert fact.taught_by == keys("t-1@ana")
    user = requests[0].user
    assert f"- G1: {sentence(NUMBER)}: yes\n" in user
    assert user.index(sentence(NUMBER)) < user.index("Now judge this item:") < user.index("HN/1234")
    assert sentence(NUMBER) not in requests[0].system
    assert made.usage.calls == 1


def test_each_side_of_a_pair_has_its_own() -> None:
    one, requests = judge("A|B", "A")
    made = one(outputs={"A": "It is HN/1234.", "B": "It is on its way."})
    assert [(each.check[:2], each.answer) for each in made.findings] == [("A:", "yes"), ("B:", "no")]
    assert f"- G1: B: {sentence(NUMBER)}: no" in requests[0].user


def test_a_weak_model_is_told_no_names_of_guidelines() -> None:
    one, requests = judge(brief=True)
    one(outputs="It is HN/1234.")
    assert f"- {sentence(NUMBER)}: yes\n" in requests[0].user


def test_a_memory_without_tests_says_nothing_of_them() -> None:
    one, requests = judge()
    one.replace(memory=Memory())(outputs="x")
    assert requests[0].user == '<<<\noutputs: "x"\n>>>'
