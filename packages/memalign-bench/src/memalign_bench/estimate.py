"""How many calls, tokens, dollars and hours a run will take, before it starts.

Where a method has judged some cases of a task, their means say it. Otherwise prompts are rendered and counted, and answers
guessed. Remembered calls cost nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean

import msgspec

from memalign.align.admission import CHECKS
from memalign.align.ask import MOST
from memalign.align.consolidate import PAIRS_PER_CALL
from memalign.judge import named_fields
from memalign.memory.budget import Budget
from memalign.models import resolve
from memalign.models.base import Limits
from memalign.prompts import encode, render_judge_system
from memalign.prompts.encoding import estimate_tokens
from memalign.types import Usage
from memalign_bench.config import COMPETITORS, ZERO_SHOT
from memalign_bench.methods.baselines import BASELINES
from memalign_bench.methods.competitor import workers_for
from memalign_bench.methods.judges import JUDGES
from memalign_bench.plan import Plan
from memalign_bench.prices import cost_of
from memalign_bench.raw import Cell, RawFolder
from memalign_bench.tasks import Case, Task

__all__ = ["Estimate", "estimate_run"]

GENEROUS = 3 / 4  # estimate_tokens counts three bytes a token, to be safe; English is nearer four
PROVIDER_SECONDS = 2.0
LOCAL_IN, LOCAL_OUT = 45.0, 15.0  # tokens a second, the embedded 1.5B on two cores
GUIDELINE_TOKENS, DISTIL_PROMPT, PAIRS_EACH = 30, 300, 3
COMPETITOR_EXAMPLES, COMPETITOR_ANSWER = 5, 90
COMPETITOR_LEARN_CALLS = {"mlflow": 0.1, "miprov2": 10.0, "simba": 74.0, "gepa": 11.0}
"""Calls to learn from one case, as counted when each learned 50: MLflow's distilled them in 4 to 8; MIPROv2 made 481,
SIMBA 3,708 and GEPA 550, since they judge the cases again for every candidate prompt."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What is left to do of a method: judgments, and the calls, tokens, dollars and seconds they and learning take."""

    method: str
    judgments: int
    usage: Usage
    seconds: float


def estimate_run(plan: Plan, raw: RawFolder) -> list[Estimate]:
    """One estimate a method, in the order of the run; methods that have nothing left to do are not there."""
    left: dict[Cell, int] = {}
    for batch in plan.batches(raw):
        left[batch.cell] = left.get(batch.cell, 0) + len(batch.todo)
    paid: set[tuple[object, ...]] = set()  # alignments that several methods share are remembered after the first
    found: dict[str, list[tuple[int, Usage, float]]] = {}
    for cell, count in left.items():
        found.setdefault(cell.method, []).append((count, *_cell(plan, raw, cell, count, paid)))
    return [
        Estimate(
            method=method,
            judgments=sum(count for count, _, _ in parts),
            usage=sum((usage for _, usage, _ in parts), Usage()),
            seconds=sum(seconds for _, _, seconds in parts),
        )
        for method, parts in found.items()
    ]


def _cell(plan: Plan, raw: RawFolder, cell: Cell, count: int, paid: set[tuple[object, ...]]) -> tuple[Usage, float]:
    if cell.method in BASELINES:
        return Usage(), 0.0
    limits = resolve(cell.model).limits
    task = plan.tasks[cell.task]
    competitor = (
        cell.method in COMPETITORS
    )  # a competitor judges one case at a time, and learns with as many calls as its workers make
    at_once = 1 if competitor else limits.concurrency
    judging, seconds = _observed(raw, cell, count, at_once) or _guessed(task, cell.method, limits, count, at_once)
    learning = (
        Usage() if plan.knows(cell, raw) else _learning(task, cell, limits, plan.config.stages_of(cell.method), paid)
    )
    seconds += _seconds(learning, limits, workers_for(limits) if competitor else limits.concurrency)
    usage = judging + learning
    return msgspec.structs.replace(usage, cost=cost_of(cell.model, usage, plan.config.prices)), seconds


def _observed(raw: RawFolder, cell: Cell, count: int, at_once: int) -> tuple[Usage, float] | None:
    lines = [line for line in raw.lines(cell) if line.error is None]
    if not lines:
        return None

    def scaled(numbers: Iterable[float]) -> int:
        return round(mean(numbers) * count)

    usage = Usage(
        calls=scaled(line.calls for line in lines),
        input_tokens=scaled(line.tokens_in for line in lines),
        cached_tokens=scaled(line.cached for line in lines),
        output_tokens=scaled(line.tokens_out for line in lines),
    )
    return usage, mean(line.seconds for line in lines) * count / at_once


def _guessed(task: Task, method: str, limits: Limits, count: int, at_once: int) -> tuple[Usage, float]:
    system, item = _prompt(task, limits)
    budget = Budget.of(
        context_tokens=limits.context_tokens, system_tokens=system, answer_tokens=160, brief=limits.brief
    )
    fresh, stable, answer = item, system, 45 if limits.brief else 120
    if method in COMPETITORS:
        fresh, answer = fresh + COMPETITOR_EXAMPLES * item, COMPETITOR_ANSWER
    elif method != ZERO_SHOT:
        k = JUDGES[method].k if JUDGES[method].k is not None else limits.examples
        fresh += int(min((k or 0) * min(item, budget.example), budget.examples) * GENEROUS)
        stable += int(budget.guidelines * GENEROUS) if "distil" in JUDGES[method].stages(limits) else 0
    usage = Usage(
        calls=count, input_tokens=count * (fresh + stable), cached_tokens=count * stable, output_tokens=count * answer
    )
    return usage, _seconds(usage, limits, at_once)


def _learning(task: Task, cell: Cell, limits: Limits, stages: Sequence[int], paid: set[tuple[object, ...]]) -> Usage:
    """What learning from the cases that this stage adds takes; nothing where another method has asked the same."""
    before = max((stage for stage in stages if stage < cell.stage), default=0)
    if cell.method in COMPETITORS:
        calls = round(COMPETITOR_LEARN_CALLS[cell.method] * cell.stage)  # competitors learn each stage anew
        each = sum(_prompt(task, limits))
        return Usage(calls=calls, input_tokens=calls * each * 2, output_tokens=calls * COMPETITOR_ANSWER)
    total = Usage()
    system, item = _prompt(task, limits)
    new = cell.stage - before
    for stage in sorted(JUDGES[cell.method].stages(limits)):
        said = JUDGES[cell.method].said.__name__ if stage == "distil" else ""
        key = (cell.model, cell.task, cell.seed, cell.stage, stage, said)
        if key in paid:
            continue
        paid.add(key)
        total += _stage(stage, new, limits, system=system, item=item)
    return total


def _stage(stage: str, new: int, limits: Limits, *, system: int, item: int) -> Usage:
    """About what one stage of an alignment takes for `new` cases."""
    match stage:
        case "pre_alignment":
            calls, stable, fresh, answer = new, system, item, 45
        case "distil":
            calls, stable, fresh = -(-new // limits.shard_size), DISTIL_PROMPT, item * limits.shard_size
            answer = limits.shard_size * GUIDELINE_TOKENS
        case "consolidate":
            size = PAIRS_PER_CALL[limits.brief]
            calls, stable, fresh, answer = -(-new * PAIRS_EACH // size), DISTIL_PROMPT, 2 * GUIDELINE_TOKENS * size, 12
        case "admit":
            calls, stable, fresh, answer = 2 * min(new, CHECKS[limits.brief]), 2 * system, item, 45
        case "ask":
            calls, stable, fresh, answer = min(new, MOST[limits.brief]), 2 * system, item, 60
        case _:  # the budget is kept without a call
            return Usage()
    return Usage(
        calls=calls,
        input_tokens=calls * (fresh + stable),
        cached_tokens=calls * stable,
        output_tokens=calls * answer,
    )


def _prompt(task: Task, limits: Limits) -> tuple[int, int]:
    """About how many tokens the stable and the varying part of the zero-shot judge's prompt have."""
    fields = named_fields(task.instructions)
    system = render_judge_system(
        instructions=task.instructions,
        fields=fields,
        value_type=task.value_type,
        guidelines=(),
        style="brief" if limits.brief else "full",
    )
    sample: Sequence[Case] = task.cases[:: max(1, len(task.cases) // 20)]
    most = limits.context_tokens // 2  # what the judge gives an item at most
    items = [min(most, sum(_tokens(case.example.content.get(name)) for name in fields)) for case in sample]
    return int(estimate_tokens(system) * GENEROUS), int(mean(items) * GENEROUS) + 20


def _tokens(value: object) -> int:
    return 0 if value is None else estimate_tokens(encode(value))


def _seconds(usage: Usage, limits: Limits, at_once: int) -> float:
    if not limits.brief:
        return usage.calls * PROVIDER_SECONDS / at_once
    return (usage.input_tokens - usage.cached_tokens) / LOCAL_IN + usage.output_tokens / LOCAL_OUT
