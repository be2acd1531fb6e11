"""A judge on a real Spark and a real Ray of two workers, asked at a server on loopback."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memalign.errors import ConfigurationError, InputError
from tests.support.engines import (
    JUDGE,
    Server,
    ray_of_two_workers,
    spark_of_two_workers,
)
from tests.support.rows import RawRow

pa = pytest.importorskip("pyarrow")
# The engines' own warnings are many.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

Cells = tuple[Any, Any]


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


def frame(spark: Any, rows: list[Cells], kind: str = "string") -> Any:
    return spark.createDataFrame(rows, f"id {kind}, outputs string")


def replies(count: int) -> list[Cells]:
    return [(f"i-{n}", f"reply {n}") for n in range(count)]


def asked_twice(server: Server, *broken: str) -> list[str]:
    """The replies that the model was asked about more than once, but for the broken ones."""
    return [
        reply
        for reply, times in server.asked.items()
        if times > 1 and reply not in broken
    ]


def test_a_second_run_judges_what_is_missing(
    spark: Any, server: Server, tmp_path: Path
) -> None:
    from memalign.integrations import spark as on_spark

    out = str(tmp_path / "out")
    rows = replies(30)
    odd: list[Cells] = [(None, "x"), ("i-x", None)]
    server.broken = "reply 7"
    on_spark.judge(frame(spark, rows + odd), JUDGE, tasks=3).write.parquet(out)
    first = spark.read.parquet(out)
    assert dict(first.dtypes)["value"] == "boolean"
    assert (first.count(), first.where("error IS NULL").count()) == (32, 29)
    server.broken = ""
    rows[5] = ("i-5", "reply no more")
    done = spark.read.parquet(out).toArrow()
    on_spark.judge(frame(spark, rows), JUDGE, tasks=3, done=done).write.mode(
        "append"
    ).parquet(out)
    table = spark.read.parquet(out).where("error IS NULL")
    verdicts = {(row.id, row.rationale): row.value for row in table.collect()}
    assert (table.count(), len(verdicts)) == (31, 31)
    assert verdicts["i-5", "reply 5"] is True
    assert verdicts["i-5", "reply no more"] is False
    assert asked_twice(server, "reply 7") == []
    other = JUDGE.replace(instructions="Bad? {{ outputs }}")
    again = on_spark.judge(frame(spark, rows[:3]), other, tasks=1, done=done)
    assert again.count() == 3


def test_verdicts_that_stay_on_the_engine_are_left_out(
    spark: Any, server: Server, tmp_path: Path
) -> None:
    from memalign.integrations import spark as on_spark

    out = str(tmp_path / "out")
    rows: list[Cells] = [(n, f"reply {n}") for n in range(12)]
    server.broken = "reply 3"
    on_spark.judge(frame(spark, rows[:8], "bigint"), JUDGE, tasks=2).write.parquet(out)
    server.broken = ""
    again = on_spark.judge(
        frame(spark, rows, "bigint"), JUDGE, tasks=2, done=spark.read.parquet(out)
    )
    again.write.mode("append").parquet(out)
    table = spark.read.parquet(out).where("error IS NULL")
    assert dict(table.dtypes)["id"] == "bigint"
    assert sorted(row.id for row in table.collect()) == [*range(12)]
    assert asked_twice(server, "reply 3") == []
    key = table.where("id = 5").first()
    one = frame(spark, rows[5:6], "bigint")
    assert on_spark.judge(one, JUDGE, done=[("5", key.content_hash)]).count() == 0


def test_any_name_of_a_column_is_read_and_kept(spark: Any) -> None:
    from memalign.integrations import spark as on_spark

    columns = ["ID", "the `reply`", "a.country", "when"]
    rows = spark.createDataFrame(
        [(" 6 ", "reply one", "pt", 7), (" 6 ", "reply no", "es", 8)], columns
    )
    judge = JUDGE.replace(columns={"outputs": "The `reply`"})
    found = on_spark.judge(rows, judge, tasks=1, keep=["a.country", "WHEN"])
    assert found.columns[0] == "id"
    assert found.columns[-2:] == ["a.country", "when"]
    cells = found.select("id", "value", "`a.country`", "when").collect()
    assert sorted(map(tuple, cells)) == [
        (" 6 ", False, "es", 8),
        (" 6 ", True, "pt", 7),
    ]


def test_a_batch_of_a_stream_that_is_replayed_is_written_once(
    spark: Any, server: Server, tmp_path: Path
) -> None:
    from memalign.integrations import spark as on_spark

    arriving = str(tmp_path / "arriving")
    out = str(tmp_path / "streamed")
    failed: list[Any] = []
    frame(spark, replies(10)).write.json(arriving)

    def judge_batch(batch: Any, number: int) -> None:
        verdicts = on_spark.judge(batch, JUDGE, tasks=1)
        verdicts.write.mode("overwrite").parquet(f"{out}/batch={number}")
        if not failed:
            failed.append(number)
            raise RuntimeError("the driver is lost after the write")

    def run() -> None:
        read = spark.readStream.schema("id string, outputs string").json(arriving)
        written = read.writeStream.foreachBatch(judge_batch)
        written = written.option("checkpointLocation", str(tmp_path / "checkpoint"))
        written.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="lost after the write"):
        run()
    run()
    assert spark.read.parquet(out).count() == 10
    assert len(server.asked) == 10


def test_a_job_keeps_its_rate(spark: Any, server: Server) -> None:
    from memalign.integrations import spark as on_spark

    def slow(body: Any) -> Any:
        begun.append(time.monotonic())
        time.sleep(1.0)
        return server.answered(body)

    begun = list[float]()
    server.answer = slow
    rows = frame(spark, replies(200))
    verdicts = on_spark.judge(rows, JUDGE, tasks=2, rows_per_second=20, concurrency=64)
    try:
        verdicts.write.format("noop").mode("overwrite").save()
    finally:
        server.answer = server.answered
    begun.sort()
    middle = begun[20:-20]
    rate = (len(middle) - 1) / (middle[-1] - middle[0])
    assert 16 < rate < 22, rate


def test_what_cannot_be_judged_is_said_before(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from memalign.integrations import spark as on_spark

    rows = frame(spark, [("a", "x")])
    reason = r"no column of content: .* its columns: id, answer"
    with pytest.raises(InputError, match=reason):
        on_spark.judge(rows.withColumnRenamed("outputs", "answer"), JUDGE)
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        on_spark.judge(rows, JUDGE)


def rows(count: int) -> list[RawRow]:
    return [{"id": f"i-{n:02}", "outputs": f"reply {n:02}"} for n in range(count)]


def test_every_row_has_a_verdict_within_the_limit_of_all(server: Server) -> None:
    with ray_of_two_workers(server.base_url) as ray:
        earlier = every_row_has_a_verdict(ray, server)
        cost = what_is_missing_is_judged(ray, earlier)
        server.asked.clear()
        the_limit_is_that_of_all(ray, server, limit=8.5 * cost)


def every_row_has_a_verdict(ray: Any, server: Server) -> list[RawRow]:
    from memalign.integrations import ray as on_ray

    odd = [{"id": None, "outputs": "x"}, {"id": "i-x", "outputs": None}]
    ds = ray.data.from_items(rows(20) + odd).repartition(4)
    judging = on_ray.judge(ds, JUDGE, tasks=2, batch_size=5, concurrency=4)
    verdicts: list[RawRow] = judging.take_all()
    assert len(verdicts) == 22
    said = {row["id"]: row["rationale"] for row in verdicts if row["error"] is None}
    assert said == {row["id"]: row["outputs"] for row in rows(20)}
    for row in verdicts:
        assert row["error"] is None or row["error"].startswith("InputError")
    assert set(server.asked.values()) == {1}
    return verdicts


def what_is_missing_is_judged(ray: Any, verdicts: list[RawRow]) -> float:
    """Judge what an earlier run lacks; the cost of one row."""
    from memalign.integrations import ray as on_ray

    earlier = pa.Table.from_pylist(verdicts)
    items = ray.data.from_items(rows(25))
    more = on_ray.judge(items, JUDGE, tasks=1, done=earlier).take_all()
    kept = [row | {"a.country": "pt"} for row in rows(25)]
    again = on_ray.judge(
        ray.data.from_items(kept),
        JUDGE,
        tasks=1,
        done=ray.data.from_arrow(earlier),
        keep=["a.country"],
    ).take_all()
    missing = [row["id"] for row in rows(25)[20:]]
    assert sorted(row["id"] for row in more) == missing
    assert sorted(row["id"] for row in again) == missing
    assert {row["a.country"] for row in again} == {"pt"}
    return float(more[0]["cost"])


def the_limit_is_that_of_all(ray: Any, server: Server, limit: float) -> None:
    from memalign.integrations import ray as on_ray

    ds = ray.data.from_items(rows(20)).repartition(4)
    verdicts = on_ray.judge(
        ds, JUDGE, tasks=2, batch_size=5, max_cost=limit, rows_per_second=200
    ).take_all()
    errors = [row["error"] for row in verdicts if row["error"]]
    assert len(verdicts) == 20
    assert 4 <= 20 - len(errors) == sum(server.asked.values()) <= 8
    for error in errors:
        assert "NotJudged" in error
