"""Figures of two engines are mixed only where they were seen to give the same verdicts."""

from __future__ import annotations

from typing import Any

import pytest

from memalign.errors import InputError, ModelUnavailable
from memalign.judge import Judge
from memalign.models.base import ChatRequest, Limits
from memalign.testing import ScriptedChatModel
from memalign.types import Example, Usage
from memalign_bench.agreement import agreement, requests_of

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "boolean"}}, "required": ["value"]}


def requests(n: int) -> list[tuple[str, ChatRequest]]:
    return [(f"c{i}", ChatRequest(system="Judge.", user=f"Case {i}.", schema=SCHEMA)) for i in range(n)]


def engine(name: str, *, no: tuple[int, ...] = (), fails: tuple[int, ...] = ()) -> ScriptedChatModel:
    """Says true to every case, except false to those in `no`; cannot answer those in `fails`."""

    def answer(request: ChatRequest) -> Any:
        number = request.user.removeprefix("Case ").removesuffix(".")
        if number.isdigit() and int(number) in fails:
            return ModelUnavailable("no answer", usage=Usage(calls=1, input_tokens=7))
        return {"value": not (number.isdigit() and int(number) in no)}

    return ScriptedChatModel(answer, name=name)


async def test_the_same_verdicts_on_many_cases_may_be_mixed() -> None:
    found = await agreement(engine("local:m", no=(1, 2)), engine("openvino:m", no=(1, 2)), requests(40))
    assert (found.n, found.same, found.kappa, found.differing, found.failed) == (40, 40, 1.0, (), ())
    assert found.low == pytest.approx(0.912, abs=0.001)  # Wilson: 40 / (40 + 1.96²)
    assert found.mixable
    assert found.first.shares == {"True": 0.95, "False": 0.05}
    text = str(found)
    assert "same verdict on 40 of 40: 1.00  [0.91, 1.00], kappa 1.00" in text
    assert "may be mixed" in text
    assert "openvino:m: True 95%, False 5%; " in text


async def test_the_same_verdicts_on_few_cases_prove_too_little() -> None:
    found = await agreement(engine("a"), engine("b"), requests(20))
    assert found.same == 20
    assert not found.mixable
    assert found.kappa is None  # one label only: nothing that chance would not give
    assert "do not mix figures of the two: the interval's lower end, 0.84, is below 0.9; but there was one" in str(
        found
    )


async def test_thirty_five_requests_without_a_difference_are_the_fewest_that_suffice() -> None:
    assert not (await agreement(engine("a"), engine("b"), requests(34))).mixable
    assert (await agreement(engine("a"), engine("b"), requests(35))).mixable


async def test_cases_that_differ_are_named() -> None:
    found = await agreement(engine("a", no=(0, 3)), engine("b", no=(0, 5)), requests(10))
    assert found.differing == ("c3", "c5")
    assert found.same == 8
    assert "different verdicts: c3, c5" in str(found)


async def test_an_answer_that_only_one_engine_gives_is_a_disagreement() -> None:
    found = await agreement(engine("a", fails=(1, 2)), engine("b", fails=(2,)), requests(10))
    assert (found.n, found.same, found.failed) == (9, 8, ("c1", "c2"))  # c2 says nothing of the two
    assert found.first.usage.calls == 10  # what failed was paid for, too


async def test_what_cannot_be_compared_is_an_error() -> None:
    with pytest.raises(InputError, match="no requests"):
        await agreement(engine("a"), engine("b"), [])
    with pytest.raises(InputError, match="'c0' stands twice"):
        await agreement(engine("a"), engine("b"), requests(1) * 2)
    with pytest.raises(InputError, match="neither a nor b answered any of the 2 requests; a: no answer"):
        await agreement(engine("a", fails=(0, 1)), engine("b", fails=(0, 1)), requests(2))


async def test_the_requests_of_a_judge_are_those_that_its_model_would_get() -> None:
    model = ScriptedChatModel([{"rationale": "so", "value": True}], limits=Limits(brief=True))
    judge = Judge(name="kind", instructions="Is {{ outputs }} kind?", feedback_value_type=bool, model=model)
    example = Example(id="e1", outputs="Thank you for waiting.")
    heard = await requests_of(judge, [example], like=model)
    assert model.requests == []
    await judge.ajudge(example)
    assert heard == [("e1", model.requests[0])]


async def test_of_a_long_trace_the_verdict_is_compared_and_not_the_looks_before_it() -> None:
    spans = [{"name": f"s{n}", "span_id": f"{n}", "inputs": {"q": "word " * 400}} for n in range(60)]
    model = ScriptedChatModel([], limits=Limits(context_tokens=6000))
    judge = Judge(name="good", instructions="Good? {{ trace }}", feedback_value_type=bool, model=model)
    ((_, request),) = await requests_of(judge, [Example(id="e1", trace={"spans": spans})], like=model)
    assert "value" in request.schema["properties"]
