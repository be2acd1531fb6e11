"""A judge on another model: which verdicts turn, who is right, and what is hidden."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memalign import Judge
from memalign.errors import InputError, InvalidRows, ModelUnavailable
from memalign.evaluation import replay
from memalign.models.base import ChatRequest
from memalign.testing import Answer, HashEmbedding, ScriptedChatModel, checks_asked
from memalign.types import Feedback

ITEM = re.compile(r"item (\d+)")


def model(*, wrong: int, name: str, down: tuple[int, ...] = ()) -> ScriptedChatModel:
    """Right about every number but the multiples of `wrong`, and down for some."""

    def answer(request: ChatRequest) -> Answer:
        if "changes" in request.schema["properties"]:
            labels = request.schema["properties"]["changes"]["items"]["properties"]["feedback"]["items"]["enum"]
            check = {"question": "Is the number even?", "answer": "yes"}
            rule = {
                "action": "ADD",
                "text": f"When {labels[0]} is even, it passes.",
                "guideline": "",
                "checks": [check],
            }
            return {"changes": [{**rule, "feedback": labels}]}
        number = int(ITEM.findall(request.user)[-1])
        if number in down:
            raise ModelUnavailable("HTTP 503")
        asked = checks_asked(request)
        said: dict[str, Any] = {"rationale": "", "value": (number % 2 == 0) != (number % wrong == 0)}
        return {"checks": dict.fromkeys(asked, "yes" if number % wrong else "no")} | said if asked else said

    return ScriptedChatModel(answer, name=name)


OLD, NEW = model(wrong=10, name="old"), model(wrong=4, name="new")


def rows(first: int, last: int) -> list[Feedback]:
    return [
        Feedback(id=f"h-{n}", outputs=f"item {n}", value=n % 2 == 0, source="ana", rationale="So.")
        for n in range(first, last)
    ]


@pytest.fixture(scope="module")
def judge() -> Judge:
    base = Judge(
        name="even", model=OLD, embedding_model=HashEmbedding(), instructions="{{ outputs }}", feedback_value_type=bool
    )
    return base.align(rows(0, 20)).judge


def test_it_names_what_turned_and_who_was_right(judge: Judge) -> None:
    found = replay(judge, NEW, rows(100, 140))
    assert (found.model_before, found.model, found.n) == ("old", "new", 40)
    turned = {int(each.id[2:]) for each in found.turned}
    assert turned == {n for n in range(100, 140) if (n % 10 == 0) != (n % 4 == 0)}
    assert found.before["exact_match"].value == pytest.approx(0.9)
    assert found.after["exact_match"].value == pytest.approx(0.75)
    assert found.comparison is not None
    assert set(found.comparison.broken) == {f"h-{n}" for n in turned if n % 4 == 0}
    assert found.usage.calls == found.usage_before.calls == 40


def test_checks_that_are_answered_otherwise_are_named(judge: Judge) -> None:
    (check,) = replay(judge, NEW, rows(100, 140)).checks
    assert (check.check, check.answered) == ("Is the number even?", 40)
    assert check.changed == sum((n % 10 == 0) != (n % 4 == 0) for n in range(100, 140))


def test_cases_need_no_labels(judge: Judge) -> None:
    found = replay(judge, NEW, [{"id": row.id, "outputs": row.outputs} for row in rows(100, 140)])
    assert found.comparison is None
    assert found.same.value == pytest.approx(1 - len(found.turned) / 40)


def test_remembered_cases_are_judged_as_never_met(judge: Judge) -> None:
    NEW.requests.clear()
    found = replay(judge, NEW)
    assert found.hidden
    assert found.n == 20
    for request in NEW.requests:
        number = ITEM.findall(request.user)[-1]
        assert ITEM.findall(request.user).count(number) == 1, "the case itself is not among the similar ones"
    with pytest.raises(InputError, match="has no labelled case in memory"):
        replay(judge.without_memory(), NEW)


def test_a_case_without_a_verdict_is_named(judge: Judge) -> None:
    found = replay(judge, model(wrong=4, name="new", down=(101,)), rows(100, 140))
    assert found.unscored == 1
    assert found.errors == (("h-101", "ModelUnavailable: HTTP 503"),)
    with pytest.raises(InputError, match="no case was judged on both models"):
        replay(judge, model(wrong=4, name="new", down=tuple(range(200))), rows(100, 140))


def test_a_label_that_cannot_be_read_is_named(judge: Judge) -> None:
    given: list[dict[str, Any]] = [{"id": row.id, "outputs": row.outputs} for row in rows(100, 140)]
    with pytest.raises(InvalidRows, match="maybe"):
        replay(judge, NEW, [*given, {"id": "odd", "outputs": "item 141", "value": "maybe"}])
