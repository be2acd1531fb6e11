"""The whole way with the embedded 0.5B model: its form is checked, not its wisdom."""

from __future__ import annotations

import pytest

from memalign import Judge
from memalign.align import AlignResult
from memalign.models.local import LocalChatModel
from tests.support.keys import keys
from tests.support.lists import ids, table

ROWS = [
    {
        "id": "t-1",
        "source": "ana",
        "inputs": "My parcel is three weeks late and it was a birthday present!",
        "outputs": "Delivery times are estimates. See section 4 of the terms.",
        "value": False,
        "rationale": "Correct but cold: a disappointed customer needs an apology first.",
    },
    {
        "id": "t-2",
        "source": "ben",
        "inputs": "How do I change my password?",
        "outputs": "Open Settings, choose Security, then Change password.",
        "value": True,
    },
]


@pytest.fixture
def small() -> LocalChatModel:
    return LocalChatModel("qwen2.5-coder-0.5b")


@pytest.mark.embedded
def test_an_embedded_judge_learns_judges_and_forgets(small: LocalChatModel) -> None:
    judge = Judge(
        name="helpfulness",
        instructions="Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}",
        feedback_value_type=bool,
        model=small,
    )
    result = judge.align(ROWS)
    its_guidelines_are_the_comments(result)
    its_judgments_have_reasons(result.judge)
    it_forgets(result.judge)


def its_guidelines_are_the_comments(result: AlignResult) -> None:
    assert table(result.rows, "status") == [("new",), ("new",)]
    assert result.usage.cost in (0.0, None)
    assert result.usage.calls == 0, "its guidelines are the comments, word for word"
    (guideline,) = result.judge.memory.semantic
    assert str(ROWS[0]["rationale"]).rstrip(".") in guideline.text


def its_judgments_have_reasons(judge: Judge) -> None:
    items = [
        {
            "id": "i-1",
            "inputs": "I was charged twice!",
            "outputs": "One charge will be reversed.",
        },
        {
            "id": "i-2",
            "inputs": "I was charged twice!",
            "outputs": "We are sorry. One charge is reversed today.",
        },
    ]
    known = tuple(ids(judge.memory.semantic))
    judgments = judge.judge_many(items, concurrency=1)
    for judgment in judgments:
        assert isinstance(judgment.value, bool), judgment.error
        assert judgment.rationale
        assert judgment.guideline_ids == known
    assert judgments[1].usage.cached_tokens > 0, "the system message is read once"


def it_forgets(judge: Judge) -> None:
    forgot = judge.unalign("t-1").judge
    assert ids(forgot.memory.cases) == ["t-2"]
    left = table(forgot.memory.guidelines, "exposed_to")
    assert left in ([], [(keys("t-2@ben"),)])
