"""Time, calls, tokens and cost of align against the number of examples: memalign and MLflow's MemAlign, side by side.

    python benchmarks/bench_scale.py results/scale.json     about 20 minutes
    python benchmarks/scale_figure.py results/scale.json    the tables and the figure, from that file

Both ask the same server on this machine (`scale_endpoint.py`): a second a chat call, a tenth a call for embeddings, calls
side by side. Rows are invented. MLflow's MemAlign needs the competitors' environment (`benchmarks/competitors/`); without it only
memalign is measured. `results/scale.md` says what is measured and what not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import memalign as ma
from memalign.types import Usage
from memalign_bench import competitors
from memalign_bench.methods.competitor import DEFAULT_WORKERS, SETUP, competitor_environment
from memalign_bench.prices import Prices

HERE = Path(__file__).parent
SIZES = (10, 50, 100, 200, 500, 1000)
VARIANT_SIZES = (50, 200, 1000)
COMPETITOR = Path(".competitors/bin/python")
JUDGED = 6  # the first, and five later ones
COMPETITOR_TIMEOUT = 900.0  # seconds of a step; the longest, logging 1,001 traces, took it three minutes
LONG = 60.0  # seconds: what takes longer is run once
MODEL = "gpt-4.1-mini"
EMBEDDING = "text-embedding-3-small"
PRICES = Prices(input=0.40, cached=0.10, output=1.60)
EMBEDDING_PRICE = 0.02  # US dollars per million tokens
INSTRUCTIONS = "Is the reply helpful to the customer?\nQuery: {{ inputs }}\nReply: {{ outputs }}"

VARIANTS: dict[str, dict[str, Any]] = {
    "4 calls in flight": {"environment": {"MEMALIGN_CONCURRENCY": "4"}},
    "64 calls in flight": {"environment": {"MEMALIGN_CONCURRENCY": "64"}},
    "--careful": {"careful": True},
    "without asking checks": {"stages": frozenset({"distil", "consolidate", "budget"})},
    "50 pieces of feedback a call": {"shard_size": 50},
    "the provider's embeddings": {"embedding_model": f"openai:{EMBEDDING}"},
}
"""memalign with other settings than its defaults."""

AT_MOST = {"4 calls in flight": 200}
"""Variants that take minutes at larger sizes, and say nothing new there."""


def rows(count: int) -> list[dict[str, Any]]:
    """Short support replies with an expert's label and comment; the same every time, no two alike."""
    rng = random.Random(0)
    things = [
        "parcel",
        "kettle",
        "invoice",
        "lamp",
        "subscription",
        "jacket",
        "router",
        "voucher",
        "bicycle",
        "account",
        "printer",
        "ticket",
    ]
    troubles = (
        "has not come",
        "is broken",
        "was charged twice",
        "has the wrong size",
        "stopped working after two days",
        "cannot be opened",
    )
    wishes = ("I want my money back", "Please send another one", "Who can help me", "When will this be solved")
    openings = ("Thank you for writing", "We are sorry to hear that", "Please note our terms", "Hello")
    steps = (
        "a colleague calls you tomorrow before noon",
        "you will find the form on our page",
        "the amount is back on your card in three days",
        "such cases take their time",
        "our warehouse sends a new one today",
        "nothing can be done from here",
    )
    reasons = (
        "It names the next step and when it comes, so the customer need not ask again.",
        "It hides behind the terms and does not answer what was asked.",
        "An apology alone helps nobody; who does what by when is missing.",
        "Short, warm and complete: this is how we want to write.",
        "The customer has to find the form alone; we always give the link.",
        "It promises a date that only the carrier could promise.",
    )
    made = []
    for number in range(count):
        thing, order = rng.choice(things), 10_000 + 7 * number
        step = rng.randrange(len(steps))
        made.append(
            {
                "id": f"t-{number:04}",
                "inputs": f"My {thing} (order {order}) {rng.choice(troubles)}. {rng.choice(wishes)}?",
                "outputs": f"{rng.choice(openings)}. About order {order}: {steps[step]}. The {thing} stays on our list.",
                "value": step in (0, 2, 4),
                "rationale": f"{rng.choice(reasons)} This was about a {thing}.",
                "source": rng.choice(("ana", "ben", "chloe")),
            }
        )
    return made


class Endpoint:
    """The server, in a process of its own so that its CPU seconds are nobody else's."""

    def __init__(self, *, latency: float, embed_latency: float) -> None:
        command = [sys.executable, str(HERE / "scale_endpoint.py")]
        command += ["--latency", str(latency), "--embed-latency", str(embed_latency)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None  # noqa: S101  # it is a pipe
        self.base_url = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def take(self, *, forget: bool = False) -> dict[str, Any]:
        """What was asked since the last time, with its cost; with `forget`, the cache is empty from here on."""
        request = urllib.request.Request(  # noqa: S310  # our own server
            f"{self.base_url}/take", data=json.dumps({"forget": forget}).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            counts: dict[str, Any] = json.loads(response.read())
        usage = Usage(
            input_tokens=counts["tokens_in"], cached_tokens=counts["cached"], output_tokens=counts["tokens_out"]
        )
        return {**counts, "cost": PRICES.of(usage) + counts["embed_tokens"] * EMBEDDING_PRICE / 1e6}


class Side(Protocol):
    """One of the two that are compared; every step gives its `seconds` (wall), `cpu`, and facts about the result."""

    name: str

    def align(self, n: int) -> dict[str, Any]:
        """Learn the first `n` rows, from nothing."""
        ...

    def more(self, n: int) -> dict[str, Any]:
        """Learn row `n` (from 0) as well."""
        ...

    def judge(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Judge one item."""
        ...


class Memalign:
    """memalign, through its provider adapter, in this process."""

    def __init__(
        self,
        given: Sequence[dict[str, Any]],
        *,
        name: str = "memalign",
        environment: dict[str, str] | None = None,
        **knobs: Any,
    ) -> None:
        self.name = name
        self._rows = given
        self._environment = environment or {}
        self._optimizer = ma.MemAlign(**knobs)
        self._base = ma.Judge(
            name="helpfulness", instructions=INSTRUCTIONS, feedback_value_type=bool, model=f"openai:{MODEL}"
        )
        self._judge = self._base

    def align(self, n: int) -> dict[str, Any]:
        """Learn the first `n` rows, from nothing."""
        return self._learn(self._base, self._rows[:n])

    def more(self, n: int) -> dict[str, Any]:
        """Learn row `n` as well."""
        return self._learn(self._judge, [self._rows[n]])

    def judge(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Judge one item."""
        with self._clock() as took:
            judgment = self._judge(**fields)
        if judgment.error is not None:
            raise RuntimeError(judgment.error)
        return took

    def _learn(self, judge: ma.Judge, feedback: Sequence[dict[str, Any]]) -> dict[str, Any]:
        with self._clock() as took:
            result = judge.align(feedback, optimizer=self._optimizer)
        left = [row for row in result.rows if row.state not in ("learned", "merged")]
        if left:
            raise RuntimeError(f"{self.name}: {len(left)} rows were not learned, the first because {left[0].reason}")
        self._judge = result.judge
        phases = {phase: round(seconds, 3) for phase, seconds in result.usage.seconds.items()}
        memory = self._judge.memory
        return {**took, "guidelines": len(memory.guidelines), "examples": len(memory.cases), "phases": phases}

    @contextlib.contextmanager
    def _clock(self) -> Iterator[dict[str, Any]]:
        took: dict[str, Any] = {}
        before = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield took
        finally:
            took.update(seconds=time.perf_counter() - wall, cpu=time.process_time() - cpu)
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})


class MLflow:
    """MLflow's MemAlign, in a process of the competitors' environment; its traces are logged before any clock starts.

    A step that takes longer than `timeout` seconds ends the process, and is an error.
    """

    name = "mlflow"

    def __init__(
        self,
        given: Sequence[dict[str, Any]],
        *,
        python: Path,
        base_url: str,
        home: Path,
        timeout: float = COMPETITOR_TIMEOUT,
        script: Path = HERE / "scale_competitor.py",
    ) -> None:
        self._timeout = timeout
        method = Path(competitors.__file__).with_name("mlflow_worker.py")
        with (home / "mlflow.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(python.absolute()), "-I", str(script.absolute()), str(method)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=home,
                env=competitor_environment(str(home), base_url, DEFAULT_WORKERS),
            )
        self._log = home / "mlflow.log"
        started = time.perf_counter()
        self.traces = self._ask(
            {
                "op": "traces",
                "name": "helpfulness",
                "instructions": INSTRUCTIONS,
                "values": {"kind": "bool"},
                "model": MODEL,
                "embedding": f"openai:/{EMBEDDING}",
                "rows": list(given),
            }
        )
        self.traces["process"] = time.perf_counter() - started

    def align(self, n: int) -> dict[str, Any]:
        """Learn the first `n` traces, from nothing."""
        return self._ask({"op": "align", "n": n})

    def more(self, n: int) -> dict[str, Any]:
        """Learn trace `n` as well."""
        return self._ask({"op": "more", "n": n})

    def judge(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Judge one item."""
        return self._ask({"op": "judge", "fields": fields})

    def close(self) -> None:
        """End its process: by asking, and after a minute without."""
        if self._process.poll() is not None:
            return
        try:
            self._process.communicate(json.dumps({"op": "close"}) + "\n", timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None  # noqa: S101  # they are pipes
        assert self._process.stdout is not None  # noqa: S101
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()  # ends the wait for its reply

        watch = threading.Timer(self._timeout, give_up)
        watch.start()
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if line:
            reply: dict[str, Any] = json.loads(line)
        else:
            self._process.kill()
            self._process.communicate()  # closes its pipes
            reply = {"error": f"no answer in {self._timeout:g} s" if late.is_set() else "its process ended"}
        if "error" in reply:
            said = self._log.read_text("utf-8", "replace").splitlines()[-5:]
            raise RuntimeError(f"mlflow: {request['op']}: {reply['error']}; its log ends: {' / '.join(said)}")
        return reply


def measure(side: Side, endpoint: Endpoint, n: int, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One round: align on `n` rows from nothing, judge six items, learn one row more."""
    endpoint.take(forget=True)
    align = {**side.align(n), **endpoint.take()}
    judged = [{**side.judge(item), **endpoint.take()} for item in items]
    more = {**side.more(n), **endpoint.take()}
    return {"side": side.name, "n": n, "align": align, "judged": judged, "more": more}


def run(
    *,
    sizes: Sequence[int] = SIZES,
    runs: int = 3,
    latency: float = 1.0,
    embed_latency: float = 0.1,
    competitor: Path | None = COMPETITOR,
    variant_sizes: Sequence[int] = VARIANT_SIZES,
) -> dict[str, Any]:
    """All rounds. Both sides take turns, so that a busy minute is busy for both."""
    given = rows(max(sizes) + 1)
    items = [{name: row[name] for name in ("inputs", "outputs")} for row in rows(max(sizes) + 1 + JUDGED)[-JUDGED:]]
    kept = {name: os.environ.get(name) for name in ("OPENAI_BASE_URL", "MEMALIGN_CONCURRENCY")}
    with contextlib.ExitStack() as stack:
        stack.callback(_restore, kept)
        endpoint = stack.enter_context(Endpoint(latency=latency, embed_latency=embed_latency))
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scale-", ignore_cleanup_errors=True)))
        os.environ["OPENAI_BASE_URL"] = endpoint.base_url
        os.environ.pop("MEMALIGN_CONCURRENCY", None)
        sides: list[Side] = [Memalign(given)]
        facts: dict[str, Any] = {"memalign": ma.__version__, "latency": latency, "embed_latency": embed_latency}
        if competitor is not None:
            mlflow = MLflow(given, python=competitor, base_url=endpoint.base_url, home=home)
            stack.callback(mlflow.close)
            sides.append(mlflow)
            facts |= {"mlflow": mlflow.traces["version"], "traces": mlflow.traces}
            _say(f"{len(given)} traces logged in {mlflow.traces['logging']:.0f} s")
        # The first round of a process imports libraries and opens connections: kept apart.
        facts["cold"] = [measure(side, endpoint, 2, items) for side in sides]
        rounds = []
        for n in sizes:
            long: set[str] = set()
            for turn in range(runs):
                for side in sides if turn % 2 == 0 else reversed(sides):
                    if side.name not in long:
                        rounds.append(_round(side, endpoint, n, items))
                        long |= {side.name} if rounds[-1]["align"]["seconds"] > LONG else set()
        variants = [
            _round(Memalign(given, name=f"memalign, {name}", **knobs), endpoint, n, items[:2])
            for name, knobs in VARIANTS.items()
            for n in variant_sizes
            if n <= AT_MOST.get(name, n)
        ]
    return {**facts, "rounds": rounds, "variants": variants}


def _round(side: Side, endpoint: Endpoint, n: int, items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = measure(side, endpoint, n, items)
    align, judged = found["align"], statistics.median(each["seconds"] for each in found["judged"][1:])
    _say(
        f"{side.name:<50} {n:>5}  align {align['seconds']:6.1f} s ({align['cpu']:.1f} CPU) {align['calls']:>5} calls "
        f"${align['cost']:.4f}  one more {found['more']['seconds']:.2f} s  judgment {judged:.2f} s"
    )
    return found


def _restore(environment: dict[str, str | None]) -> None:
    for name, value in environment.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def main() -> None:
    """Measure and keep."""
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--variant-sizes", type=int, nargs="*", default=VARIANT_SIZES)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--embed-latency", type=float, default=0.1)
    parser.add_argument("--competitor", type=Path, default=COMPETITOR, help="a Python with mlflow, dspy and litellm")
    parser.add_argument("--alone", action="store_true", help="measure memalign without the competitor")
    args = parser.parse_args()
    if not args.alone and not args.competitor.exists():
        parser.error(f"no interpreter at {args.competitor}: {SETUP}; or --alone, without the competitor")
    found = run(
        sizes=args.sizes,
        runs=args.runs,
        latency=args.latency,
        embed_latency=args.embed_latency,
        competitor=None if args.alone else args.competitor,
        variant_sizes=args.variant_sizes,
    )
    args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
