"""The MLflow drop-in beside MLflow's own MemAlign: the same traces in one store, the same server for models.

    python benchmarks/bench_mlflow.py -o results/mlflow.json

Each side runs in a fresh process of its own interpreter, each with its defaults: import, align on 50 traces, align on one
more, register; then in another process: import, load from the registry with the first judgment, later judgments. The
server (`scale_endpoint.py`) answers after a fixed latency and counts calls, tokens, cached tokens and embedded texts. MLflow's
own side is told not to fetch LiteLLM's price list, as if a fast network were there.

All of it `--runs` times, each in a new store. Prints a JSON line a step: wall seconds, CPU seconds of the process, and what the
server counted; the file has every run, and the median of each figure by side and step.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INSTRUCTIONS = "Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}"
LATER = 10
COMPETITOR = Path(".competitors/bin/python")


def main() -> None:
    """Measure both sides, print and write the steps."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", maxsplit=1)[0])
    parser.add_argument("--competitor", type=Path, default=COMPETITOR, help="a Python with mlflow, dspy and litellm")
    parser.add_argument("--alone", action="store_true", help="measure memalign without the competitor")
    parser.add_argument("--traces", type=int, default=50)
    parser.add_argument("--latency", type=float, default=0.3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(*given.worker)
        return
    # Not at the top: the competitor's own interpreter, which runs the worker above, has no memalign.
    from memalign_bench.methods.competitor import SETUP

    if not given.alone and not given.competitor.exists():
        parser.error(f"no interpreter at {given.competitor}: {SETUP}; or --alone, without the competitor")
    competitor = None if given.alone else given.competitor.absolute()  # each side works in a folder of its own
    runs = [measured(given.traces, given.latency, competitor, number) for number in range(1, given.runs + 1)]
    facts = {"traces": given.traces, "latency": given.latency, "later": LATER, "medians": medians(runs), "runs": runs}
    if given.out:
        given.out.write_text(json.dumps(facts, indent=1) + "\n", "utf-8")


def measured(traces: int, latency: float, competitor: Path | None, number: int) -> list[dict[str, Any]]:
    """The steps of both sides on a store of their own."""
    steps = []
    with tempfile.TemporaryDirectory() as folder, Served(latency) as url:
        store = f"sqlite:///{folder}/mlflow.db"
        run(sys.executable, ("write", str(traces + 1 + LATER), store), url, folder)
        for side, python in (("memalign", sys.executable), ("mlflow", competitor)):
            for part in ("learn", "load") if python else ():
                said = run(str(python), (part, side, store), url, folder)
                done = [{"side": side, "part": part, **step} for step in said]
                print(*(json.dumps({"run": number, **step}) for step in done), sep="\n", flush=True)
                steps += done
    return steps


def medians(runs: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """The steps of a run, each figure the median of all runs."""
    found = []
    for several in zip(*runs, strict=True):
        first = several[0]
        named = {name: value for name, value in first.items() if isinstance(value, str)}
        found.append(
            named | {name: statistics.median(each[name] for each in several) for name in first.keys() - named.keys()}
        )
    return found


class Served:
    """The models' server, for as long as the block lasts."""

    def __init__(self, latency: float) -> None:
        script = str(HERE / "scale_endpoint.py")
        self.command = [sys.executable, script, "--latency", str(latency), "--embed-latency", str(latency / 3)]

    def __enter__(self) -> str:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None  # noqa: S101
        return self.process.stdout.readline().strip()

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()


def run(python: str, worker: tuple[str, str, str], url: str, folder: str) -> list[dict[str, Any]]:
    """The steps that a fresh process reports."""
    given = {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_BASE": url,
        "OPENAI_API_KEY": "none",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "DSPY_CACHEDIR": f"{folder}/dspy",
        "STARTED": str(time.time()),
    }
    command = [python, str(HERE / "bench_mlflow.py"), "--worker", *worker]
    done = subprocess.run(
        command, env=dict(os.environ) | given, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


# -- in the worker --------------------------------------------------------------------------------------------------------


class Clock:
    """Prints a step when it is done."""

    def __init__(self) -> None:
        self.wall, self.cpu = float(os.environ["STARTED"]), 0.0

    def begin(self) -> None:
        """Start anew, with what was counted so far forgotten."""
        take()
        self.wall, self.cpu = time.time(), time.process_time()

    def step(self, name: str, **facts: Any) -> None:
        """Report what was done since the last report."""
        spent = {"seconds": round(time.time() - self.wall, 2), "cpu": round(time.process_time() - self.cpu, 2)}
        print(json.dumps({"step": name, **spent, **take(), **facts}), flush=True)
        self.begin()


def take() -> dict[str, Any]:
    """What the server counted since the last time."""
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/take", data=b"{}", method="POST")  # noqa: S310
    with urllib.request.urlopen(request) as reply:  # noqa: S310  # our own server
        counted: dict[str, Any] = json.load(reply)
    return counted


def work(part: str, side: str, store: str) -> None:
    """One part of a side's work."""
    clock = Clock()
    import mlflow
    from mlflow.genai.judges import make_judge
    from mlflow.genai.scorers import get_scorer

    if part == "write":
        mlflow.set_tracking_uri(store)
        write(int(side))
        return
    homes = {"memalign": "memalign.integrations.mlflow", "mlflow": "mlflow.genai.judges.optimizers"}
    optimizer = import_module(homes[side]).MemAlignOptimizer()
    clock.step("import")
    mlflow.set_tracking_uri(store)
    mlflow.set_experiment("bench")
    every = mlflow.search_traces(return_type="list", order_by=["timestamp_ms ASC"], max_results=1000)
    first, more, later = every[: -1 - LATER], every[:-LATER], every[-LATER:]
    name = f"helpful_{side}"
    clock.begin()
    if part == "learn":
        judge = make_judge(name="helpful", instructions=INSTRUCTIONS, model="openai:/small", feedback_value_type=bool)
        aligned = judge.align(traces=first, optimizer=optimizer)
        clock.step("align", guidelines=len(aligned._semantic_memory))  # noqa: SLF001
        aligned = aligned.align(traces=more, optimizer=optimizer)
        clock.step("align one more", guidelines=len(aligned._semantic_memory))  # noqa: SLF001
        if side == "memalign":
            aligned.register(name=name)
        else:
            aligned.register(name="helpful")
        clock.step("register")
        return
    judge = get_scorer(name=name if side == "memalign" else "helpful")
    judge(trace=later[0])
    clock.step("load and judge the first")
    for trace in later[1:]:
        judge(trace=trace)
    clock.step(f"judge {len(later) - 1} more")


def write(count: int) -> None:
    """Traces with a person's feedback on each."""
    import mlflow
    from mlflow.entities import AssessmentSource

    mlflow.set_experiment("bench")
    person = AssessmentSource(source_type="HUMAN", source_id="ana")
    for number in range(count):
        with mlflow.start_span("reply") as span:
            span.set_inputs({"query": f"Order {number} did not come on day {number % 7}, what now? " * 3})
            span.set_outputs(f"Parcel {number} is on its way and reaches you in {number % 5} days. " * 4)
        why = f"Case {number}: it should say who does what next, and apologise first."
        mlflow.log_feedback(trace_id=span.trace_id, name="helpful", value=number % 3 == 0, rationale=why, source=person)


if __name__ == "__main__":
    main()
