"""What does learning cost, and what is learned for it? memalign beside MLflow's MemAlign and GEPA.

    python benchmarks/scale.py scale.jsonl --competitors .competitors/bin/python

Without competitors (competitors.py) memalign alone is measured. A server on this machine answers
all methods as one simulated model (simulated.py), after a fixed latency; all have as many calls in
flight at most. Each learns from 10, 50, 200 and 1,000 examples from nothing, and judges 200 unseen
cases. Then memory methods learn one comment more, withdraw one and erase one. Dollars are list
prices of gpt-4.1-mini and its embeddings, and of TypeSafe's Jev for decisions, without a provider's
cache. The same command completes a run that was stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import simulated
from loopback import Loopback
from shared import Line, markdown, parser_of, read_lines, write_lines

import memalign as ma
from memalign.evaluation.intervals import estimate_mean, share_interval

MODEL = "gpt-4.1-mini"
COMPETENCE = simulated.Competence(reading=0.9, seed=1)
SIZES = (10, 50, 200, 1_000)
THREADS = 16
DOLLARS = {
    "tokens_in": 0.40,
    "tokens_out": 1.60,
    "embed_tokens": 0.02,
    "decision_tokens": 0.042,
}
"""For a million, as if no provider had a cache. Decisions: Jev, whose answers are free."""
OURS = ("memalign", "memalign, decision model")
MLFLOW = "MLflow's MemAlign"
GEPA = "GEPA"
METHODS = (*OURS, MLFLOW, GEPA)
SHOWN = ("align", "a judgment", "one more", "one withdrawn", "one erased")
"""The steps that the table shows; the unseen cases are in the rows of aligns."""
TITLES = (
    "step",
    "examples",
    "method",
    "seconds",
    "calls",
    "tokens in",
    "out",
    "dollars",
    "right of unseen",
)

Method = Callable[..., Line]
"""Does one thing: `align` a slice of rows, `withdraw` or `erase` a row, or judge `items`."""
Lines = Sequence[Line]
Steps = dict[str, Line]

CASES = simulated.cases(200, COMPETENCE.seed, first=100_000)
"""The unseen ones."""
ITEMS = [case.fields for case in CASES]


# -- the methods -----------------------------------------------------------------------


class Memalign:
    """memalign in this process, with the chat model or with a decision model as judge.

    Everything that is loaded once is loaded when it is made, before any clock.
    """

    def __init__(self, name: str, rows: Lines, base_url: str) -> None:
        writer = f"openai:{MODEL}"
        model = writer
        if "decision" in name:
            model = f"system-one:{MODEL}@{base_url}"
        self.rows = rows
        self.optimizer = ma.MemAlign(concurrency=THREADS)
        self.judge: ma.Judge = ma.Judge(
            name="house",
            instructions=simulated.INSTRUCTIONS,
            feedback_value_type=bool,
            model=model,
            parameters={"reflection_model": writer},
        )
        self.judge.align(rows[:2], optimizer=self.optimizer)
        first = rows[0]
        self.judge(inputs=first["inputs"], outputs=first["outputs"])

    def __call__(self, **request: Any) -> Line:
        """Do what a request asks, and return verdicts, or seconds if the clock is its own."""
        ((what, asked),) = request.items()
        if what == "align":
            first, end = asked
            taught = self.rows[first:end]
            result = self.judge.align(taught, optimizer=self.optimizer)
            self._take(result)
        elif what == "withdraw":
            row = self.rows[asked]
            result = self.judge.unalign(row["id"])
            self._take(result)
        elif what == "erase":
            row = self.rows[asked]
            return self._erased(row["id"])
        else:
            return self._judged(asked)
        return {}

    def _take(self, result: ma.AlignResult) -> None:
        for row in result.rows:
            if row.state == "pending":
                raise RuntimeError(f"a row is pending: {row.reason}")
        self.judge = result.judge

    def _erased(self, name: str) -> Line:
        with tempfile.TemporaryDirectory() as folder:
            registry = ma.Registry(f"sqlite:///{folder}/memalign.db")
            registry.create(self.judge)
            started = time.perf_counter()
            registry.erase("house", [name], optimizer=self.optimizer)
            seconds = time.perf_counter() - started
            self.judge = registry.load("house")
        return {"seconds": seconds}

    def _judged(self, items: Lines) -> Line:
        if len(items) == 1:
            judgment = self.judge(**items[0])
            return {"values": [judgment.value]}
        examples = []
        for number, item in enumerate(items):
            example = {"id": f"u-{number}", **item}
            examples.append(example)
        judgments = self.judge.judge_many(examples, concurrency=THREADS)
        values = [judgment.value for judgment in judgments]
        return {"values": values}


@contextmanager
def competitor(name: str, rows: Lines, base_url: str, python: Path) -> Iterator[Method]:
    """Start another method in a process of its environment, whose interpreter is `python`."""
    script = Path(__file__).with_name("competitors.py")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        log = Path(home, "log")
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [python.absolute(), "-I", script],
                text=True,
                cwd=home,
                env=environment(home, base_url),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        with process:
            method = Competitor(process, log)
            method(
                method=name,
                rows=rows,
                model=MODEL,
                instructions=simulated.INSTRUCTIONS,
                threads=THREADS,
            )
            yield method


class Competitor:
    """Another method, which erases nothing."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self.process = process
        self.log = log

    def __call__(self, **request: Any) -> Line:
        """Have the process do what a request asks."""
        print(json.dumps(request), file=self.process.stdin, flush=True)
        assert self.process.stdout is not None
        reply = self.process.stdout.readline()
        if not reply:
            text = self.log.read_text("utf-8")
            raise RuntimeError(f"a method ended: {text[-2_000:]}")
        line: Line = json.loads(reply)
        return line


def environment(home: str, base_url: str) -> dict[str, str]:
    """Return what a competitor's process knows of this machine."""
    known = {
        "OPENAI_API_BASE": base_url,
        "OPENAI_BASE_URL": base_url,
        "OPENAI_API_KEY": "not-needed",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # without it the import asks for a price list
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
        "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
        "MLFLOW_GENAI_OPTIMIZE_MAX_WORKERS": str(THREADS),
    }
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "DSPY_CACHEDIR", "MPLCONFIGDIR"):
        known[name] = home
    for name in ("PATH", "LANG"):
        if name in os.environ:
            known[name] = os.environ[name]
    return known


def started(
    name: str, rows: Lines, base_url: str, python: Path | None
) -> AbstractContextManager[Method]:
    """Set a method up, in this process or in one of its environment."""
    if python is None or name in OURS:
        method = Memalign(name, rows, base_url)
        return nullcontext(method)
    return competitor(name, rows, base_url, python)


# -- the runs --------------------------------------------------------------------------


def run(name: str, size: int, options: argparse.Namespace) -> list[Line]:
    """Set a method up, and return a line for each of its steps at a size."""
    rows = simulated.rows(size + 1, COMPETENCE.seed)
    latency = options.latency
    with Loopback(simulated.chat, simulated.decide, latency=latency) as server:
        address = server.base_url
        os.environ["OPENAI_BASE_URL"] = address
        with started(name, rows, address, options.competitors) as method:
            steps = steps_of(name, size)
            lines = list(measured(method, server, steps))
    for line in lines:
        line["size"] = size
        line["method"] = name
        line["latency"] = latency
    return lines


def steps_of(name: str, size: int) -> Steps:
    """Return the steps of a method, by name, each with what it is asked.

    MLflow's MemAlign erases nothing, and GEPA would begin again after any change.
    """
    steps: Steps = {
        "align": {"align": [0, size]},
        "a judgment": {"items": ITEMS[:1]},
        "unseen": {"items": ITEMS},
    }
    if name != GEPA:
        steps["one more"] = {"align": [size, size + 1]}
        steps["one withdrawn"] = {"withdraw": 3}
    if name in OURS:
        steps["one erased"] = {"erase": 5}
    return steps


def measured(method: Method, server: Loopback, steps: Steps) -> Iterator[Line]:
    """Yield a line for each step: the time it took, what the server counted, what was right."""
    server.take()
    for step, request in steps.items():
        started = time.perf_counter()
        answer = method(**request)
        seconds = time.perf_counter() - started
        line: Line = {"step": step, "seconds": seconds}
        line |= server.take()
        values = answer.pop("values", [])
        line |= answer
        if step == "unseen":
            line["right"] = right(values)
        elif None in values:
            raise RuntimeError(f"{step}: no verdict")
        yield line


def right(values: Sequence[Any]) -> list[bool]:
    """Return whether each verdict on the unseen cases is the label."""
    pairs = zip(values, CASES, strict=True)
    return [value == case.label for value, case in pairs]


# -- the table -------------------------------------------------------------------------


def table(lines: Lines) -> str:
    """Return what each step took, and for an align the share of unseen cases that is right."""
    shares = {}
    for line in lines:
        if line["step"] == "unseen":
            method = line["size"], line["method"]
            estimate = estimate_mean(line["right"], None, share_interval)
            shares[method] = f"{estimate:.2f}"
    rows = []
    for step in SHOWN:
        for line in lines:
            if line["step"] == step:
                method = line["size"], line["method"]
                share = shares[method] if step == "align" else ""
                rows.append(row_of(line, share))
    return markdown(TITLES, rows)


def row_of(line: Line, share: str) -> list[str]:
    """Return what a step took, and the share of unseen cases that is right."""
    calls = f"{line.get('calls', 0):,}"
    if "decisions" in line:
        calls += f" + {line['decisions']:,} d."
    dollars = 0.0
    for kind, price in DOLLARS.items():
        tokens = line.get(kind, 0)
        dollars += tokens * price / 1e6
    return [
        line["step"],
        f"{line['size']:,}",
        line["method"],
        f"{line['seconds']:,.2f}",
        calls,
        f"{line.get('tokens_in', 0):,}",
        f"{line.get('tokens_out', 0):,}",
        f"{dollars:.4f}",
        share,
    ]


def main() -> None:
    """Ask for what is missing, and print the table.

    A method at a size is in the file completely or not at all.
    """
    parser = parser_of(__doc__)
    parser.add_argument(
        "file", type=Path, help="raw lines, JSONL; an existing file is completed"
    )
    parser.add_argument(
        "--competitors",
        type=Path,
        metavar="PYTHON",
        help="the interpreter of their environment; memalign alone without it",
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of a call")
    options = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "not-needed"
    simulated.MODELS[MODEL] = COMPETENCE
    methods = METHODS if options.competitors else OURS
    lines = read_lines(options.file)
    known = [(line["method"], line["size"]) for line in lines]
    for size in options.sizes:
        for name in methods:
            if (name, size) not in known:
                added = run(name, size, options)
                write_lines(options.file, added, "a")
                lines += added
    print(table(lines))


if __name__ == "__main__":
    main()
