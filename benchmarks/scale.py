"""What does learning cost, and what is learned for it? memalign beside MLflow's MemAlign and DSPy.

    python benchmarks/scale.py scale.jsonl --competitors .competitors/bin/python --figure scale.svg

Without competitors (competitors.py) memalign alone is measured. A server on this machine answers
all methods as one simulated model (simulated.py), after a fixed latency; all have as many calls in
flight at most. Each learns from 10, 50, 200 and 1,000 examples from nothing, and judges 200 unseen
cases. Then memory methods learn one comment more, withdraw one and erase one. Dollars are list
prices of gpt-4.1-mini and its embeddings, and of TypeSafe's Jev for decisions, without a provider's
cache. The same command completes a run that was stopped.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from loopback import Loopback
from shared import Line, judge_of, markdown, parser_of, read_lines, share, write_lines
from simulated import INSTRUCTIONS, MODELS, Competence, cases, chat, decide
from simulated import rows as feedback_rows

import memalign as ma

MODEL = "gpt-4.1-mini"
COMPETENCE = Competence(zero=0.6, following=0.9, distilling=0.9, reading=0.9, seed=1)
SIZES = (10, 50, 200, 1_000)
UNSEEN = 200
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
METHODS = (*OURS, MLFLOW, "MIPROv2", "SIMBA", "GEPA")
CHANGES = ("one more", "one withdrawn", "one erased")
POSSIBLE = {OURS[0]: CHANGES, OURS[1]: CHANGES, MLFLOW: CHANGES[:2]}
"""What a method can do to what it learned; DSPy's would begin again."""
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


class Memalign:
    """memalign in this process, with the chat model or with a decision model as judge.

    Everything that is loaded once is loaded when it is made, before any clock.
    """

    def __init__(self, rows: Sequence[Line], base_url: str, name: str) -> None:
        writer = f"openai:{MODEL}"
        model = writer
        if "decision" in name:
            model = f"system-one:{MODEL}@{base_url}"
        self.rows = rows
        self.optimizer = ma.MemAlign(concurrency=THREADS)
        self.judge = judge_of("house", INSTRUCTIONS, model, writer)
        self.judge.align(rows[:2], optimizer=self.optimizer)
        first = rows[0]
        self.judge(inputs=first["inputs"], outputs=first["outputs"])

    def __call__(self, **request: Any) -> Line:
        """Do one thing: `align` a slice of rows, `withdraw` or `erase` a row, or judge `items`."""
        if "align" in request:
            first, end = request["align"]
            taught = self.rows[first:end]
            return self._learned(self.judge.align(taught, optimizer=self.optimizer))
        if "withdraw" in request:
            row = self.rows[request["withdraw"]]
            return self._learned(self.judge.unalign(row["id"]))
        if "erase" in request:
            row = self.rows[request["erase"]]
            return self._erased(row["id"])
        return {"values": self._judged(request["items"])}

    def _judged(self, items: Sequence[Line]) -> list[Any]:
        if len(items) == 1:
            return [self.judge(**items[0]).value]
        examples = []
        for number, item in enumerate(items):
            examples.append({"id": f"u-{number}", **item})
        judgments = self.judge.judge_many(examples, concurrency=THREADS)
        return [judgment.value for judgment in judgments]

    def _learned(self, result: ma.AlignResult) -> Line:
        pending = [row.reason for row in result.rows if row.state == "pending"]
        if pending:
            raise RuntimeError(
                f"{len(pending)} rows are pending, the first because {pending[0]}"
            )
        self.judge = result.judge
        return {"guidelines": len(self.judge.memory.guidelines)}

    def _erased(self, name: str) -> Line:
        with tempfile.TemporaryDirectory() as folder:
            registry = ma.Registry(f"sqlite:///{folder}/memalign.db")
            registry.create(self.judge)
            started = time.perf_counter()
            receipt = registry.erase("house", [name], optimizer=self.optimizer)
            seconds = time.perf_counter() - started
            self.judge = registry.load("house")
        return {"seconds": seconds, "answer": receipt.answer}


@contextmanager
def competitor(
    python: Path, rows: Sequence[Line], base_url: str, name: str
) -> Iterator[Method]:
    """Start another method in a process of its environment.

    Args:
        python: The interpreter of that environment.
        rows: What it may learn.
        base_url: The address of the model.
        name: The method.

    Yields:
        A function that is called as `Memalign` is, but erases nothing.
    """
    script = Path(__file__).with_name("competitors.py")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        log = Path(home, "log")
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [python.absolute(), "-I", script],
                text=True,
                cwd=home,
                env=_environment(home, base_url),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as process,
        ):

            def ask(**request: Any) -> Line:
                print(json.dumps(request), file=process.stdin, flush=True)
                reply = process.stdout.readline() if process.stdout else ""
                if not reply:
                    raise RuntimeError(
                        f"{name} ended: {log.read_text('utf-8')[-2_000:]}"
                    )
                line: Line = json.loads(reply)
                return line

            ask(
                method=name,
                rows=rows,
                model=MODEL,
                instructions=INSTRUCTIONS,
                threads=THREADS,
            )
            yield ask


def _environment(home: str, base_url: str) -> dict[str, str]:
    environment = {
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
        environment[name] = home
    for name in ("PATH", "LANG"):
        if name in os.environ:
            environment[name] = os.environ[name]
    return environment


def steps_of(head: Line, items: Sequence[Line]) -> Iterator[tuple[str, Line]]:
    """Yield the steps of a method at a size, by name, each with what the method is asked."""
    size = head["size"]
    changes: dict[str, Line] = {
        "one more": {"align": [size, size + 1]},
        "one withdrawn": {"withdraw": 3},
        "one erased": {"erase": 5},
    }
    yield "align", {"align": [0, size]}
    yield "a judgment", {"items": items[:1]}
    yield "unseen", {"items": items}
    for step in POSSIBLE.get(head["method"], ()):
        yield step, changes[step]


def measured(method: Method, server: Loopback, head: Line) -> Iterator[Line]:
    """Yield a line for each step: the time it took, what the server counted, what was right."""
    unseen = cases(UNSEEN, COMPETENCE.seed, first=100_000)
    items = [case.fields for case in unseen]
    server.take()
    for step, request in steps_of(head, items):
        started = time.perf_counter()
        answer = method(**request)
        seconds = time.perf_counter() - started
        values = answer.pop("values", [])
        counts = server.take()
        line = {**head, "step": step, **counts, "seconds": seconds, **answer}
        if step == "unseen":
            right = []
            for value, case in zip(values, unseen, strict=True):
                right.append(value == case.label)
            line["right"] = right
        elif None in values:
            raise RuntimeError(f"{head}: {step}: no verdict")
        yield line


def run(file: Path, python: Path | None, sizes: Sequence[int], latency: float) -> None:
    """Ask for what the file lacks: a method at a size is in it completely or not at all."""
    done = [(line["size"], line["method"]) for line in read_lines(file)]
    methods = OURS if python is None else METHODS
    MODELS[MODEL] = COMPETENCE
    with Loopback(chat, decide, latency=latency) as server:
        address = server.base_url
        os.environ["OPENAI_BASE_URL"] = address
        os.environ["OPENAI_API_KEY"] = "not-needed"
        for size in sizes:
            rows = feedback_rows(size + 1, COMPETENCE.seed)
            for name in methods:
                if (size, name) in done:
                    continue
                head = {"size": size, "method": name, "latency": latency}
                with started(name, rows, address, python) as method:
                    lines = list(measured(method, server, head))
                write_lines(file, lines, "a")
                seconds = lines[0]["seconds"]
                print(f"{size:,}, {name}: {seconds:.1f} s", file=sys.stderr)


def started(
    name: str, rows: Sequence[Line], base_url: str, python: Path | None
) -> AbstractContextManager[Method]:
    """Set a method up, in this process or in one of its environment."""
    if python is None or name in OURS:
        return nullcontext(Memalign(rows, base_url, name))
    return competitor(python, rows, base_url, name)


def cost(line: Line) -> float:
    """Return the dollars of a step, at list price."""
    total = 0.0
    for kind, dollars in DOLLARS.items():
        tokens = line.get(kind, 0)
        total += tokens * dollars / 1e6
    return total


def table(lines: Sequence[Line]) -> str:
    """Return what each step took, and for an align the share of unseen cases that is right."""
    right = {}
    for line in lines:
        if line["step"] == "unseen":
            right[line["size"], line["method"]] = f"{share(line['right']):.2f}"
    rows = []
    for step in ("align", "a judgment", *CHANGES):
        for line in lines:
            if line["step"] != step:
                continue
            calls = f"{line.get('calls', 0):,}"
            if "decisions" in line:
                calls += f" + {line['decisions']:,} d."
            row = [
                step,
                f"{line['size']:,}",
                line["method"],
                f"{line['seconds']:,.2f}",
                calls,
                f"{line.get('tokens_in', 0):,}",
                f"{line.get('tokens_out', 0):,}",
                f"{cost(line):.4f}",
                right[line["size"], line["method"]] if step == "align" else "",
            ]
            rows.append(row)
    return markdown(TITLES, rows)


def draw(lines: Sequence[Line], path: Path) -> None:
    """Draw seconds, dollars and accuracy over the number of examples, a line for each method."""
    from matplotlib.figure import Figure  # takes a second, and only the figure needs it

    page = Figure(figsize=(8.3, 3.8), layout="constrained")
    seconds, dollars, right = page.subplots(1, 3)
    draw_curves(seconds, lines, "align", lambda line: line["seconds"])
    draw_curves(dollars, lines, "align", cost)
    draw_curves(right, lines, "unseen", lambda line: statistics.fmean(line["right"]))
    seconds.set(title="Seconds to learn", xscale="log", yscale="log")
    dollars.set(title="Dollars to learn", xscale="log", yscale="log")
    right.set(title="Right of unseen cases", xscale="log", ylim=(0.5, 1))
    handles, names = seconds.get_legend_handles_labels()
    page.legend(handles, names, loc="outside lower center", ncols=3)
    page.savefig(path, format="svg")


def draw_curves(
    plot: Any, lines: Sequence[Line], step: str, value: Callable[[Line], float]
) -> None:
    """Draw a figure of a step for each method, over the number of examples."""
    for method in METHODS:
        sizes = []
        heights = []
        for line in lines:
            if line["step"] == step and line["method"] == method:
                sizes.append(line["size"])
                heights.append(value(line))
        plot.plot(sizes, heights, marker="o", label=method)


def main() -> None:
    """Ask for what is missing, print the table, and draw."""
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
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of a call")
    parser.add_argument("--figure", type=Path, help="the SVG to draw")
    options = parser.parse_args()
    run(options.file, options.competitors, options.sizes, options.latency)
    lines = read_lines(options.file)
    print(table(lines))
    if options.figure:
        draw(lines, options.figure)


if __name__ == "__main__":
    main()
