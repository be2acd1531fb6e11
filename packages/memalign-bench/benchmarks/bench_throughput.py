"""How near judging many items comes to what an endpoint can give, and what it costs here.

    python benchmarks/bench_throughput.py                         10,000 judgments, about four minutes and a half
    python benchmarks/bench_throughput.py --n 1000 --json results/throughput.json

A judge with a memory of 1,000 cases (that of `bench_memory.py`) judges a JSONL file into a file, with 64 calls in
flight to a server in a process of its own that answers after a second: at most 64 a second. Then the same with a
server that refuses what is too much. Measured are the share of that ceiling, peak memory after a tenth and after all,
and processor time a judgment beside that of the plain adapter call with the same prompts, in turns in the same run.
Fails nothing: a busy machine is not a regression.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_memory import INSTRUCTIONS, NAME, Model, made, rows  # type: ignore[import-not-found]  # beside this file

import memalign as ma
from memalign.models import resolve
from memalign.models.base import ChatRequest

IN_FLIGHT = 64
LATENCY = 1.0
CASES = 1_000
TURNS = 5
QUICK = 0.1  # seconds of a call where only processor time is measured: waiting costs none
LIMITS = (("24 in flight", "--in-flight", 24), ("8 in flight", "--in-flight", 8), ("40 a second", "--per-second", 40))


@contextmanager
def endpoint(*arguments: str) -> Iterator[str]:
    """A server as a process of its own; judges find it as `openai:bench`."""
    command = [sys.executable, str(Path(__file__).with_name("throughput_endpoint.py")), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        url = next(iter(process.stdout or ())).strip()
        os.environ["OPENAI_BASE_URL"] = url
        try:
            yield url
        finally:
            process.terminate()


def counted(url: str) -> dict[str, int]:
    """What the server counted since it was last asked."""
    with urllib.request.urlopen(url) as answer:  # noqa: S310  # our own server
        counts: dict[str, int] = json.load(answer)
    return counts


def write_items(path: Path, count: int) -> Path:
    """A file of `count` items that are not in memory."""
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, 1_000):
            seen: set[str] = set()
            for row in rows(min(1_000, count - start), start=10**7 + start):
                if row["id"] not in seen:
                    seen.add(row["id"])
                    file.write(json.dumps({name: row[name] for name in ("id", "inputs", "outputs")}) + "\n")
    return path


def peak_mb() -> float:
    """Most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


async def zero_shot(requests: list[ChatRequest], count: int) -> None:
    """`count` calls of the adapter and nothing else, as many in flight."""
    model, waiting = resolve("openai:bench"), iter(range(count))

    async def work() -> None:
        for number in waiting:
            await model.complete(requests[number % len(requests)])

    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))


async def processor(judge: ma.Judge, folder: Path, count: int) -> dict[str, Any]:
    """Milliseconds of processor a judgment and a plain call, in turns."""
    items = write_items(folder / "turn.jsonl", count)
    examples = [ma.Example(**json.loads(line)) for line in items.read_text("utf-8").splitlines()[:200]]
    requests = [(await judge.prepare(example)).request for example in examples]

    async def took(work: Callable[[], Awaitable[Any]]) -> float:
        started = time.process_time()
        await work()
        return (time.process_time() - started) / count * 1e3

    await zero_shot(requests, IN_FLIGHT)
    found: dict[str, list[float]] = {"judged": [], "zero-shot": []}
    for turn in range(TURNS):
        out = folder / f"turn-{turn}.jsonl"
        found["judged"].append(await took(lambda: judge.ajudge_many(items, concurrency=IN_FLIGHT, out=out)))  # noqa: B023
        found["zero-shot"].append(await took(lambda: zero_shot(requests, count)))
    above = [one - other for one, other in zip(found["judged"], found["zero-shot"], strict=True)]
    return {
        "calls_a_turn": count,
        **{name: [round(each, 3) for each in took] for name, took in found.items()},
        "above": round(statistics.median(above), 3),
    }


async def throughput(judge: ma.Judge, folder: Path, count: int) -> dict[str, Any]:
    """Judgments a second beside what the endpoint can give, and peak memory after a tenth and after all."""
    found: dict[str, Any] = {}
    for name, size in (("tenth", count // 10), ("all", count)):
        items = write_items(folder / f"{name}.jsonl", size)
        wall, cpu = time.perf_counter(), time.process_time()
        judgments = await judge.ajudge_many(items, concurrency=IN_FLIGHT, out=folder / f"{name}.out.jsonl")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        failed = sum(judgment.error is not None for judgment in judgments)
        # What is full at 64 in flight for the whole time: the last round has fewer.
        fastest = -(-size // IN_FLIGHT) * LATENCY
        found[name] = {
            "n": size,
            "seconds": round(wall, 2),
            "a_second": round(size / wall, 2),
            "of_fastest": round(fastest / wall, 4),
            "failed": failed,
            "cpu_ms_a_judgment": round(cpu / size * 1e3, 3),
            "peak_mb": round(peak_mb(), 1),
        }
        print(json.dumps(found[name]), file=sys.stderr)
    return found


async def limited(judge: ma.Judge, folder: Path, count: int) -> dict[str, Any]:
    """Under each limit: what failed, and how many calls were wasted."""
    found: dict[str, Any] = {}
    for name, option, most in LIMITS:
        with endpoint("--latency", "0.2", option, str(most)) as url:
            items = write_items(folder / "limited.jsonl", count)
            started = time.perf_counter()
            judgments = await judge.ajudge_many(items, concurrency=IN_FLIGHT, out=folder / f"{option}-{most}.jsonl")
            seconds = time.perf_counter() - started
            counts = counted(url)
        allowed = most / 0.2 if option == "--in-flight" else most
        found[name] = {
            "n": count,
            "failed": sum(judgment.error is not None for judgment in judgments),
            "refused": counts["refused"],
            "waste": round(counts["refused"] / (counts["refused"] + counts["answered"]), 4),
            "seconds": round(seconds, 1),
            "of_allowed": round(count / seconds / allowed, 3),
        }
        print(name, json.dumps(found[name]), file=sys.stderr)
    return found


async def measure(judge: ma.Judge, count: int, folder: Path, parts: list[str]) -> dict[str, Any]:
    """Everything, one after the other."""
    found: dict[str, Any] = {"cases": len(judge.memory.cases), "in_flight": IN_FLIGHT, "latency": LATENCY}
    if "throughput" in parts:
        with endpoint("--latency", str(LATENCY)):
            await judge.ajudge_many(write_items(folder / "warm.jsonl", 100), concurrency=IN_FLIGHT)
            found["throughput"] = await throughput(judge, folder, count)
    if "processor" in parts:
        with endpoint("--latency", str(QUICK)):
            found["processor"] = await processor(judge, folder, max(count // 20, IN_FLIGHT))
    if "limits" in parts:
        found["limits"] = await limited(judge, folder, max(count // 5, 200))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=10_000, help="judgments")
    parser.add_argument("--parts", default="throughput,processor,limits")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "none-needed")
    base = ma.Judge(name=NAME, instructions=INSTRUCTIONS, feedback_value_type=bool, model=Model())
    judge = made(base, rows(CASES)).replace(model="openai:bench")
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(judge, args.n, Path(folder), args.parts.split(",")))
    text = json.dumps(found, indent=1)
    print(text)
    if args.json:
        args.json.write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
