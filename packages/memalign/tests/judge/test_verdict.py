"""How answers become a verdict: samples, swapped sides, confidence."""

from __future__ import annotations

import asyncio
import json
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
    return ChatReply(data=data, text=json.dumps(data), usage=Usage(calls=1, input_tokens=5))


@pytest.mark.parametrize(
    ("value_type", "answers", "parameters", "verdict", "confidence"),
    [
        (bool, [True], {}, True, None),
        (bool, [False, True, True], {"samples": 3}, True, 2 / 3),
        ("int:1..5", [1, 5, 5], {"samples": 3}, 4, 0.0),
        ("int:0..1000", [10, 10, 901], {"samples": 3}, 307, 0.0),
        ("float:0..1", [0.0, 1.0], {"samples": 2}, 0.5, 0.0),
        # Who prefers first sides is undecided: the item as it stands decides.
        ("A|B", ["A", "A"], {"swap": True}, "A", 0.5),
        ("A|B|tie", ["B", "A"], {"swap": True}, "B", 1.0),
        ("A|B", ["A", "A", "B", "A"], {"swap": True, "samples": 2}, "A", 0.75),
        ("A|B|tie", ["tie", "B", "A", "A"], {"swap": True, "samples": 2}, "B", 0.75),
    ],
)
def test_several_answers_are_one_verdict(
    value_type: Any, answers: list[Any], parameters: dict[str, Any], verdict: Any, confidence: float | None
) -> None:
    left = iter(answers)
    made = judge(lambda _: told(next(left)), value_type, **parameters)(outputs=PAIR)
    assert (made.value, made.rationale) == (verdict, "Because.")
    assert made.confidence == (confidence if confidence is None else pytest.approx(confidence))
    assert made.usage.calls == len(answers)


def test_samples_are_drawn_warm_with_different_seeds() -> None:
    one = judge(lambda _: told(True), samples=3, seed=7)
    one(outputs="x")
    requests = one.model.requests  # type: ignore[union-attr]
    assert {request.temperature for request in requests} == {0.7}
    assert sorted(request.seed for request in requests) == [7, 8, 9]
    assert len({(request.system, request.user) for request in requests}) == 1


def test_one_failed_sample_fails_the_whole_paid_judgment() -> None:
    answers: Iterator[Any] = iter([told(True), ModelUnavailable("down", usage=Usage(calls=2, input_tokens=3))])
    with pytest.raises(ModelUnavailable) as caught:
        judge(lambda _: next(answers), samples=2)(outputs="x")
    assert caught.value.usage is not None
    assert (caught.value.usage.calls, caught.value.usage.input_tokens) == (3, 8)


@pytest.mark.parametrize(
    ("parameters", "value_type", "message"),
    [
        ({"samples": 0}, bool, r"parameters: .* at `\$.samples`"),
        ({"samples": 3, "temperature": 0}, bool, "all samples are the same"),
        ({"swap": True}, bool, "chooses between two sides"),
        ({"swap": 1}, "A|B", "parameters: .*swap"),
        ({"mood": 1}, bool, "unknown field `mood`; they are temperature, max_tokens"),
        ({"temperature": "0"}, bool, "parameters: .*temperature"),
        ({"temperature": float("nan")}, bool, "parameters: .*temperature"),
        (None, bool, "parameters: Expected `object`"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters: Any, value_type: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        judge(lambda _: {}, value_type).replace(parameters=parameters)


async def test_samples_are_drawn_side_by_side() -> None:
    together = asyncio.Barrier(3)

    async def answer(_: ChatRequest) -> dict[str, Any]:
        await asyncio.wait_for(together.wait(), PATIENCE)
        return {"rationale": "r", "value": True}

    assert (await judge(answer, samples=3).ajudge(outputs="x")).value is True
