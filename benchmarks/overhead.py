"""What does memalign itself cost? Its own time, and how much of a busy server it uses.

    python benchmarks/overhead.py [--runs 5]

Milliseconds of a judgment with a model that answers at once, by judges that hold many cases. Then
64 workers judge with a server on this machine that takes 8, 24 or 64 calls at a time, and refuses
the rest with 429.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from loopback import Loopback
from shared import judge_of, markdown, parser_of

import memalign as ma
from memalign.memory import Annotation, Case
from memalign.testing import HashEmbedding, ScriptedChatModel

WORKERS = 64
LATENCY = 0.5
CASES = (1_000, 10_000, 100_000)
ROOMS = (8, 24, WORKERS)
CALLS = 25  # for each call that a server takes at a time
INSTRUCTIONS = "Is the reply warm? {{ inputs }} {{ outputs }}"
ITEM: dict[str, Any] = {"inputs": "Where is my parcel?", "outputs": "On its way."}
ANSWER: dict[str, Any] = {"findings": [], "rationale": "It is cold.", "value": False}


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """Return the mean seconds of one of `times` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def memory(count: int) -> ma.Memory:
    """Return a memory of that many cases, with vectors as an align would keep them."""
    vectors = np.random.default_rng(0).normal(size=(count, 64)).astype("float32")
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cases = []
    for number, vector in enumerate(vectors):
        example = ma.Example(
            id=f"t-{number}",
            inputs=f"Parcel {number} is late.",
            outputs=f"Day {number % 30}.",
        )
        annotation = Annotation(
            id=example.id,
            source="ana",
            value=number % 3 == 0,
            rationale=f"Name the day of {number}.",
        )
        case = Case(example=example, annotations=(annotation,), vector=vector.tobytes())
        cases.append(case)
    return ma.Memory(cases=tuple(cases), embedding_model=HashEmbedding().name)


def judged(judge: ma.Judge, count: int) -> None:
    """Judge that many items with all workers."""
    items = [ma.Example(id=f"e-{number}", **ITEM) for number in range(count)]
    for judgment in judge.judge_many(items, concurrency=WORKERS):
        assert judgment.error is None


def measured() -> dict[str, float]:
    """Return the seconds of a judgment by each judge, once."""
    judge = judge_of("tone", INSTRUCTIONS, ScriptedChatModel(lambda _: ANSWER))
    label = {"id": "t-0", "inputs": "Late?", "outputs": "Yes.", "value": False}
    optimizer = ma.MemAlign(embedding_model=HashEmbedding())
    aligned = judge.align([label], optimizer=optimizer).judge
    judges = {0: judge}
    for count in CASES:
        judges[count] = aligned.replace(memory=memory(count))
    figures = {}
    for count, each in judges.items():
        ask = partial(each, **ITEM)
        ask()
        figures[f"a judgment, {count:,} cases"] = seconds(ask, times=100)
    return figures


def own_time(runs: int) -> str:
    """Return the table of memalign's own time."""
    every = [measured() for _ in range(runs)]
    rows = []
    for name in every[0]:
        times = [1_000 * figures[name] for figures in every]
        middle = statistics.median(times)
        rows.append((name, f"{middle:,.2f}", f"{min(times):,.2f}"))
    return markdown((f"{runs} runs", "milliseconds, median", "fastest"), rows)


def busy_servers() -> str:
    """Return the table of how much of a server's ceiling is in use."""
    rows = []
    for room in ROOMS:
        calls = CALLS * room
        with Loopback(lambda _: ANSWER, latency=LATENCY, room=room) as server:
            judge = judge_of("tone", INSTRUCTIONS, f"openai:m@{server.base_url}")
            judge(**ITEM)  # loads what calls need
            least = calls * LATENCY / room
            share = least / seconds(partial(judged, judge, calls))
            rows.append(
                (room, f"{share:.2f}", f"{server.take()['refused']} of {calls}")
            )
    titles = (
        "a server takes at a time",
        "share of its ceiling in use",
        "refused, of calls",
    )
    return markdown(titles, rows)


def main() -> None:
    """Measure, and print the two tables."""
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    print(own_time(options.runs), end="\n\n")
    print(busy_servers())


if __name__ == "__main__":
    main()
