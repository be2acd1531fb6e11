"""What judging many rows would ask and cost, from a sample of them and without a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import stdev

import msgspec

from memalign import aio
from memalign.judge.judge import Judge
from memalign.judge.verdict import decide
from memalign.models.base import PricedModel
from memalign.models.calls import Calls
from memalign.models.dry_run import DryRun
from memalign.models.judge_models import open_judging_model
from memalign.types import Example, Usage

__all__ = ["JudgingEstimate", "estimate_judging"]


class JudgingEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What `rows` would take, from `sampled` of them.

    `usage` has calls, tokens and dollars with nothing out of a provider's cache; `cached_cost` is the same with every
    system message out of it, as after the first calls of a run (None: no price is known, or no prefix is long enough).
    `margin` is half of a 95 % interval of the tokens in, as a share of them.
    """

    rows: int
    sampled: int
    usage: Usage
    cached_cost: float | None
    margin: float


def estimate_judging(judge: Judge, examples: Sequence[Example], *, rows: int) -> JudgingEstimate:
    """About what judging `rows` would take, of which `examples` (one or more) are a sample. No model is asked.

    Raises what judging raises before a model is asked: a field that is missing, no model, no key.
    """
    return aio.run(_estimate(judge, examples, rows))


async def _estimate(judge: Judge, examples: Sequence[Example], rows: int) -> JudgingEstimate:
    vector = next((case.vector for case in judge.memory.cases if case.vector), None)
    dry_run = DryRun(dimensions=8 if vector is None else len(vector) // 4)
    tokens: list[int] = []
    calls = Calls(dry_run=dry_run)
    for example in examples:
        await decide(judge, example, calls)
        tokens.append(dry_run.usage.input_tokens)
    each = [after - before for before, after in zip([0, *tokens], tokens, strict=False)]
    spent, times = dry_run.usage, rows / len(examples)
    usage = Usage(
        calls=round(spent.calls * times),
        input_tokens=round(spent.input_tokens * times),
        output_tokens=round(spent.output_tokens * times),
        cost=None if spent.cost is None else spent.cost * times,
    )
    model = open_judging_model(judge)
    cached = msgspec.structs.replace(usage, cached_tokens=round(dry_run.prefix_tokens * times))
    mean = spent.input_tokens / len(each)
    left = math.sqrt(1 - len(each) / rows) if rows > len(each) else 0.0
    return JudgingEstimate(
        rows=rows,
        sampled=len(examples),
        usage=usage,
        cached_cost=model.price_of(cached) if dry_run.prefix_tokens and isinstance(model, PricedModel) else None,
        margin=1.96 * left * stdev(each) / math.sqrt(len(each)) / mean if len(each) > 1 and mean else 0.0,
    )
