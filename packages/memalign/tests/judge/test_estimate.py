"""What a run over many rows would cost, from a sample."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Example, Judge, Usage
from memalign.judge.estimate import estimate_judging
from memalign.models import ChatReply, ChatRequest, Limits


class Priced:
    """A model that costs a dollar for a thousand tokens, a tenth of that for cached ones, and is never asked."""

    name = "test:priced"
    limits = Limits()

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("an estimate asks nobody")

    def price_of(self, usage: Usage) -> float:
        return (usage.input_tokens - 0.9 * usage.cached_tokens + usage.output_tokens) / 1e3


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"n-{n}", "outputs": "word " * (1 + n % 40)} for n in range(count)]


def test_a_sample_stands_for_all_rows() -> None:
    judge = Judge(name="j", feedback_value_type=bool, model=Priced(), instructions="Is it good? {{ outputs }}")
    every = [Example(**row) for row in rows(400)]
    whole = estimate_judging(judge, every, rows=400)
    part = estimate_judging(judge, every[::7], rows=400)
    assert (whole.usage.calls, whole.margin) == (400, 0.0)
    assert part.usage.calls == 400
    assert abs(part.usage.input_tokens / whole.usage.input_tokens - 1) <= part.margin + 1e-9 < 0.2
    assert whole.usage.cost == pytest.approx((whole.usage.input_tokens + whole.usage.output_tokens) / 1e3)
    assert whole.cached_cost is None, "its prefix is too short for a cache"


def test_a_long_prefix_costs_less() -> None:
    text = "Is it good? {{ outputs }} " + "The reply is kind, short and exact in every case. " * 150
    judge = Judge(name="j", feedback_value_type=bool, model=Priced(), instructions=text)
    found = estimate_judging(judge, [Example(**row) for row in rows(10)], rows=10_000_000)
    assert found.usage.calls == 10_000_000
    assert found.cached_cost is not None
    assert found.usage.cost is not None
    assert found.cached_cost < found.usage.cost / 2
