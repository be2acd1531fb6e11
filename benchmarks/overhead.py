"""What does memalign itself cost? Its own seconds, with a model that answers at once, beside another installation.

    python benchmarks/overhead.py [--beside PYTHON] [--runs N] [--cases N]

`--beside` is the interpreter of an environment with another version, or of the same one without a change. Both are
measured in turns, in processes of their own, and each figure is the median of the runs: seconds to import, of
`memalign --help`, of an align of 50 and one of 200 comments, of a judgment whose judge has learned nothing, of one
whose memory holds many cases, and of an erase in a registry of many versions. No model is called.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

JUDGMENTS = 200
VERSIONS = 20


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """The mean seconds of one of `times` calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def row(number: int) -> dict[str, Any]:
    """The feedback of one person on one case."""
    return {
        "id": f"t-{number}",
        "inputs": f"The parcel {number} of order {number * 7} is late, and nobody answers.",
        "outputs": f"It is on its way since day {number % 30}.",
        "value": number % 3 == 0,
        "rationale": f"Say sorry first, and name the day of parcel {number}.",
        "source": "ana",
    }


def answer(request: Any) -> dict[str, Any]:
    """One guideline a call for a distillation, and a verdict for a judgment."""
    if request.schema_name == "changes":
        return {
            "changes": [{"action": "ADD", "feedback": ["F1"], "text": "Say sorry.", "guideline": "", "checks": []}],
            "conflicts": [],
        }
    if request.schema_name == "merged":
        return {"guidelines": []}
    return {"findings": [], "rationale": "It is cold.", "value": False}


def measured(cases: int) -> dict[str, float]:
    """The figures of the memalign that this interpreter imports."""
    start = time.perf_counter()
    import memalign
    from memalign.testing import HashEmbedding, ScriptedChatModel

    figures = {"import": time.perf_counter() - start}
    command = [sys.executable, "-m", "memalign", "--help"]
    figures["--help"] = seconds(lambda: subprocess.run(command, capture_output=True, check=True))
    model, embedding = ScriptedChatModel(answer), HashEmbedding()
    optimizer = memalign.MemAlign(reflection_model=model, embedding_model=embedding)
    judge = memalign.Judge(
        name="tone",
        feedback_value_type=bool,
        model=model,
        instructions="Is the reply warm? {{ inputs }} {{ outputs }}",
    )
    judge.align([row(number) for number in range(5)], optimizer=optimizer)  # what is loaded once is loaded
    for count in (50, 200):
        feedback = [row(number) for number in range(count)]
        figures[f"align {count}"] = seconds(lambda feedback=feedback: judge.align(feedback, optimizer=optimizer))
    learned = judge.align([row(number) for number in range(cases)], optimizer=optimizer).judge
    item = {"inputs": "Where is my parcel?", "outputs": "On its way."}
    for name, subject in (("judgment", judge), (f"judgment, {cases:,} cases", learned)):
        subject(**item)
        figures[name] = seconds(lambda subject=subject: subject(**item), JUDGMENTS)
    with tempfile.TemporaryDirectory() as folder:
        registry = memalign.Registry(f"sqlite:///{folder}/memalign.db", models=[model, embedding])
        registry.create(judge)
        for number in range(VERSIONS):
            registry.align("tone", [row(50 * number + step) for step in range(50)], optimizer=optimizer)
        figures[f"erase, {VERSIONS} versions"] = seconds(lambda: registry.erase("tone", ["t-3"], rederive=False))
    return figures


def table(runs: dict[str, list[dict[str, float]]]) -> str:
    """The medians in milliseconds, one line a figure, with the ratio of the first column to the second."""
    columns = list(runs)
    lines = ["| milliseconds | " + " | ".join(columns) + (" | ratio |" if len(columns) > 1 else " |")]
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    for name in runs[columns[0]][0]:
        medians = [statistics.median(run[name] for run in runs[column]) for column in columns]
        cells = [name, *(f"{1_000 * median:,.2f}" for median in medians)]
        if len(medians) > 1:
            cells.append(f"{medians[0] / medians[1]:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure, in turns where there are two, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="PYTHON", help="the interpreter of another installation")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measured(options.cases)))
        return
    pythons = {"here": sys.executable} | ({"beside": options.beside} if options.beside else {})
    runs: dict[str, list[dict[str, float]]] = {column: [] for column in pythons}
    for _ in range(options.runs):
        for column, python in pythons.items():
            command = [python, str(Path(__file__)), "--worker", "--cases", str(options.cases)]
            result = subprocess.run(command, capture_output=True, text=True, check=True)
            runs[column].append(json.loads(result.stdout.splitlines()[-1]))
    print(table(runs))


if __name__ == "__main__":
    main()
