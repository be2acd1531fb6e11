"""What a run over many rows would cost, from a sample."""

from __future__ import annotations

from typing import Any

import pytest

from memalign import Judge, Usage
from memalign.models import ChatReply, ChatRequest, Limits
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun


class Priced:
    """A model that costs a dollar for a thousand tokens and is never asked."""

    name = "test:priced"
    limits = Limits()

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise AssertionError("an estimate asks nobody")

    def price_of(self, usage: Usage) -> float:
        return (usage.input_tokens + usage.output_tokens) / 1e3


def estimated(instructions: str, rows: list[dict[str, Any]], *, of: int) -> Usage:
    judge = Judge(name="j", feedback_value_type=bool, model=Priced(), instructions=instructions)
    dry_run = DryRun()
    judge.judge_many(rows, max_cost=Calls(dry_run=dry_run))
    return dry_run.scaled(of / len(rows))


ROWS = [{"id": f"n-{n}", "outputs": "word " * (1 + n % 40)} for n in range(400)]


def test_a_sample_stands_for_all_rows() -> None:
    whole = estimated("Is it good? {{ outputs }}", ROWS, of=400)
    part = estimated("Is it good? {{ outputs }}", ROWS[::7], of=400)
    assert whole.calls == part.calls == 400
    assert part.input_tokens == pytest.approx(whole.input_tokens, rel=0.05)
    assert whole.cost == pytest.approx((whole.input_tokens + whole.output_tokens) / 1e3)
