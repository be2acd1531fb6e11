"""Calls, tokens, dollars and hours of many verdicts, by multiplication and division alone."""

from __future__ import annotations

from dataclasses import dataclass

from memalign.models.batch_calls import BATCH_PRICE
from memalign.models.list_prices import Prices
from memalign.types import Usage

__all__ = ["Capacity", "Estimate", "Limits", "Workload", "break_even", "cached_tokens", "estimate"]

_BATCH_PROCESSOR = 1.2  # a row of a batch is prepared twice and sent once: 3.4 ms against 2.9 live, 3,000 rows, one run
_FROM, _STEP = 1_024, 128  # OpenAI: prefixes from so many tokens up are kept, in steps


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Verdicts to give: how many, and the tokens of one call.

    `prefix` is what all calls share, `own` the rest of the prompt, `out` the answer. A verdict takes `calls`: samples, or
    two for swapped sides. Checks that a model answers in the judgment itself are `out`, 10 tokens each, and no call.
    """

    rows: int
    prefix: int
    own: int
    out: int
    calls: int = 1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a provider lets through in a minute: calls, and tokens in and out. None: no limit.

    `cached_count` says whether tokens out of the cache count (OpenAI: yes; Anthropic: no, for most models). `reached` is
    the share of a limit that a run comes to.
    """

    calls: float | None = None
    tokens: float | None = None
    cached_count: bool = True
    reached: float = 0.8


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """What judges: calls in flight, seconds of a call, milliseconds of processor a judgment, and processes, each with its loop."""

    in_flight: int = 64
    seconds: float = 1.0
    processor_ms: float = 8.9
    processes: int = 1


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a workload takes. `hours` by what bounds them: `calls`, `tokens`, `in flight` and `processor`; `bound` is the longest.

    Through a batch endpoint only the processor is counted: the rest is the provider's, a day at most for what it lets wait.
    """

    usage: Usage
    hours: dict[str, float]

    @property
    def bound(self) -> str:
        """What takes longest."""
        return max(self.hours, key=lambda name: self.hours[name])

    @property
    def longest(self) -> float:
        """Hours of the whole."""
        return self.hours[self.bound]


def cached_tokens(prefix: int) -> int:
    """How many tokens of a shared prefix a provider keeps: none below 1,024, and whole steps of 128 from there."""
    return prefix // _STEP * _STEP if prefix >= _FROM else 0


def estimate(
    work: Workload,
    prices: Prices,
    *,
    limits: Limits | None = None,
    capacity: Capacity | None = None,
    cached: float = 1.0,
    batch: bool = False,
) -> Estimate:
    """What the workload takes; `cached` is the share of calls whose prefix comes out of the cache."""
    limits, capacity = limits or Limits(), capacity or Capacity()
    calls = work.rows * work.calls
    usage = Usage(
        calls=calls,
        input_tokens=calls * (work.prefix + work.own),
        cached_tokens=round(calls * cached * cached_tokens(work.prefix)),
        output_tokens=calls * work.out,
    )
    processor = work.rows * capacity.processor_ms * (_BATCH_PROCESSOR if batch else 1) / 3.6e6 / capacity.processes
    hours = {"processor": processor}
    if not batch:
        # A call's seconds, and the time for which it waits for its turn on the processor's core.
        each = capacity.seconds + capacity.processor_ms / 1e3
        hours["in flight"] = calls * each / 3_600 / (capacity.in_flight * capacity.processes)
        counted = usage.input_tokens + usage.output_tokens - (0 if limits.cached_count else usage.cached_tokens)
        if limits.calls:
            hours["calls"] = calls / (limits.calls * limits.reached) / 60
        if limits.tokens:
            hours["tokens"] = counted / (limits.tokens * limits.reached) / 60
    cost = prices.cost(usage) * (BATCH_PRICE if batch else 1.0)
    return Estimate(usage=Usage(**{name: getattr(usage, name) for name in _COUNTS}, cost=cost), hours=hours)


_COUNTS = ("calls", "input_tokens", "cached_tokens", "output_tokens")


def break_even(cheap: float, strong: float) -> float:
    """The share of verdicts that may go on to the strong judge before a cascade costs more than the strong judge alone."""
    return max(0.0, 1.0 - cheap / strong)
