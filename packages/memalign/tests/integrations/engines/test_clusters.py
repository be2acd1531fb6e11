"""A judge on a real Spark and a real Ray of two workers, asked at a server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memalign.errors import ConfigurationError, InputError
from tests.support.engines import JUDGE, Server, ray_of_two_workers, spark_of_two_workers

pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the engines' own, which are many


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def spark(server: Server) -> Iterator[Any]:
    with spark_of_two_workers(server.base_url) as session:
        yield session


@pytest.fixture(autouse=True)
def _forget(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.asked.clear()
    server.broken = ""


def frame(spark: Any, rows: list[tuple[Any, Any]], kind: str = "string") -> Any:
    return spark.createDataFrame(rows, f"id {kind}, outputs string")


def test_a_second_run_judges_what_is_missing(spark: Any, server: Server, tmp_path: Path) -> None:
    from memalign.integrations import spark as on_spark

    out = str(tmp_path / "out")
    rows: list[tuple[Any, Any]] = [(f"i-{n}", f"reply {n}") for n in range(30)]
    odd: list[tuple[Any, Any]] = [(None, "x"), ("i-x", None)]
    server.broken = "reply 7"
    on_spark.judge(frame(spark, rows + odd), JUDGE, tasks=3).write.parquet(out)
    first = spark.read.parquet(out)
    assert dict(first.dtypes)["value"] == "boolean"
    assert (first.count(), first.where("error IS NULL").count()) == (32, 29)
    server.broken = ""
    rows[5] = ("i-5", "reply no more")
    done = spark.read.parquet(out).toArrow()
    on_spark.judge(frame(spark, rows), JUDGE, tasks=3, done=done).write.mode("append").parquet(out)
    table = spark.read.parquet(out).where("error IS NULL")
    verdicts = {(row.id, row.rationale): row.value for row in table.collect()}
    assert (table.count(), len(verdicts)) == (31, 31)
    assert (verdicts["i-5", "reply 5"], verdicts["i-5", "reply no more"]) == (True, False)
    assert max(times for reply, times in server.asked.items() if reply != "reply 7") == 1
    other = JUDGE.replace(instructions="Bad? {{ outputs }}")
    assert on_spark.judge(frame(spark, rows[:3]), other, tasks=1, done=done).count() == 3


def test_what_cannot_be_judged_is_said_before(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from memalign.integrations import spark as on_spark

    rows = frame(spark, [("a", "x")])
    with pytest.raises(InputError, match=r"no column of content: .* its columns: id, answer"):
        on_spark.judge(rows.withColumnRenamed("outputs", "answer"), JUDGE)
    with pytest.raises(InputError, match="tasks"):
        on_spark.judge(rows, JUDGE, tasks=0)
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        on_spark.judge(rows, JUDGE)


def rows(count: int) -> list[dict[str, Any]]:
    return [{"id": f"i-{n:02}", "outputs": f"reply {n:02}"} for n in range(count)]


def test_every_row_has_a_verdict_within_the_limit_of_all(server: Server) -> None:
    from memalign.integrations import ray as on_ray

    with ray_of_two_workers(server.base_url) as ray:
        odd = [{"id": None, "outputs": "x"}, {"id": "i-x", "outputs": None}]
        ds = ray.data.from_items(rows(20) + odd).repartition(4)
        verdicts = on_ray.judge(ds, JUDGE, tasks=2, batch_size=5, concurrency=4).take_all()
        assert len(verdicts) == 22
        judged = {row["id"]: row["rationale"] for row in verdicts if row["error"] is None}
        assert judged == {f"i-{n:02}": f"reply {n:02}" for n in range(20)}
        assert sum(row["error"].startswith("InputError") for row in verdicts if row["error"]) == 2
        assert set(server.asked.values()) == {1}
        earlier = pa.Table.from_pylist(verdicts)
        more = on_ray.judge(ray.data.from_items(rows(25)), JUDGE, tasks=1, done=earlier).take_all()
        assert sorted(row["id"] for row in more) == [f"i-{n:02}" for n in range(20, 25)]
        server.asked.clear()
        limit = 8.5 * more[0]["cost"]
        ds = ray.data.from_items(rows(20)).repartition(4)
        verdicts = on_ray.judge(ds, JUDGE, tasks=2, batch_size=5, max_cost=limit, rows_per_second=200).take_all()
        count = sum(row["error"] is None for row in verdicts)
        assert len(verdicts) == 20
        assert 4 <= count == sum(server.asked.values()) <= 8
        assert all("NotJudged" in row["error"] for row in verdicts if row["error"])
