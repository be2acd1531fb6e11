"""A hundred thousand rows on real engines, a worker killed: nothing is lost or comes twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import (
    JUDGE,
    Server,
    ray_of_two_workers,
    spark_of_two_workers,
)

pa = pytest.importorskip("pyarrow")
# The engines' own warnings are many.
pytestmark = [pytest.mark.endurance, pytest.mark.filterwarnings("ignore")]

ROWS = 100_000
PARTS = 40  # of which a worker that is killed loses the one in work


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        yield server


def killing(server: Server, name: str) -> Future[bool]:
    """Kill a process of this test by its command line, once a third of the rows is asked."""

    def kill() -> bool:
        while server.asked.total() < ROWS // 3:
            time.sleep(0.05)
        for pid, command in descendants(os.getpid()):
            if name in command:
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    return ThreadPoolExecutor(1).submit(kill)


def descendants(ancestor: int) -> Iterator[tuple[int, str]]:
    """The processes that a process started, and that these started."""
    ps = ["ps", "-ww", "-eo", "pid=,ppid=,args="]
    printed = subprocess.run(ps, capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        pid, parent, *command = line.split(None, 2)
        if int(parent) == ancestor:
            yield int(pid), "".join(command)
            yield from descendants(int(pid))


def judged(
    server: Server, run: Callable[[], None], read: Callable[[], Any], victim: str
) -> Any:
    """Run a job while one of its workers is killed, and check its verdicts."""
    killed = killing(server, victim)
    run()
    assert killed.result()
    table = read()
    assert table["error"].null_count == len(table) == ROWS
    verdicts = dict(
        zip(table["id"].to_pylist(), table["rationale"].to_pylist(), strict=True)
    )
    assert verdicts == {f"i-{n}": f"reply {n}" for n in range(ROWS)}
    assert ROWS <= server.asked.total() <= ROWS + 2 * ROWS // PARTS
    assert max(server.asked.values()) <= 2
    server.asked.clear()
    return table


def test_spark_loses_an_executor(server: Server, tmp_path: Path) -> None:
    with spark_of_two_workers(server.base_url) as spark:
        from memalign.integrations import spark as on_spark

        rows = spark.range(ROWS).selectExpr(
            "concat('i-', id) AS id", "concat('reply ', id) AS outputs"
        )
        out = str(tmp_path / "verdicts")
        done = judged(
            server,
            lambda: on_spark.judge(rows, JUDGE, tasks=PARTS).write.parquet(out),
            lambda: spark.read.parquet(out).toArrow(),
            "CoarseGrainedExecutorBackend",
        )
        assert on_spark.judge(rows, JUDGE, tasks=PARTS, done=done).count() == 0
        assert server.asked.total() == 0


def test_ray_loses_a_worker(server: Server, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    with ray_of_two_workers(server.base_url) as ray:
        from memalign.integrations import ray as on_ray

        names = range(ROWS)
        table = pa.table(
            {"id": [f"i-{n}" for n in names], "outputs": [f"reply {n}" for n in names]}
        )
        rows = ray.data.from_arrow(table).repartition(PARTS)
        out = str(tmp_path / "verdicts")
        done = judged(
            server,
            lambda: on_ray.judge(
                rows, JUDGE, tasks=2, batch_size=ROWS // PARTS
            ).write_parquet(out),
            lambda: pq.read_table(out),
            "MapWorker",
        )
        assert on_ray.judge(rows, JUDGE, tasks=2, done=done).count() == 0
        assert server.asked.total() == 0
