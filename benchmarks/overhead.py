"""What does memalign itself cost? Its own time, with models that answer at once, and how much of a busy server it uses.

    python benchmarks/overhead.py [--runs 5] [--cases 1000 10000 100000] [--calls 1600]

Milliseconds: of an import in a process of its own, of a judgment by judges that hold many cases, of one of 1,000
judgments at once. Then calls a second of 64 workers against the ceiling of a server on this machine that takes 8, 24 or
64 at a time and refuses the rest with 429.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from loopback import Loopback

import memalign as ma
from memalign import Memory
from memalign.memory import Annotation, Case
from memalign.models import ChatModel, ChatRequest, resolve
from memalign.testing import HashEmbedding, ScriptedChatModel

JUDGMENTS = 100
WORKERS = 64
LATENCY = 0.5
ITEM: dict[str, Any] = {"inputs": "Where is my parcel?", "outputs": "On its way."}
REQUEST = ChatRequest(system="s", user="u", schema={"type": "object", "properties": {"value": {"type": "boolean"}}})


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """The mean seconds of one of `times` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def memory(count: int) -> Memory:
    """That many cases, with vectors as an align would keep them."""
    vectors = np.random.default_rng(0).normal(size=(count, 64)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cases = []
    for number, vector in enumerate(vectors):
        example = ma.Example(id=f"t-{number}", inputs=f"Parcel {number} is late.", outputs=f"Day {number % 30}.")
        words = Annotation(id=example.id, source="ana", value=number % 3 == 0, rationale=f"Name the day of {number}.")
        cases.append(Case(example=example, annotations=(words,), vector=vector.tobytes()))
    return Memory(cases=tuple(cases), embedding_model=HashEmbedding().name)


def measured(counts: list[int]) -> dict[str, float]:
    """The seconds of each thing, once."""
    python = [sys.executable, "-c", "import memalign"]
    figures = {"import, Python's own start included": seconds(lambda: subprocess.run(python, check=True))}
    model = ScriptedChatModel(lambda _: {"findings": [], "rationale": "It is cold.", "value": False})
    instructions = "Is the reply warm? {{ inputs }} {{ outputs }}"
    judge = ma.Judge(name="tone", feedback_value_type=bool, model=model, instructions=instructions)
    label = {"id": "t-0", "inputs": "Late?", "outputs": "Yes.", "value": False}
    aligned = judge.align([label], optimizer=ma.MemAlign(embedding_model=HashEmbedding())).judge
    for count in (0, *counts):
        ask = partial(aligned.replace(memory=memory(count)) if count else judge, **ITEM)
        ask()
        figures[f"a judgment, {count:,} cases"] = seconds(ask, JUDGMENTS)
    many = [ma.Example(id=f"e-{number}", **ITEM) for number in range(1_000)]
    figures["one of 1,000 judgments"] = seconds(lambda: judge.judge_many(many, concurrency=WORKERS)) / len(many)
    return figures


async def time_calls(model: ChatModel, calls: int) -> float:
    """Seconds that so many calls take, after a first one that loads what calls need."""
    await model.complete(REQUEST)
    waiting, started = iter(range(calls)), time.perf_counter()

    async def work() -> None:
        for _ in waiting:
            await model.complete(REQUEST)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return time.perf_counter() - started


def main() -> None:
    """Measure, and print the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--calls", type=int, default=1_600, help="of a server for 64; fewer of smaller ones")
    options = parser.parse_args()
    runs = [measured(options.cases) for _ in range(options.runs)]
    print(f"| {options.runs} runs | milliseconds, median | fastest |\n|---|---|---|")
    for name in runs[0]:
        times = [1_000 * run[name] for run in runs]
        print(f"| {name} | {statistics.median(times):,.2f} | {min(times):,.2f} |")
    print("\n| a server takes at a time | share of its ceiling that is used | refused, of calls |\n|---|---|---|")
    for room in (8, 24, WORKERS):
        with Loopback(lambda _: {"value": True}, latency=LATENCY, room=room) as server:
            calls = options.calls * room // WORKERS
            share = calls * LATENCY / room / asyncio.run(time_calls(resolve(f"openai:m@{server.base_url}"), calls))
            print(f"| {room} | {share:.2f} | {server.take()['refused']} of {calls} |")


if __name__ == "__main__":
    main()
