"""How answers become a verdict: samples, swapped sides, confidence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
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


def told(value: Any, *, rationale: str = "Because.") -> ChatReply:
    data = {"rationale": rationale, "value": value}
    return ChatReply(data=data, text=json.dumps(data), usage=Usage(calls=1, input_tokens=5))


def test_one_answer_has_no_confidence() -> None:
    made = judge(lambda _: told(True))(outputs="x")
    assert (made.value, made.confidence, made.rationale) == (True, None, "Because.")


class TestSamples:
    def answers(self, *values: Any) -> Callable[[ChatRequest], Any]:
        left: Iterator[Any] = iter(values)
        return lambda _: {"rationale": "r", "value": next(left)}

    def test_labels_vote(self) -> None:
        one = judge(self.answers(False, True, True), samples=3)
        made = one(outputs="x")
        assert made.value is True
        assert made.confidence == pytest.approx(2 / 3)
        assert made.usage.calls == 3

    def test_scores_and_numbers_are_averaged(self) -> None:
        made = judge(self.answers(1, 5, 5), "int:1..5", samples=3)(outputs="x")
        assert made.value == 4
        made = judge(self.answers(10, 10, 901), "int:0..1000", samples=3)(outputs="x")
        assert (made.value, made.confidence) == (307, 0.0)
        assert judge(self.answers(0.0, 1.0), "float:0..1", samples=2)(outputs="x").value == 0.5

    def test_samples_are_drawn_warm_with_different_seeds(self) -> None:
        one = judge(self.answers(True, True, True), samples=3, seed=7)
        one(outputs="x")
        requests = one.model.requests  # type: ignore[union-attr]
        assert {request.temperature for request in requests} == {0.7}
        assert sorted(request.seed for request in requests) == [7, 8, 9]
        assert len({(request.system, request.user) for request in requests}) == 1

    def test_one_failed_sample_fails_the_whole_paid_judgment(self) -> None:
        answers: Iterator[Any] = iter([told(True), ModelUnavailable("down", usage=Usage(calls=2, input_tokens=3))])
        with pytest.raises(ModelUnavailable) as caught:
            judge(lambda _: next(answers), samples=2)(outputs="x")
        assert caught.value.usage is not None
        assert (caught.value.usage.calls, caught.value.usage.input_tokens) == (3, 8)


class TestSwap:
    def test_a_judge_that_prefers_first_sides_is_undecided(self) -> None:
        made = judge(lambda _: {"rationale": "r", "value": "A"}, "A|B", swap=True)(outputs=PAIR)
        assert made.confidence == pytest.approx(0.5)
        assert made.value == "A"  # nothing tells them apart: the item as it stands decides
        assert made.usage.calls == 2

    def test_the_same_side_twice_is_a_verdict(self) -> None:
        def answer(request: ChatRequest) -> dict[str, Any]:
            shown = json.loads(request.user.split("outputs: ")[1].splitlines()[0])
            return {"rationale": "r", "value": next(k for k, v in shown.items() if v == PAIR["B"])}

        made = judge(answer, "A|B|tie", swap=True)(outputs=PAIR)
        assert (made.value, made.confidence) == ("B", 1.0)

    def test_a_reason_about_swapped_sides_says_so(self) -> None:
        values = iter(["A", "A", "B", "A"])
        made = judge(lambda _: told(next(values)), "A|B", swap=True, samples=2)(outputs=PAIR)
        assert (made.value, made.rationale) == ("A", "Because.")
        values = iter(["tie", "B", "A", "A"])
        turned = judge(lambda _: told(next(values)), "A|B|tie", swap=True, samples=2)(outputs=PAIR)
        assert (turned.value, turned.rationale) == ("B", "Because.")


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "value_type", "message"),
        [
            ({"samples": 0}, bool, "parameter samples=0"),
            ({"samples": 3, "temperature": 0}, bool, "all samples are the same"),
            ({"swap": True}, bool, "chooses between two sides"),
            ({"swap": 1}, "A|B", "parameter swap"),
            ({"mood": 1}, bool, "parameters are"),
            ({"temperature": "0"}, bool, "parameter temperature"),
            ({"temperature": float("nan")}, bool, "parameter temperature"),
            (None, bool, "a mapping such as"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, parameters: Any, value_type: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            judge(lambda _: {}, value_type).replace(parameters=parameters)


async def test_samples_are_drawn_side_by_side() -> None:
    together = asyncio.Barrier(3)

    async def answer(_: ChatRequest) -> dict[str, Any]:
        await asyncio.wait_for(together.wait(), PATIENCE)
        return {"rationale": "r", "value": True}

    assert (await judge(answer, samples=3).ajudge(outputs="x")).value is True
