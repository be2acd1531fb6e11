"""Rules that may not enter a prompt, and several rules in one comment."""

from __future__ import annotations

from typing import Any

import pytest

from memalign.models.base import ChatRequest
from memalign.testing import Answer
from tests.support.invariants import check_memory
from tests.support.learning import bare, learn, reason, row, states
from tests.support.scripted import Teacher, change

RULE = "Be kind to whoever has waited."
COPY = "The answer to case1 is a long text of more than eight words."
COPIED = "it copies eight words of what was judged (outputs)"


def add(text: str, label: str = "F1") -> dict[str, Any]:
    return change("ADD", label, text=text)


@pytest.mark.parametrize("brief", [False, True])
def test_a_sentence_that_the_expert_demands_is_learned(brief: bool) -> None:
    demanded = "Past results do not tell future results of any fund."
    rule = f"A reply ends with the sentence: {demanded}"

    def teacher(request: ChatRequest) -> Answer:
        return {"when": "", "because": rule} if brief else {"changes": [add(rule)]}

    judge, _ = bare(teacher, brief=brief, shard_size=1 if brief else 10)
    said = {"value": True, "rationale": f"Right, it ends with what law demands: {demanded}"}
    learned = learn(judge, [row(1, "ana", "add") | {"outputs": f"Buy it now. {demanded}"} | said])
    assert states(learned.judge) == {"t-1@ana": "learned"}
    (guideline,) = learned.judge.memory.semantic
    assert demanded[:-1].casefold() in guideline.text.casefold()


@pytest.mark.parametrize(
    ("changes", "texts", "why"),
    [
        ([add(RULE), add("Name the day.")], [RULE, "Name the day."], ""),
        ([add(RULE), add(COPY)], [RULE], f"learned without one more rule from it: {COPIED}"),
        ([add(RULE), change("NOOP", "F1")], [RULE], ""),
        ([change("NOOP", "F1"), add(RULE)], [RULE], ""),
    ],
)
def test_every_rule_of_one_comment_counts(changes: list[Any], texts: list[str], why: str) -> None:
    judge, model = bare(Teacher(changes))
    learned = learn(judge, [row(1, "ana", "add")]).judge
    assert [g.text for g in learned.memory.semantic] == texts
    assert (states(learned), reason(learned, "t-1@ana")) == ({"t-1@ana": "learned"}, why)
    assert len(model.requests) == 1
    check_memory(learned)
    assert not learned.unalign("t-1").judge.memory.guidelines


def test_a_comment_that_supports_and_adds_goes_whole() -> None:
    second = [change("SUPPORT", "F1", guideline="G1"), add("Name the day.")]
    judge, _ = bare(Teacher([add(RULE)], second, [add("Both.")]))
    judge = learn(learn(judge, [row(1, "ana", "add")]).judge, [row(2, "ben", "add")]).judge
    assert [g.text for g in judge.memory.semantic] == [RULE, "Name the day."]
    check_memory(judge)
    left = judge.unalign("t-1").judge
    assert [g.text for g in left.memory.semantic] == ["Both."], "all that ben said is asked for again"
