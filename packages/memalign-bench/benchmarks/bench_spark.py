"""What judging on Spark gives beside one process, and what is lost when an executor and the driver are killed.

    python benchmarks/bench_spark.py                     100,000 rows, three quarters of an hour on two shared cores
    python benchmarks/bench_spark.py --n 2000 --quiet 1000 --rows-per-task 100

Needs `memalign[spark]` and Java. A server in a process of its own answers after a second (`throughput_endpoint.py`). One
process judges with 64 calls in flight, then two Spark workers with 32 each: at most 64 rows a second either way. Then
Spark judges all rows under a coordinator; at a quarter one executor is killed, at a half the driver is, and a second
driver goes on. Counted are rows in, verdicts out, rows judged twice and lost, and calls made again.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from bench_throughput import counted, endpoint, write_items  # type: ignore[import-not-found]  # beside this file

import memalign as ma

IN_FLIGHT = 64
WORKERS = 2
LATENCY = 1.0
PRICES = {"openai:bench": {"prices": {"input": 0.1, "output": 0.4}}}
JUDGE = ma.Judge(
    name="helpful",
    instructions="Is the reply helpful?\nQuery: {{ inputs }}\nReply: {{ outputs }}",
    feedback_value_type=bool,
    model="openai:bench",
    parameters={"models": PRICES},
)
TICK = os.sysconf("SC_CLK_TCK")


def one_process(items: Path, out: Path) -> None:
    """What a child does: all rows in one process."""
    JUDGE.judge_many(items, concurrency=IN_FLIGHT, out=out)


def driver(items: Path, out: Path, rows_per_task: int, *, limits: bool) -> None:
    """What a child does: all rows on a local cluster of two workers."""
    from pyspark.sql import SparkSession

    from memalign.integrations import spark as on_spark

    builder = SparkSession.builder.master(f"local-cluster[{WORKERS},1,1024]").config("spark.ui.enabled", "false")
    for name, value in (("spark.executor.memory", "768m"), ("spark.driver.host", "127.0.0.1")):
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    shared: dict[str, Any] = {"max_cost": 1_000.0, "calls_per_second": 500.0} if limits else {}
    told = on_spark.write(
        spark.read.parquet(str(items)),
        JUDGE,
        str(out),
        rows_per_task=rows_per_task,
        concurrency=IN_FLIGHT // WORKERS,
        **shared,
    )
    print(json.dumps({name: getattr(told, name) for name in ("rows", "judged", "failed", "cost")}), flush=True)


class Child:
    """A process with all that it started, and the processor time of each kind."""

    def __init__(self, *arguments: str) -> None:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        self.started = time.monotonic()
        self.process = subprocess.Popen([sys.executable, __file__, *arguments], env=environment, stdout=subprocess.PIPE)
        self._seconds: dict[tuple[str, int], float] = {}

    def family(self) -> dict[int, str]:
        """The processes that are alive, by number: main, jvm, executor or worker."""
        parents: dict[int, tuple[int, str, float]] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                stat = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()
                command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            parents[int(entry.name)] = (int(stat[1]), command, (int(stat[11]) + int(stat[12])) / TICK)
        found: dict[int, str] = {}
        waiting = [self.process.pid]
        while waiting:
            number = waiting.pop()
            if number not in parents:
                continue
            _, command, seconds = parents[number]
            kind = "main" if number == self.process.pid else "worker"
            if "java" in command.split("\0")[0]:
                kind = "executor" if "CoarseGrainedExecutorBackend" in command else "jvm"
            found[number] = kind
            self._seconds[kind, number] = seconds
            waiting += [each for each, (parent, *_) in parents.items() if parent == number]
        return found

    def watch(self) -> bool:
        """Count for a second; False once it has ended."""
        self.family()
        try:
            self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return True
        return False

    def processor(self) -> dict[str, float]:
        """Seconds of processor by kind."""
        total: dict[str, float] = defaultdict(float)
        for (kind, _), seconds in self._seconds.items():
            total[kind] += seconds
        return {kind: round(seconds, 1) for kind, seconds in total.items()}

    def told(self) -> Any:
        """What it printed last; raises RuntimeError where it failed."""
        said = self.process.stdout.read() if self.process.stdout else b""
        if self.process.returncode:
            raise RuntimeError(f"the child ended with {self.process.returncode}")
        return json.loads(said.splitlines()[-1]) if said.strip() else None


def figures(child: Child, rows: int, answered: int) -> dict[str, Any]:
    """What a run took, a row."""
    wall = time.monotonic() - child.started
    processor = child.processor()
    return {
        "rows": rows,
        "seconds": round(wall, 1),
        "a_second": round(rows / wall, 1),
        "calls": answered,
        "processor_s": processor,
        "processor_ms_a_row": round(sum(processor.values()) / rows * 1e3, 2),
    }


def paced(out: Path) -> dict[str, Any]:
    """The same between the first file and the last, without what starting took."""
    times = sorted((path.stat().st_mtime, path) for path in out.glob("part-*.parquet"))
    if len(times) < 3:
        return {}
    import pyarrow.parquet as pq

    counts = [pq.ParquetFile(path).metadata.num_rows for _, path in times]
    # Two tasks run side by side, and the first two files end what both began with.
    steady = sum(counts[WORKERS:]) / max(times[-1][0] - times[WORKERS - 1][0], 1e-3)
    return {
        "steady_a_second": round(steady, 1),
        "of_ceiling": round(steady / (IN_FLIGHT / LATENCY), 3),
        "files": len(times),
    }


def chaos(items: Path, out: Path, count: int, rows_per_task: int, url: str) -> dict[str, Any]:
    """All rows, with an executor killed at a quarter and the driver at a half; then a second driver."""
    arguments = ("--driver", str(items), str(out), "--rows-per-task", str(rows_per_task), "--limits")
    child, events = Child(*arguments), dict[str, Any]()
    tasks = -(-count // rows_per_task)

    def files() -> int:
        return len(list(out.glob("part-*.parquet")))

    while child.watch():
        if "executor" not in events and files() >= tasks / 4:
            victim = next(number for number, kind in child.family().items() if kind == "executor")
            os.kill(victim, signal.SIGKILL)
            events["executor"] = {
                "at_rows": files() * rows_per_task,
                "seconds": round(time.monotonic() - child.started, 1),
            }
            print("killed an executor", events["executor"], file=sys.stderr, flush=True)
        if "driver" not in events and files() >= tasks / 2:
            family = child.family()
            for number, kind in family.items():
                if kind in ("main", "jvm"):
                    os.kill(number, signal.SIGKILL)
            killed = time.monotonic()
            while any(Path(f"/proc/{number}").exists() for number, kind in family.items() if kind == "executor"):
                time.sleep(0.2)
            orphans = round(time.monotonic() - killed, 1)
            events["driver"] = {"at_rows": files() * rows_per_task, "executors_gone_after_s": orphans}
            print("killed the driver", events["driver"], file=sys.stderr, flush=True)
    wall = time.monotonic() - child.started
    first = counted(url)["answered"]
    written = verdicts(out)
    resumed = Child(*arguments)
    while resumed.watch():
        pass
    second = counted(url)["answered"]
    found = {
        "events": events,
        "first_driver": {"seconds": round(wall, 1), "calls": first, **written},
        "second_driver": {**figures(resumed, count - written["rows"], second), "told": resumed.told()},
        "after": verdicts(out, items),
    }
    found["calls_again"] = first + second - count
    return found


def verdicts(out: Path, items: Path | None = None) -> dict[str, int]:
    """Rows that lie in `out`, and of all `items` those that lie there twice and not at all."""
    import pyarrow.parquet as pq

    ids = Counter[str]()
    failed = 0
    for path in out.glob("part-*.parquet"):
        table = pq.read_table(path, columns=["id", "error"])
        for name, error in zip(table["id"].to_pylist(), table["error"].to_pylist(), strict=True):
            ids[name] += error is None
            failed += error is not None
    found = {
        "rows": sum(ids.values()),
        "failed": failed,
        "twice": sum(times - 1 for times in ids.values() if times > 1),
    }
    if items is not None:
        given = set(pq.read_table(items, columns=["id"])["id"].to_pylist())
        found |= {"given": len(given), "lost": len(given - {name for name, times in ids.items() if times})}
    return found


def parquet(folder: Path, count: int) -> Path:
    """A Parquet file of `count` rows, and the same rows as JSON lines beside it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    lines = write_items(folder / f"{count}.jsonl", count + count // 50 + 50).read_text("utf-8").splitlines()[:count]
    (folder / f"{count}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    rows = {row["id"]: row for row in map(json.loads, lines)}
    path = folder / f"{count}.parquet"
    pq.write_table(pa.Table.from_pylist(list(rows.values())), path)
    return path


def measure(folder: Path, count: int, quiet: int, rows_per_task: int) -> dict[str, Any]:
    """Everything, one after the other."""
    found: dict[str, Any] = {"in_flight": IN_FLIGHT, "latency": LATENCY, "rows_per_task": rows_per_task}
    with endpoint("--latency", str(LATENCY)) as url:
        if quiet:
            few = parquet(folder, quiet)
            child = Child("--one", str(few.with_suffix(".jsonl")), str(folder / "one.jsonl"))
            while child.watch():
                pass
            child.told()
            found["one process"] = figures(child, quiet, counted(url)["answered"])
            print(json.dumps(found["one process"]), file=sys.stderr, flush=True)
            out = folder / "quiet"
            child = Child("--driver", str(few), str(out), "--rows-per-task", str(rows_per_task))
            while child.watch():
                pass
            told = child.told()
            found["spark"] = {
                **figures(child, quiet, counted(url)["answered"]),
                **paced(out),
                "told": told,
            }
            print(json.dumps(found["spark"]), file=sys.stderr, flush=True)
        if count:
            found["killed"] = chaos(parquet(folder, count), folder / "killed", count, rows_per_task, url)
    return found


def main() -> None:
    """Measure and print; or do what a child does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="rows of the run in which something is killed")
    parser.add_argument("--quiet", type=int, default=10_000, help="rows of the runs in which nothing is")
    parser.add_argument("--rows-per-task", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--driver", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limits", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    os.environ.setdefault("OPENAI_API_KEY", "none-needed")
    if args.one:
        one_process(*args.one)
        return
    if args.driver:
        items, out = args.driver
        driver(items, out, args.rows_per_task, limits=args.limits)
        return
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), args.n, args.quiet, args.rows_per_task)
    text = json.dumps(found, indent=1)
    print(text)
    if args.json:
        args.json.write_text(f"{text}\n", "utf-8")


if __name__ == "__main__":
    main()
