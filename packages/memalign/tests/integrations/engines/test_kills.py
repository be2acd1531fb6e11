"""A hundred thousand rows on real engines, a worker killed in the middle: nothing is lost, and nothing comes twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from tests.support.counting_server import CountingServer
from tests.support.patience import PATIENCE

pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.endurance, pytest.mark.filterwarnings("ignore")]  # the engines' own, which are many

ROWS = 100_000
PARTS = 40  # of which a worker that is killed loses the one in work
WORKERS = 2
JUDGE = ma.Judge(name="good", instructions="Good? {{ outputs }}", feedback_value_type=bool, model="openai:test")
ALONE = f"""
import sys, time
import pyarrow as pa
import memalign as ma
judge = ma.Judge(name="good", instructions="Good? {{{{ outputs }}}}", feedback_value_type=bool, model="openai:test")
rows = pa.table({{"id": [f"i-{{n}}" for n in range({ROWS // 20})], "outputs": [f"reply {{n}}" for n in range({ROWS // 20})]}})
judge.predict_batch(rows.slice(0, 100))
begin = time.monotonic()
assert judge.predict_batch(rows)["error"].null_count == len(rows)
print(len(rows) / (time.monotonic() - begin))
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingServer]:
    with CountingServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        yield server


def rows_per_second_alone(server: CountingServer) -> float:
    """What one process judges, on the same machine right before."""
    run = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=PATIENCE, check=True)
    server.asked.clear()
    return float(run.stdout)


def killing(server: CountingServer, name: str) -> Future[int]:
    """Kill one of this test's processes with that in its command line, once a third of the rows is asked."""

    def kill() -> int:
        while server.asked.total() < ROWS // 3:
            time.sleep(0.05)
        victim = next(pid for pid, command in descendants(os.getpid()) if name in command)
        os.kill(victim, signal.SIGKILL)
        return victim

    return ThreadPoolExecutor(1).submit(kill)


def descendants(ancestor: int) -> Iterator[tuple[int, str]]:
    """The processes that a process started, and that these started."""
    ps = ["ps", "-ww", "-eo", "pid=,ppid=,args="]
    lines = subprocess.run(ps, capture_output=True, text=True, check=True).stdout.splitlines()
    for pid, parent, *command in (line.split(None, 2) for line in lines):
        if int(parent) == ancestor:
            yield int(pid), "".join(command)
            yield from descendants(int(pid))


def check(
    engine: str, server: CountingServer, capsys: Any, run: Callable[[], None], read: Callable[[], Any], victim: str
) -> Any:
    """Run a job while one of its workers is killed, check its verdicts, and say what it took."""
    alone = rows_per_second_alone(server)
    killed, begin = killing(server, victim), time.monotonic()
    run()
    seconds = time.monotonic() - begin
    assert killed.result()
    table = read()
    assert table["error"].null_count == len(table) == ROWS
    verdicts = dict(zip(table["id"].to_pylist(), table["rationale"].to_pylist(), strict=True))
    assert verdicts == {f"i-{n}": f"reply {n}" for n in range(ROWS)}
    calls, most = server.asked.total(), max(server.asked.values())
    assert ROWS <= calls <= ROWS + 2 * ROWS // PARTS
    assert most <= 2
    with capsys.disabled():
        sys.stdout.write(
            f"\n{engine}: {ROWS:,} rows in {seconds:.0f} s, {ROWS / seconds:.0f} rows/s on {WORKERS} workers, one of them "
            f"killed; one process {alone:.0f} rows/s; {calls:,} calls, {calls - ROWS:,} of them again; killed: {killed.result()}\n"
        )
    server.asked.clear()
    return table


def test_spark_loses_an_executor(server: CountingServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    from memalign.integrations import spark as on_spark

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master(f"local-cluster[{WORKERS},1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.OPENAI_BASE_URL": server.base_url,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        rows = spark.range(ROWS).selectExpr("concat('i-', id) AS id", "concat('reply ', id) AS outputs")
        out = str(tmp_path / "verdicts")
        done = check(
            "Spark",
            server,
            capsys,
            lambda: on_spark.judge(rows, JUDGE, tasks=PARTS).write.parquet(out),
            lambda: spark.read.parquet(out).toArrow(),
            "CoarseGrainedExecutorBackend",
        )
        assert on_spark.judge(rows, JUDGE, tasks=PARTS, done=done).count() == 0 == server.asked.total()
    finally:
        spark.stop()
        del os.environ["PYSPARK_PYTHON"]


def test_ray_loses_a_worker(server: CountingServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ray = pytest.importorskip("ray")
    import pyarrow.parquet as pq

    from memalign.integrations import ray as on_ray

    env = {"OPENAI_BASE_URL": server.base_url, "PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(num_cpus=WORKERS, include_dashboard=False, runtime_env={"env_vars": env}, log_to_driver=False)
    try:
        names = range(ROWS)
        table = pa.table({"id": [f"i-{n}" for n in names], "outputs": [f"reply {n}" for n in names]})
        rows = ray.data.from_arrow(table).repartition(PARTS)
        out = str(tmp_path / "verdicts")
        done = check(
            "Ray",
            server,
            capsys,
            lambda: on_ray.judge(rows, JUDGE, tasks=WORKERS, batch_size=ROWS // PARTS).write_parquet(out),
            lambda: pq.read_table(out),
            "MapWorker",
        )
        assert on_ray.judge(rows, JUDGE, tasks=WORKERS, done=done).count() == 0 == server.asked.total()
    finally:
        ray.shutdown()
