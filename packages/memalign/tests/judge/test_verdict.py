"""How answers become a verdict: swapped sides, confidence."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from memalign import Judge
from memalign.errors import InputError, ModelUnavailable
from memalign.models.base import ChatReply, ChatRequest
from memalign.types import Usage
from tests.support.patience import PATIENCE
from tests.support.scripted import scripted

PAIR = {"A": "the first answer", "B": "the second one"}


def judge(answer: Any, value_type: Any = bool, **parameters: Any) -> Judge:
    return scripted(answer, feedback_value_type=value_type, parameters=parameters)[0]


def told(value: Any) -> ChatReply:
    data = {"rationale": "Because.", "value": value}
    return ChatReply(data=data, text="", usage=Usage(calls=1, input_tokens=5))


@pytest.mark.parametrize(
    ("value_type", "answers", "parameters", "verdict", "confidence"),
    [
        (bool, [True], {}, True, None),
        # Who prefers first sides is undecided: the item as it stands decides.
        ("A|B", ["A", "A"], {"swap": True}, "A", 0.5),
        ("A|B|tie", ["B", "A"], {"swap": True}, "B", 1.0),
    ],
)
def test_several_answers_are_one_verdict(
    value_type: Any,
    answers: list[Any],
    parameters: dict[str, Any],
    verdict: Any,
    confidence: float | None,
) -> None:
    left = iter(answers)
    made = judge(lambda _: told(next(left)), value_type, **parameters)(outputs=PAIR)
    assert (made.value, made.rationale) == (verdict, "Because.")
    assert made.confidence == confidence
    assert made.usage.calls == len(answers)


def test_one_failed_side_fails_the_whole_paid_judgment() -> None:
    down = ModelUnavailable("down", usage=Usage(calls=2, input_tokens=3))
    answers: Iterator[Any] = iter([told("A"), down])
    with pytest.raises(ModelUnavailable) as caught:
        judge(lambda _: next(answers), "A|B", swap=True)(outputs=PAIR)
    used = caught.value.usage
    assert used is not None
    assert (used.calls, used.input_tokens) == (3, 8)


@pytest.mark.parametrize(
    ("parameters", "value_type", "message"),
    [
        ({"samples": 3}, bool, "unknown field `samples`"),
        ({"swap": True}, bool, "chooses between two sides"),
        ({"swap": 1}, "A|B", "parameters: .*swap"),
        ({"mood": 1}, bool, "unknown field `mood`; they are temperature, max_tokens"),
        ({"temperature": "0"}, bool, "parameters: .*temperature"),
        ({"temperature": float("nan")}, bool, "parameters: .*temperature"),
        (None, bool, "parameters: Expected `object`"),
    ],
)
def test_what_makes_no_sense_is_refused(
    parameters: Any, value_type: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        judge(lambda _: {}, value_type).replace(parameters=parameters)


async def test_both_orders_are_asked_side_by_side() -> None:
    together = asyncio.Barrier(2)

    async def answer(_: ChatRequest) -> dict[str, Any]:
        await asyncio.wait_for(together.wait(), PATIENCE)
        return {"rationale": "r", "value": "A"}

    made = await judge(answer, "A|B", swap=True).ajudge(outputs=PAIR)
    assert (made.value, made.confidence) == ("A", 0.5)
