"""A judge on a real Spark cluster of two workers, asked at a server on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memalign as ma
from memalign.errors import ConfigurationError, InputError
from tests.support.endpoint import Endpoint, server_error, user_of
from tests.support.patience import PATIENCE

pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # py4j's sockets
]

PRICES = {"openai:test": {"prices": {"input": 1.0, "output": 1_000.0}}}
JUDGE = ma.Judge(
    name="good",
    instructions="Good? {{ outputs }}",
    feedback_value_type=bool,
    model="openai:test",
    parameters={"models": PRICES},
)


class Server(Endpoint):
    """Says what the reply says, fails where it should, and counts what it was asked."""

    def __init__(self) -> None:
        super().__init__(self.answered)
        self.asked: Counter[str] = Counter()
        self.broken = ""
        self.pause = 0.0

    def answered(self, body: dict[str, Any]) -> Any:
        reply = json.loads(user_of(body).split("outputs: ")[1].split("\n")[0])
        self.asked[reply] += 1
        time.sleep(self.pause)
        return (
            server_error(400)
            if self.broken and reply == self.broken
            else {"rationale": reply, "value": "no" not in reply}
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def spark(server: Server) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.OPENAI_BASE_URL": server.base_url,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        "spark.sql.shuffle.partitions": "2",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
    del os.environ["PYSPARK_PYTHON"]


@pytest.fixture(autouse=True)
def _forget(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.asked.clear()
    server.broken, server.pause = "", 0.0


def frame(spark: Any, rows: list[tuple[Any, Any]], kind: str = "string") -> Any:
    return spark.createDataFrame(rows, f"id {kind}, outputs string")


def verdicts(spark: Any, out: Path) -> dict[tuple[str, Any], list[Any]]:
    found: dict[tuple[str, Any], list[Any]] = {}
    for row in spark.read.parquet(str(out)).collect():
        found.setdefault((row.id, row.rationale), []).append(row.error or row.value)
    return found


def test_a_row_a_row_on_two_workers(spark: Any, server: Server) -> None:
    from memalign.integrations import spark as on_spark

    rows = frame(spark, [(n, f"reply {n}") for n in range(40)], "bigint").repartition(4)
    found = on_spark.judge(rows, JUDGE)
    assert dict(found.dtypes)["value"] == "boolean"
    assert sorted((row.id, row.rationale) for row in found.collect()) == sorted(
        (f"{n}", f"reply {n}") for n in range(40)
    )
    assert set(server.asked.values()) == {1}


def test_a_second_run_writes_what_is_missing(spark: Any, server: Server, tmp_path: Path) -> None:
    from memalign.integrations.spark import Written, write

    out = tmp_path / "out"
    rows: list[tuple[Any, Any]] = [(f"i-{n}", f"reply {n}") for n in range(30)]
    odd: list[tuple[Any, Any]] = [("i-3", "reply 3"), (" i-4\u2003", "reply 4"), (None, "x"), ("i-x", None)]
    server.broken = "reply 7"
    first = write(frame(spark, rows + odd), JUDGE, str(out), rows_per_task=10)
    assert (first.rows, first.judged, first.failed) == (34, 29, 3)
    assert first.cost is not None
    assert first.cost > 0
    server.broken = ""
    rows[5] = ("i-5", "reply no more")
    second = write(frame(spark, rows), JUDGE, str(out), rows_per_task=10)
    assert (second.rows, second.judged, second.failed) == (30, 2, 0)
    assert write(frame(spark, rows), JUDGE, str(out)) == Written(rows=30)
    assert write(frame(spark, []), JUDGE, str(out)) == Written(rows=0)
    found = verdicts(spark, out)
    assert found["i-5", "reply 5"] == [True]
    assert found["i-5", "reply no more"] == [False]
    assert all(found[f"i-{n}", f"reply {n}"] == [True] for n in range(30))
    assert max(times for reply, times in server.asked.items() if reply != "reply 7") == 1
    other = JUDGE.replace(instructions="Bad? {{ outputs }}")
    assert write(frame(spark, rows[:3]), other, str(out)).judged == 3


def test_sql_asks_once_a_row(spark: Any, server: Server) -> None:
    from memalign.integrations.spark import register

    register(spark, JUDGE.replace(columns={"outputs": "answer"}), "good")
    spark.createDataFrame([("a", "yes"), ("b", "no")], "id string, answer string").createOrReplaceTempView("replies")
    told = "SELECT v.id, v.value, v.judge, v.error FROM (SELECT good(struct(id, answer)) v FROM replies)"
    found = sorted((row.id, row.value, row.error) for row in spark.sql(told).collect())
    assert found == [("a", True, None), ("b", False, None)]
    assert server.asked == {"yes": 1, "no": 1}


def test_a_stream_judges_each_row_once(spark: Any, server: Server, tmp_path: Path) -> None:
    from memalign.integrations.spark import stream

    given, out = tmp_path / "in", tmp_path / "out"
    given.mkdir()

    def judged(checkpoint: str) -> None:
        df = spark.readStream.schema("id string, outputs string").json(str(given))
        query = stream(df, JUDGE, str(out), checkpoint=str(tmp_path / checkpoint), trigger={"availableNow": True})
        query.awaitTermination(PATIENCE)

    for part in range(2):
        lines = [json.dumps({"id": f"{part}-{n}", "outputs": f"reply {part} {n}"}) for n in range(5)]
        (given / f"{part}.json").write_text("\n".join(lines), "utf-8")
        judged("checkpoint")
    judged("lost")  # all rows come again
    assert len(verdicts(spark, out)) == 10
    assert {len(each) for each in verdicts(spark, out).values()} == {1}
    assert set(server.asked.values()) == {1}


def test_all_workers_share_one_limit_of_cost(spark: Any, server: Server, tmp_path: Path) -> None:
    from memalign.integrations.spark import write

    rows = frame(spark, [(f"i-{n}", f"reply {n}") for n in range(10, 50)])  # of one length, and so of one price
    told = write(rows, JUDGE, str(tmp_path / "all"), rows_per_task=10)
    assert told.cost is not None
    server.asked.clear()
    half = write(rows, JUDGE, str(tmp_path / "half"), rows_per_task=10, max_cost=told.cost / 2, calls_per_second=200)
    assert half.cost is not None
    assert half.cost <= told.cost / 2 + 1e-9
    assert (half.judged, half.failed) == (sum(server.asked.values()), 40 - half.judged)
    assert 19 <= half.judged <= 20
    assert write(rows, JUDGE, str(tmp_path / "half"), rows_per_task=10).judged == half.failed


def test_a_killed_executor_loses_and_doubles_nothing(spark: Any, server: Server, tmp_path: Path) -> None:
    from memalign.integrations.spark import write

    server.pause = 0.1
    out = tmp_path / "out"

    def kill() -> None:
        end = time.monotonic() + PATIENCE
        while len(list(out.glob("part-*.parquet"))) < 2 and time.monotonic() < end:
            time.sleep(0.02)
        os.kill(next(executors()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    told = write(
        frame(spark, [(f"i-{n}", f"reply {n}") for n in range(200)]), JUDGE, str(out), rows_per_task=20, concurrency=4
    )
    killer.join()
    assert (told.rows, told.judged, told.failed) == (200, 200, 0)
    found = verdicts(spark, out)
    assert len(found) == 200
    assert {len(each) for each in found.values()} == {1}
    assert len(server.asked) == 200
    assert sum(server.asked.values()) <= 200 + 2 * 20


def executors() -> Iterator[int]:
    """The processes of executors that this test's Spark started."""
    for entry in Path("/proc").glob("[0-9]*"):
        command = (entry / "cmdline").read_bytes() if (entry / "cmdline").exists() else b""
        if b"CoarseGrainedExecutorBackend" in command and descends(int(entry.name)):
            yield int(entry.name)


def descends(number: int) -> bool:
    while number > 1 and number != os.getpid():
        number = int(Path(f"/proc/{number}/stat").read_text("utf-8").rpartition(")")[2].split()[1])
    return number == os.getpid()


def test_what_cannot_be_judged_is_said_before(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from memalign.integrations import spark as on_spark

    rows, out = frame(spark, [("a", "x")]), str(tmp_path / "out")
    with pytest.raises(InputError, match=r"no column of content: .* its columns: id, answer"):
        on_spark.judge(rows.withColumnRenamed("outputs", "answer"), JUDGE)
    with pytest.raises(InputError, match="no column id"):
        on_spark.write(rows.drop("id"), JUDGE, out)
    with pytest.raises(InputError, match="rows_per_task"):
        on_spark.write(rows, JUDGE, out, rows_per_task=0)
    rows.write.parquet(str(tmp_path / "other"))
    with pytest.raises(InputError, match="is no table of verdicts"):
        on_spark.write(rows, JUDGE, str(tmp_path / "other"))
    on_spark.write(rows, JUDGE, out)
    with pytest.raises(InputError, match="verdicts of type boolean"):
        on_spark.write(rows, JUDGE.replace(feedback_value_type="int:1..5"), out)
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        on_spark.write(rows, JUDGE, out)
