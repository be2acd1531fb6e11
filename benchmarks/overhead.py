"""What does memalign itself cost? Its own time, with models that answer at once, and how much of a busy server it uses.

    python benchmarks/overhead.py [--runs 5] [--cases 1000 10000 100000] [--calls 1600]

Milliseconds: of an import in a process of its own, of a judgment by judges that hold many cases, of one of 1,000
judgments at once. Then 64 workers judge with a server on this machine that takes 8, 24 or 64 calls at a time, and
refuses the rest with 429.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import shared
from loopback import Loopback

import memalign as ma
from memalign.memory import Annotation, Case
from memalign.testing import HashEmbedding, ScriptedChatModel

WORKERS = 64
LATENCY = 0.5
INSTRUCTIONS = "Is the reply warm? {{ inputs }} {{ outputs }}"
ITEM: dict[str, Any] = {"inputs": "Where is my parcel?", "outputs": "On its way."}
ANSWER: dict[str, Any] = {"findings": [], "rationale": "It is cold.", "value": False}


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """The mean seconds of one of `times` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def memory(count: int) -> ma.Memory:
    """That many cases, with vectors as an align would keep them."""
    vectors = np.random.default_rng(0).normal(size=(count, 64)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cases = []
    for number, vector in enumerate(vectors):
        example = ma.Example(
            id=f"t-{number}", inputs=f"Parcel {number} is late.", outputs=f"Day {number % 30}."
        )
        words = Annotation(
            id=example.id,
            source="ana",
            value=number % 3 == 0,
            rationale=f"Name the day of {number}.",
        )
        cases.append(Case(example=example, annotations=(words,), vector=vector.tobytes()))
    return ma.Memory(cases=tuple(cases), embedding_model=HashEmbedding().name)


def measured(counts: list[int]) -> dict[str, float]:
    """The seconds of each thing, once."""
    python = [sys.executable, "-c", "import memalign"]
    figures = {
        "import, Python's own start included": seconds(lambda: subprocess.run(python, check=True))
    }
    judge = shared.judge_of("tone", INSTRUCTIONS, ScriptedChatModel(lambda _: ANSWER))
    label = {"id": "t-0", "inputs": "Late?", "outputs": "Yes.", "value": False}
    aligned = judge.align([label], optimizer=ma.MemAlign(embedding_model=HashEmbedding())).judge
    for count in (0, *counts):
        ask = partial(aligned.replace(memory=memory(count)) if count else judge, **ITEM)
        ask()
        figures[f"a judgment, {count:,} cases"] = seconds(ask, times=100)
    figures["one of 1,000 judgments"] = seconds(lambda: judge_many(judge, 1_000)) / 1_000
    return figures


def judge_many(judge: ma.Judge, count: int) -> None:
    """Judge that many items with all workers."""
    items = [ma.Example(id=f"e-{number}", **ITEM) for number in range(count)]
    assert not any(judgment.error for judgment in judge.judge_many(items, concurrency=WORKERS))


def main() -> None:
    """Measure, and print the two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument(
        "--calls", type=int, default=1_600, help="of a server for 64; fewer of smaller ones"
    )
    options = parser.parse_args()
    runs = [measured(options.cases) for _ in range(options.runs)]
    times = {name: [1_000 * run[name] for run in runs] for name in runs[0]}
    rows = [
        (name, f"{statistics.median(some):,.2f}", f"{min(some):,.2f}")
        for name, some in times.items()
    ]
    print(
        shared.markdown((f"{options.runs} runs", "milliseconds, median", "fastest"), rows),
        end="\n\n",
    )
    rows = []
    for room in (8, 24, WORKERS):
        with Loopback(lambda _: ANSWER, latency=LATENCY, room=room) as server:
            calls, judge = (
                options.calls * room // WORKERS,
                shared.judge_of("tone", INSTRUCTIONS, f"openai:m@{server.base_url}"),
            )
            judge(**ITEM)  # loads what calls need
            share = calls * LATENCY / room / seconds(partial(judge_many, judge, calls))
            rows.append((str(room), f"{share:.2f}", f"{server.take()['refused']} of {calls}"))
    print(
        shared.markdown(
            ("a server takes at a time", "share of its ceiling in use", "refused, of calls"), rows
        )
    )


if __name__ == "__main__":
    main()
