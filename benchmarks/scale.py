"""What does learning cost, and what is learned for it? memalign beside MLflow's MemAlign and DSPy's three optimizers.

    python benchmarks/scale.py scale.jsonl --competitors .competitors/bin/python --figure docs/images/scale.svg

competitors.py says how to make that environment; without one, memalign alone is measured. A server on this machine
stands for the provider, with a fixed latency. It answers everybody as one simulated model does (simulated.py): twenty
rules of a house, each stated by some of the experts' comments. Each method learns from 10, 50, 200 and 1,000 examples
from nothing, in a process of its own if it is a competitor's, and judges 200 unseen cases; then memory methods learn
one comment more, withdraw one and erase one. All have as many calls in flight at most. Dollars are list prices of
gpt-4.1-mini and its embeddings, and of TypeSafe's Jev for decisions, for the tokens that the server counts. Raw lines
are kept, and a run that was stopped goes on with what is missing; `--table` asks nothing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

from charts import Panel, Point, chart
from loopback import Loopback
from simulated import INSTRUCTIONS, MODELS, POLICIES, Competence, Policy, decide
from simulated import chat as simulated_chat
from simulated import rows as feedback_rows

import memalign as ma
from memalign.evaluation.intervals import share_interval

MODEL = "gpt-4.1-mini"
COMPETENCE = Competence(zero=0.6, following=0.9, distilling=0.9, reading=0.9, checking=0.9, seed=1)
POLICY = "twenty rules"
SIZES = (10, 50, 200, 1_000)
UNSEEN = 200
THREADS = 16
DOLLARS = {"tokens_in": 0.40, "cached": 0.10 - 0.40, "tokens_out": 1.60, "embed_tokens": 0.02, "decision_tokens": 0.042}
"""For a million: cached tokens are among those in, and cost less. Decisions: Jev, whose answers are free."""
COMPETITORS = ("MLflow's MemAlign", "MIPROv2", "SIMBA", "GEPA")
METHODS = ("memalign", "memalign, decision model", *COMPETITORS)
CHANGES = {METHODS[0]: 3, METHODS[1]: 3, METHODS[2]: 2}
"""How many of the changes a method can make; DSPy's would begin again."""

STEPS = ("align", "a judgment", "one more", "one withdrawn", "one erased")
SHARES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

Line = dict[str, Any]


class Memalign:
    """memalign in this process, with the chat model or with a decision model as judge."""

    def __init__(self, rows: Sequence[Line], base_url: str, name: str) -> None:
        self.rows, self.optimizer = rows, ma.MemAlign(concurrency=THREADS)
        decision = f"system-one:{MODEL}@{base_url}" if "decision" in name else None
        self.judge: ma.Judge[Any] = ma.Judge(
            name="house",
            instructions=INSTRUCTIONS,
            feedback_value_type=bool,
            model=decision or f"openai:{MODEL}",
            parameters={"reflection_model": f"openai:{MODEL}"} if decision else {},
        )
        self.judge.align(rows[:2], optimizer=self.optimizer)  # what is loaded once is loaded before any clock
        self.verdicts([{name: rows[0][name] for name in ("inputs", "outputs")}])

    def align(self, first: int, end: int) -> Line:
        """Learn some of the rows."""
        return self._learned(self.judge.align(self.rows[first:end], optimizer=self.optimizer))

    def withdraw(self, place: int) -> Line:
        """Forget one."""
        return self._learned(self.judge.unalign(self.rows[place]["id"]))

    def erase(self, place: int) -> Line:
        """Erase one from a registry."""
        with tempfile.TemporaryDirectory() as folder:
            registry = ma.Registry(f"sqlite:///{folder}/memalign.db")
            registry.create(self.judge)
            started = time.perf_counter()
            receipt = registry.erase("house", [self.rows[place]["id"]], optimizer=self.optimizer)
            seconds = time.perf_counter() - started
            self.judge = registry.load("house")
        return {"seconds": seconds, "answer": receipt.answer}

    def verdicts(self, items: Sequence[Line]) -> Line:
        """What it says about these."""
        if len(items) == 1:
            return {"values": [self.judge(**items[0]).value]}
        examples = [{"id": f"u-{number}", **item} for number, item in enumerate(items)]
        return {"values": [judgment.value for judgment in self.judge.judge_many(examples, concurrency=THREADS)]}

    def _learned(self, result: ma.AlignResult) -> Line:
        pending = [row.reason for row in result.rows if row.state == "pending"]
        if pending:
            raise RuntimeError(f"{len(pending)} rows are pending, the first because {pending[0]}")
        self.judge = result.judge
        return {"guidelines": len(self.judge.memory.guidelines)}


class Competitor:
    """A method of others, in a process of its environment; a context manager."""

    def __init__(self, python: Path, rows: Sequence[Line], base_url: str, name: str, **setup: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        home = self._folder.name
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            **dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "DSPY_CACHEDIR", "MPLCONFIGDIR"), home),
            **{"OPENAI_API_BASE": base_url, "OPENAI_BASE_URL": base_url},
            "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "not-needed"),
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else the import asks the network for a price list
            **{"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false"},
            "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow.db",
            "MLFLOW_GENAI_OPTIMIZE_MAX_WORKERS": str(THREADS),
        }
        self._process = subprocess.Popen(
            [str(python.absolute()), "-I", str(Path(__file__).with_name("competitors.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(Path(home) / "log").open("wb"),
            text=True,
            cwd=home,
            env=environment,
        )
        default = {"method": name, "rows": rows, "model": MODEL, "instructions": INSTRUCTIONS, "threads": THREADS}
        self._ask(**default | setup)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)
        self._folder.cleanup()

    def align(self, first: int, end: int) -> Line:
        """Learn some of the rows."""
        return self._ask(align=[first, end])

    def withdraw(self, place: int) -> Line:
        """Forget one."""
        return self._ask(withdraw=place)

    def verdicts(self, items: Sequence[Line]) -> Line:
        """What it says about these."""
        return self._ask(items=items)

    def _ask(self, **request: Any) -> Line:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        reply = self._process.stdout.readline()
        if not reply:
            raise RuntimeError(f"a competitor ended: {(Path(self._folder.name) / 'log').read_text('utf-8')[-2_000:]}")
        answer: Line = json.loads(reply)
        return answer


# -- measuring -------------------------------------------------------------------------------------------------------


def measured(method: Memalign | Competitor, policy: Policy, server: Loopback, head: Line) -> Iterator[Line]:
    """One line a step: what it took, what the server counted, and of unseen cases which verdicts are right."""
    unseen, size = policy.cases(UNSEEN, COMPETENCE.seed, first=100_000), head["size"]
    items = [case.fields for case in unseen]
    steps: list[tuple[str, Callable[[], Line]]] = [
        ("align", lambda: method.align(0, size)),
        ("a judgment", lambda: method.verdicts(items[:1])),
        ("unseen", lambda: method.verdicts(items)),
    ]
    changes: list[tuple[str, Callable[[], Line]]] = [
        ("one more", lambda: method.align(size, size + 1)),
        ("one withdrawn", lambda: method.withdraw(3)),
        ("one erased", lambda: cast("Memalign", method).erase(5)),
    ]
    for change in changes[: CHANGES.get(head["method"], 0)]:
        steps += [change, ("a judgment then", steps[1][1])]
    server.take(forget=True)
    for step, do in steps:
        started = time.perf_counter()
        line = do()
        seconds, counts = time.perf_counter() - started, server.take()
        values = line.pop("values", [])
        if step == "unseen":
            line["right"] = [value == policy.label(case) for value, case in zip(values, unseen, strict=True)]
        elif None in values:
            raise RuntimeError(f"{head}: {step}: no verdict")
        cost = sum(counts[kind] * dollars / 1e6 for kind, dollars in DOLLARS.items())
        yield {**head, "step": step, **counts, "cost": cost, "seconds": seconds} | line


def run(
    file: Path, python: Path | None, sizes: Sequence[int], latency: float, policies: Sequence[str] = (POLICY,)
) -> None:
    """Ask for what the file lacks: a method at a size is complete or not there."""
    done = {(line["policy"], line["size"], line["method"]) for line in read(file)}
    methods = METHODS if python is not None else METHODS[:2]
    with Loopback(simulated_chat, decide, latency=latency) as server, file.open("a", encoding="utf-8") as out:
        os.environ |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "not-needed"}
        for policy, size, name in itertools.product(policies, sizes, methods):
            if (policy, size, name) in done:
                continue
            MODELS[MODEL] = POLICIES[policy], COMPETENCE
            rows = feedback_rows(POLICIES[policy], size + 1, COMPETENCE.seed)
            head = {"policy": policy, "size": size, "method": name, "latency": latency}
            if name in COMPETITORS and python is not None:
                with Competitor(python, rows, server.base_url, name) as competitor:
                    lines = list(measured(competitor, POLICIES[policy], server, head))
            else:
                lines = list(measured(Memalign(rows, server.base_url, name), POLICIES[policy], server, head))
            out.writelines(json.dumps(line) + "\n" for line in lines)
            out.flush()
            print(f"{policy}, {size:,}, {name}: {lines[0]['seconds']:.1f} s", file=sys.stderr)


def read(file: Path) -> list[Line]:
    """The lines that are there."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []


# -- the tables and the figure ---------------------------------------------------------------------------------------


def table(lines: Sequence[Line]) -> str:
    """What each step took, and after an align the share of unseen cases that is right."""
    right = {(line["size"], line["method"]): line["right"] for line in lines if line["step"] == "unseen"}
    rows = [
        "| step | examples | method | seconds | calls | tokens in | out | dollars | right of unseen |",
        "|---" * 9 + "|",
    ]
    for line in sorted(lines, key=lambda line: STEPS.index(line["step"]) if line["step"] in STEPS else -1):
        key = line["size"], line["method"]
        if line["step"] in STEPS:
            calls = f"{line.get('calls', 0):,}" + (f" + {line['decisions']:,} d." if "decisions" in line else "")
            tokens = " | ".join(f"{line.get(kind, 0):,}" for kind in ("tokens_in", "tokens_out"))
            facts = f"{line['seconds']:,.2f} | {calls} | {tokens} | {line['cost']:.4f}"
            share = f"{sum(right[key]) / UNSEEN:.2f} {interval(right[key])}" if line["step"] == STEPS[0] else ""
            rows.append(f"| {line['step']} | {line['size']:,} | {line['method']} | {facts} | {share} |")
    return "\n".join(rows)


def interval(right: Sequence[bool]) -> str:
    """Wilson's, as the library gives it."""
    low, high = share_interval(right) or (0.0, 1.0)
    return f"[{low:.2f}, {high:.2f}]"


def figure(lines: Sequence[Line]) -> str:
    """Seconds, dollars and accuracy over the number of examples."""

    def points(step: str, value: Callable[[Line], float]) -> dict[str, list[Point]]:
        of = {name: [line for line in lines if (line["method"], line["step"]) == (name, step)] for name in METHODS}
        return {name: [Point(line["size"], value(line)) for line in some] for name, some in of.items()}

    panels = [
        Panel("Seconds to learn", (0.1, 1, 10, 100, 1_000), points("align", lambda line: line["seconds"])),
        Panel("Dollars to learn", (0.001, 0.01, 0.1, 1, 10), points("align", lambda line: line["cost"])),
        Panel("Right of unseen cases", SHARES, points("unseen", lambda line: sum(line["right"]) / UNSEEN)),
    ]
    return chart("What learning costs and gives, by the number of examples, for six methods", METHODS, panels)


def main() -> None:
    """Ask what is missing, print the tables, and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="raw lines, JSONL; made where it is not there, and gone on with")
    parser.add_argument("--competitors", type=Path, metavar="PYTHON", help="of their environment; without, ours alone")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--latency", type=float, default=0.5, help="seconds of a call of a chat or a decision model")
    parser.add_argument("--figure", type=Path, help="the SVG that is drawn")
    parser.add_argument("--table", action="store_true", help="only print the tables")
    options = parser.parse_args()
    if not options.table:
        run(options.file, options.competitors, options.sizes, options.latency)
    lines = read(options.file)
    print(table(lines))
    if options.figure:
        options.figure.write_text(figure(lines), "utf-8")


if __name__ == "__main__":
    main()
