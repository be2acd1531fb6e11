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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from loopback import Loopback
from shared import Line, judge_of, markdown, parser_of, share
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
        model = f"system-one:{MODEL}@{base_url}" if "decision" in name else writer
        self.rows = rows
        self.optimizer = ma.MemAlign(concurrency=THREADS)
        self.judge = judge_of("house", INSTRUCTIONS, model, writer)
        self.judge.align(rows[:2], optimizer=self.optimizer)
        self.judge(inputs=rows[0]["inputs"], outputs=rows[0]["outputs"])

    def __call__(self, **request: Any) -> Line:
        """Do one thing: `align` a slice of rows, `withdraw` or `erase` a row, or judge `items`."""
        if "align" in request:
            taught = self.rows[slice(*request["align"])]
            return self._learned(self.judge.align(taught, optimizer=self.optimizer))
        if "withdraw" in request:
            return self._learned(
                self.judge.unalign(self.rows[request["withdraw"]]["id"])
            )
        if "erase" in request:
            return self._erased(self.rows[request["erase"]]["id"])
        items = request["items"]
        if len(items) == 1:
            return {"values": [self.judge(**items[0]).value]}
        examples = [{"id": f"u-{number}", **item} for number, item in enumerate(items)]
        judgments = self.judge.judge_many(examples, concurrency=THREADS)
        return {"values": [judgment.value for judgment in judgments]}

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
    judgment = {"items": items[:1]}
    changes: dict[str, Line] = {
        "one more": {"align": [size, size + 1]},
        "one withdrawn": {"withdraw": 3},
        "one erased": {"erase": 5},
    }
    yield "align", {"align": [0, size]}
    yield "a judgment", judgment
    yield "unseen", {"items": items}
    for step in POSSIBLE.get(head["method"], ()):
        yield step, changes[step]
        yield "a judgment then", judgment


def measured(method: Method, server: Loopback, head: Line) -> Iterator[Line]:
    """Yield a line for each step: the time it took, what the server counted, what was right."""
    unseen = cases(UNSEEN, COMPETENCE.seed, first=100_000)
    labels = [case.label for case in unseen]
    server.take()
    for step, request in steps_of(head, [case.fields for case in unseen]):
        started = time.perf_counter()
        answer = method(**request)
        seconds = time.perf_counter() - started
        values = answer.pop("values", [])
        line = {**head, "step": step, **server.take(), "seconds": seconds, **answer}
        if step == "unseen":
            pairs = zip(values, labels, strict=True)
            line["right"] = [value == label for value, label in pairs]
        elif None in values:
            raise RuntimeError(f"{head}: {step}: no verdict")
        yield line


def read(file: Path) -> list[Line]:
    """Return the lines of a JSONL file; none if there is no file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def append(file: Path, lines: Iterable[Line]) -> None:
    """Add lines to a JSONL file."""
    with file.open("a", encoding="utf-8") as out:
        for line in lines:
            out.write(json.dumps(line) + "\n")


def run(file: Path, python: Path | None, sizes: Sequence[int], latency: float) -> None:
    """Ask for what the file lacks: a method at a size is in it completely or not at all."""
    done = {(line["size"], line["method"]) for line in read(file)}
    MODELS[MODEL] = COMPETENCE
    with Loopback(chat, decide, latency=latency) as server:
        os.environ["OPENAI_BASE_URL"] = server.base_url
        os.environ["OPENAI_API_KEY"] = "not-needed"
        for size in sizes:
            rows = feedback_rows(size + 1, COMPETENCE.seed)
            for name in METHODS if python is not None else OURS:
                if (size, name) in done:
                    continue
                head = {"size": size, "method": name, "latency": latency}
                with started(name, rows, server.base_url, python) as method:
                    lines = list(measured(method, server, head))
                append(file, lines)
                seconds = f"{lines[0]['seconds']:.1f} s"
                print(f"{size:,}, {name}: {seconds}", file=sys.stderr)


def started(
    name: str, rows: Sequence[Line], base_url: str, python: Path | None
) -> AbstractContextManager[Method]:
    """Set a method up, in this process or in one of its environment."""
    if python is None or name in OURS:
        return nullcontext(Memalign(rows, base_url, name))
    return competitor(python, rows, base_url, name)


def cost(line: Line) -> float:
    """Return the dollars of a step, at list price."""
    total: float = sum(
        line.get(kind, 0) * dollars / 1e6 for kind, dollars in DOLLARS.items()
    )
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
    curves: list[tuple[Any, str, Callable[[Line], float]]] = [
        (seconds, "align", lambda line: line["seconds"]),
        (dollars, "align", cost),
        (right, "unseen", lambda line: statistics.fmean(line["right"])),
    ]
    for plot, step, value in curves:
        for method in METHODS:
            sizes = []
            heights = []
            for line in lines:
                if line["step"] == step and line["method"] == method:
                    sizes.append(line["size"])
                    heights.append(value(line))
            plot.plot(sizes, heights, marker="o", label=method)
    seconds.set(title="Seconds to learn", xscale="log", yscale="log")
    dollars.set(title="Dollars to learn", xscale="log", yscale="log")
    right.set(title="Right of unseen cases", xscale="log", ylim=(0.5, 1))
    handles, names = seconds.get_legend_handles_labels()
    page.legend(handles, names, loc="outside lower center", ncols=3)
    page.savefig(path, format="svg")


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
    lines = read(options.file)
    print(table(lines))
    if options.figure:
        draw(lines, options.figure)


if __name__ == "__main__":
    main()
