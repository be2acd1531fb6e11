"""What tests of guidelines find in an item is said before the item, and listed in the judgment; it costs no call."""

from __future__ import annotations

from typing import Any

from memalign import Check, Guideline, Judge
from memalign.judge.code_tests import sentence
from memalign.memory import Memory
from memalign.models.base import ChatRequest, Limits
from memalign.types import CodeTest
from tests.support.keys import keys
from tests.support.scripted import scripted

NUMBER, SORRY = CodeTest(kind="shape", text="KD/4821"), CodeTest(kind="word", text="sorry")


def guideline(number: int, *tests: CodeTest) -> Guideline:
    """One with a question beside its tests."""
    checks = (Check(question="Is it kind?"), *(Check(question=sentence(test), test=test) for test in tests))
    return Guideline(id=f"G{number}", text=f"Rule {number}.", supported_by=keys(f"t-{number}@ana"), checks=checks)


TAUGHT = Memory(guidelines=(guideline(1, NUMBER), guideline(2, NUMBER, SORRY)))


def judge(answer: Any = True, *, value_type: Any = bool, **limits: Any) -> tuple[Judge, list[ChatRequest]]:
    reply = {"rationale": "r", "value": answer}
    one, model = scripted(reply, limits=Limits(**limits), feedback_value_type=value_type, memory=TAUGHT)
    return one, model.requests


def test_facts_stand_before_the_item_and_are_findings() -> None:
    one, requests = judge()
    made = one(outputs="It is HN/1234.")
    fact, sorry = made.findings
    assert (fact.guideline, fact.check, fact.answer, fact.probability) == ("G1", sentence(NUMBER), "yes", 1.0)
    assert (sorry.guideline, sorry.check, sorry.answer, sorry.probability) == ("G2", sentence(SORRY), "no", 0.0)
    assert fact.taught_by == keys("t-1@ana", "t-2@ana")
    user = requests[0].user
    assert f"- G1: {sentence(NUMBER)}: yes\n" in user
    assert user.index(sentence(NUMBER)) < user.index("Now judge this item:") < user.index("HN/1234")
    assert sentence(NUMBER) not in requests[0].system
    assert made.usage.calls == 1


def test_each_side_of_a_pair_has_its_own() -> None:
    one, requests = judge("A", value_type="A|B")
    made = one(outputs={"A": "It is HN/1234.", "B": "It is on its way."})
    sides = [(each.check[:2], each.answer) for each in made.findings]
    assert sides == [("A:", "yes"), ("B:", "no"), ("A:", "no"), ("B:", "no")]
    assert f"- G1: B: {sentence(NUMBER)}: no" in requests[0].user


def test_a_weak_model_is_told_no_names_of_guidelines() -> None:
    one, requests = judge(brief=True)
    one(outputs="It is HN/1234.")
    assert f"- {sentence(NUMBER)}: yes\n" in requests[0].user


def test_facts_are_of_the_item_as_it_stands_whoever_read_it_swapped() -> None:
    verdicts = iter(["tie", "A", "A", "A"])  # the last two are of the swapped item, and decide
    one, _ = scripted(
        lambda _: {"rationale": "r", "value": next(verdicts)},
        feedback_value_type="A|B|tie",
        memory=TAUGHT,
        parameters={"swap": True, "samples": 2},
    )
    made = one(outputs={"A": "It is on its way.", "B": "HN/1234"})
    assert (made.value, made.rationale) == ("B", "With A and B swapped: r")
    assert (f"B: {sentence(NUMBER)}", "yes") in {(finding.check, finding.answer) for finding in made.findings}
