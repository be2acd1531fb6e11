"""A run in virtual time: calls in flight that grow as the limiter lets them, and one processor that all of them share.

It is there to check the arithmetic against recorded runs, and to say what a limit of calls a minute does to them.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from memalign_bench.capacity.arithmetic import Capacity

__all__ = ["Run", "simulate"]

_FIRST_IN_FLIGHT = 16  # what the adapter lets through at first
_BEFORE = 0.5  # of a judgment's processor time is spent before its call goes out, the rest on its answer


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run came to: seconds, verdicts a second, and the share of that time in which the processor worked."""

    seconds: float
    a_second: float
    busy: float


def simulate(rows: int, capacity: Capacity, *, calls_a_second: float | None = None) -> Run:
    """Judge `rows` by one process, each with one call of the same length.

    Calls begin at 16 in flight, and each that is answered lets one more begin, up to `capacity.in_flight`. A limit of
    `calls_a_second` spaces them out evenly.
    """
    work = capacity.processor_ms / 1e3
    free_at = now = 0.0  # when the processor is free; the present
    next_call = 0.0
    room, begun, done = min(_FIRST_IN_FLIGHT, capacity.in_flight), 0, 0
    answers: list[float] = []

    def begin(at: float) -> None:
        nonlocal free_at, next_call, begun
        free_at = max(free_at, at) + _BEFORE * work
        sent = free_at
        if calls_a_second:
            sent = next_call = max(sent, next_call + 1 / calls_a_second)
        heapq.heappush(answers, sent + capacity.seconds)
        begun += 1

    while begun < min(room, rows):
        begin(0.0)
    while answers:
        now = heapq.heappop(answers)
        free_at = max(free_at, now) + (1 - _BEFORE) * work
        done += 1
        room = min(room + 1, capacity.in_flight)
        while begun < rows and begun - done < room:
            begin(free_at)
    seconds = max(now, free_at)
    return Run(seconds=seconds, a_second=rows / seconds, busy=rows * work / seconds)
