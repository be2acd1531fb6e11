"""What a run over many rows would cost, from a sample."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Judge, Usage
from memalign.models import ChatReply, ChatRequest, Limits
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun


class Priced:
    """A model that costs a dollar for a thousand tokens, a tenth of that for cached ones, and is never asked."""

    name = "test:priced"
    limits = Limits()

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("an estimate asks nobody")

    def price_of(self, usage: Usage) -> float:
        return (usage.input_tokens - 0.9 * usage.cached_tokens + usage.output_tokens) / 1e3


def estimated(instructions: str, rows: list[dict[str, Any]], *, of: int) -> tuple[Usage, float | None]:
    judge = Judge(name="j", feedback_value_type=bool, model=Priced(), instructions=instructions)
    dry_run = DryRun()
    judge.judge_many(rows, max_cost=Calls(dry_run=dry_run))
    return dry_run.scaled(of / len(rows))


ROWS = [{"id": f"n-{n}", "outputs": "word " * (1 + n % 40)} for n in range(400)]


def test_a_sample_stands_for_all_rows() -> None:
    whole, cached = estimated("Is it good? {{ outputs }}", ROWS, of=400)
    part, _ = estimated("Is it good? {{ outputs }}", ROWS[::7], of=400)
    assert whole.calls == part.calls == 400
    assert part.input_tokens == pytest.approx(whole.input_tokens, rel=0.05)
    assert whole.cost == pytest.approx((whole.input_tokens + whole.output_tokens) / 1e3)
    assert cached is None, "its prefix is too short for a cache"


def test_a_long_prefix_costs_less() -> None:
    text = "Is it good? {{ outputs }} " + "The reply is kind, short and exact in every case. " * 150
    usage, cached = estimated(text, ROWS[:10], of=10_000_000)
    assert usage.calls == 10_000_000
    assert cached is not None
    assert usage.cost is not None
    assert cached < usage.cost / 2
