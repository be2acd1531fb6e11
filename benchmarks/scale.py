"""What does learning cost, and what is learned for it? memalign beside MLflow's MemAlign and DSPy's three optimizers.

    python benchmarks/scale.py scale.jsonl --competitors .competitors/bin/python --figure docs/images/scale.svg

Without competitors (competitors.py) memalign alone is measured. A server on this machine answers all
methods as one simulated model (simulated.py), after a fixed latency; all have as many calls in flight at most. Each
learns from 10, 50, 200 and 1,000 examples from nothing, and judges 200 unseen cases. Then memory methods learn one
comment more, withdraw one and erase one. Dollars are list prices of gpt-4.1-mini and its embeddings, and of TypeSafe's
Jev for decisions, without a provider's cache. The same command completes a run that was stopped.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from charts import Panel, Point, chart
from loopback import Loopback
from shared import Line, append, judge_of, markdown, read, share, simulation_parser
from simulated import INSTRUCTIONS, MODELS, POLICIES, Competence, decide
from simulated import chat as simulated_chat
from simulated import rows as feedback_rows

import memalign as ma

MODEL = "gpt-4.1-mini"
COMPETENCE = Competence(zero=0.6, following=0.9, distilling=0.9, reading=0.9, checking=0.9, seed=1)
POLICY = "twenty rules"
SIZES = (10, 50, 200, 1_000)
UNSEEN = 200
THREADS = 16
DOLLARS = {"tokens_in": 0.40, "tokens_out": 1.60, "embed_tokens": 0.02, "decision_tokens": 0.042}
"""For a million, as if no provider had a cache. Decisions: Jev, whose answers are free."""
COMPETITORS = ("MLflow's MemAlign", "MIPROv2", "SIMBA", "GEPA")
METHODS = ("memalign", "memalign, decision model", *COMPETITORS)
CHANGES = ("one more", "one withdrawn", "one erased")
CHANGED = {
    METHODS[0]: 3,
    METHODS[1]: 3,
    METHODS[2]: 2,
}  # how many a method can do; DSPy's would begin again
Method = Callable[..., Line]


class Memalign:
    """memalign in this process, with the chat model or with a decision model as judge."""

    def __init__(self, rows: Sequence[Line], base_url: str, name: str) -> None:
        self.rows, self.optimizer = rows, ma.MemAlign(concurrency=THREADS)
        writer, decider = f"openai:{MODEL}", f"system-one:{MODEL}@{base_url}"
        self.judge = judge_of(
            "house", INSTRUCTIONS, decider if "decision" in name else writer, writer
        )
        self.judge.align(
            rows[:2], optimizer=self.optimizer
        )  # what is loaded once is loaded before any clock
        self.judge(inputs=rows[0]["inputs"], outputs=rows[0]["outputs"])

    def __call__(
        self,
        *,
        align: Any = (),
        withdraw: Any = None,
        erase: Any = None,
        items: Sequence[Line] = (),
    ) -> Line:
        """Learn the rows from one number to another, withdraw or erase a row, or judge items."""
        if align:
            return self._learned(
                self.judge.align(self.rows[slice(*align)], optimizer=self.optimizer)
            )
        if withdraw is not None:
            return self._learned(self.judge.unalign(self.rows[withdraw]["id"]))
        if erase is not None:
            return self._erased(self.rows[erase]["id"])
        if len(items) == 1:
            return {"values": [self.judge(**items[0]).value]}
        examples = [{"id": f"u-{number}", **item} for number, item in enumerate(items)]
        return {
            "values": [
                judgment.value for judgment in self.judge.judge_many(examples, concurrency=THREADS)
            ]
        }

    def _learned(self, result: ma.AlignResult) -> Line:
        pending = [row.reason for row in result.rows if row.state == "pending"]
        if pending:
            raise RuntimeError(f"{len(pending)} rows are pending, the first because {pending[0]}")
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
    python: Path, rows: Sequence[Line], base_url: str, name: str, **setup: Any
) -> Iterator[Method]:
    """A method of others in a process of its environment, which is asked as `Memalign` is, but erases nothing."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        log = Path(home) / "log"
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            **dict.fromkeys(
                ("HOME", "TMPDIR", "XDG_CACHE_HOME", "DSPY_CACHEDIR", "MPLCONFIGDIR"), home
            ),
            **dict.fromkeys(("OPENAI_API_BASE", "OPENAI_BASE_URL"), base_url),
            "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "not-needed"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks the network for a price list
            **{"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false"},
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "MLFLOW_GENAI_OPTIMIZE_MAX_WORKERS": str(THREADS),
        }
        command = [str(python.absolute()), "-I", str(Path(__file__).with_name("competitors.py"))]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log.open("wb")}
        with subprocess.Popen(command, text=True, cwd=home, env=environment, **pipes) as process:

            def ask(**request: Any) -> Line:
                print(json.dumps(request), file=process.stdin, flush=True)
                if not (reply := process.stdout.readline() if process.stdout else ""):
                    raise RuntimeError(f"a competitor ended: {log.read_text('utf-8')[-2_000:]}")
                return dict(json.loads(reply))

            default = {
                "method": name,
                "rows": rows,
                "model": MODEL,
                "instructions": INSTRUCTIONS,
                "threads": THREADS,
            }
            ask(**default | setup)
            yield ask


def measured(method: Method, server: Loopback, head: Line) -> Iterator[Line]:
    """One line a step: what it took, what the server counted, and of unseen cases which verdicts are right."""
    policy, size = POLICIES[head["policy"]], head["size"]
    unseen = policy.cases(UNSEEN, COMPETENCE.seed, first=100_000)
    items = [case.fields for case in unseen]
    judgment: Line = {"items": items[:1]}
    steps: list[tuple[str, Line]] = [("align", {"align": [0, size]}), ("a judgment", judgment)]
    steps.append(("unseen", {"items": items}))
    changes = ({"align": [size, size + 1]}, {"withdraw": 3}, {"erase": 5})
    for step, change in zip(CHANGES, changes[: CHANGED.get(head["method"], 0)], strict=False):
        steps += [(step, change), ("a judgment then", judgment)]
    server.take()
    for step, request in steps:
        started = time.perf_counter()
        line = method(**request)
        seconds, counts = time.perf_counter() - started, server.take()
        values = line.pop("values", [])
        if step == "unseen":
            line["right"] = [
                value == policy.label(case) for value, case in zip(values, unseen, strict=True)
            ]
        elif None in values:
            raise RuntimeError(f"{head}: {step}: no verdict")
        yield {**head, "step": step, **counts, "seconds": seconds} | line


def run(
    file: Path, python: Path | None, sizes: Sequence[int], latency: float, policies: Sequence[str]
) -> None:
    """Ask for what the file lacks: a method at a size is complete or not there."""
    done = {(line["policy"], line["size"], line["method"]) for line in read(file)}
    methods = METHODS if python is not None else METHODS[:2]
    with Loopback(simulated_chat, decide, latency=latency) as server:
        os.environ |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "not-needed"}
        for policy, size, name in itertools.product(policies, sizes, methods):
            if (policy, size, name) in done:
                continue
            MODELS[MODEL] = POLICIES[policy], COMPETENCE
            rows = feedback_rows(POLICIES[policy], size + 1, COMPETENCE.seed)
            head = {"policy": policy, "size": size, "method": name, "latency": latency}
            if name in COMPETITORS and python is not None:
                with competitor(python, rows, server.base_url, name) as method:
                    lines = list(measured(method, server, head))
            else:
                lines = list(measured(Memalign(rows, server.base_url, name), server, head))
            append(file, lines)
            print(f"{policy}, {size:,}, {name}: {lines[0]['seconds']:.1f} s", file=sys.stderr)


def cost(line: Line) -> float:
    """Dollars of a step, at list price."""
    return float(sum(line.get(kind, 0) * dollars / 1e6 for kind, dollars in DOLLARS.items()))


def table(lines: Sequence[Line]) -> str:
    """What each step took, and after an align the share of unseen cases that is right."""
    right = {
        (line["size"], line["method"]): line["right"] for line in lines if line["step"] == "unseen"
    }
    rows = []
    for step, line in itertools.product(("align", "a judgment", *CHANGES), lines):
        if line["step"] == step:
            calls = f"{line.get('calls', 0):,}" + (
                f" + {line['decisions']:,} d." if "decisions" in line else ""
            )
            tokens = [f"{line.get(kind, 0):,}" for kind in ("tokens_in", "tokens_out")]
            row = [
                step,
                f"{line['size']:,}",
                line["method"],
                f"{line['seconds']:,.2f}",
                calls,
                *tokens,
            ]
            accuracy = (
                f"{share(right[line['size'], line['method']]):.2f}" if step == "align" else ""
            )
            rows.append([*row, f"{cost(line):.4f}", accuracy])
    titles = (
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
    return markdown(titles, rows)


def figure(lines: Sequence[Line]) -> str:
    """Seconds, dollars and accuracy over the number of examples."""

    def points(step: str, value: Callable[[Line], float]) -> dict[str, list[Point]]:
        of = {
            name: [line for line in lines if (line["method"], line["step"]) == (name, step)]
            for name in METHODS
        }
        return {
            name: [Point(line["size"], value(line)) for line in some] for name, some in of.items()
        }

    panels = [
        Panel(
            "Seconds to learn",
            (0.1, 1, 10, 100, 1_000),
            points("align", lambda line: line["seconds"]),
        ),
        Panel("Dollars to learn", (0.001, 0.01, 0.1, 1, 10), points("align", cost)),
        Panel(
            "Right of unseen cases",
            (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
            points("unseen", lambda line: sum(line["right"]) / UNSEEN),
        ),
    ]
    return chart(
        "What learning costs and gives, by the number of examples, for six methods", METHODS, panels
    )


def main() -> None:
    """Ask what is missing, print the tables, and draw."""
    parser = simulation_parser(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of a call")
    options = parser.parse_args()
    if not options.table:
        run(options.file, options.competitors, options.sizes, options.latency, [POLICY])
    lines = read(options.file)
    print(table(lines))
    if options.figure:
        options.figure.write_text(figure(lines), "utf-8")


if __name__ == "__main__":
    main()
