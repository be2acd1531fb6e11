"""What does memalign itself cost? Milliseconds of a judgment with a model that answers at once.

    python benchmarks/overhead.py [--runs 5]

The judges hold a thousand cases and a hundred thousand.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
from shared import markdown, parser_of

import memalign as ma
from memalign.memory import Annotation, Case
from memalign.testing import HashEmbedding, ScriptedChatModel

CASES = (1_000, 100_000)
JUDGMENTS = 100
ITEM = {"inputs": "Where is my parcel?", "outputs": "On its way."}
LABELLED = {"id": "t-0", "inputs": "Late?", "outputs": "Yes.", "value": False}
ANSWER: dict[str, Any] = {"findings": [], "rationale": "It is cold.", "value": False}


def taught_judge() -> ma.Judge:
    """Return a judge that was taught one case."""
    judge = ma.Judge(
        name="tone",
        instructions="Is the reply warm? {{ inputs }} {{ outputs }}",
        feedback_value_type=bool,
        model=ScriptedChatModel(lambda _: ANSWER),
    )
    optimizer = ma.MemAlign(embedding_model=HashEmbedding())
    return judge.align([LABELLED], optimizer=optimizer).judge


def memory(count: int) -> ma.Memory:
    """Return a memory of that many cases, with vectors as an align would keep them."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(count, 64))
    vectors = vectors.astype("float32")
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
        kept = vector.tobytes()
        case = Case(example=example, annotations=(annotation,), vector=kept)
        cases.append(case)
    embedding = HashEmbedding()
    return ma.Memory(cases=tuple(cases), embedding_model=embedding.name)


def milliseconds(judge: ma.Judge) -> float:
    """Return the mean time of a judgment."""
    judge(**ITEM)  # builds what is built once
    start = time.perf_counter()
    for _ in range(JUDGMENTS):
        judge(**ITEM)
    seconds = time.perf_counter() - start
    return 1_000 * seconds / JUDGMENTS


def main() -> None:
    """Measure, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    judge = taught_judge()
    rows = []
    for count in CASES:
        times = []
        for _ in range(options.runs):
            full = judge.replace(memory=memory(count))
            times.append(milliseconds(full))
        middle = statistics.median(times)
        rows.append((f"{count:,}", f"{middle:,.2f}"))
    titles = ("cases in memory", "milliseconds of a judgment, median")
    print(markdown(titles, rows))


if __name__ == "__main__":
    main()
