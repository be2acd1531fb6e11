"""Judging on Spark: `Judge.predict_batch` on every partition of a DataFrame, in SQL, and on streams.

A verdict is written once a row and judge: each task writes one file, and a run leaves out what an earlier one wrote. See
docs/decisions/0024-engines.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from memalign.errors import ConfigurationError, InputError
from memalign.integrations.coordinator import Coordinator, Limits, Task
from memalign.judge import Judge, signature_of
from memalign.judge.open_model import open_model
from memalign.judge.predict import KEY, arrow_schema
from memalign.types import CONTENT_FIELDS

try:
    import pyarrow as pa
    from pyspark.errors import AnalysisException
    from pyspark.sql import Observation
    from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
except ImportError as missing:
    raise ConfigurationError(f"Spark needs what is not here ({missing}): pip install 'memalign[spark]'") from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Written", "judge", "register", "stream", "write"]

_TYPES = {"bool": "boolean", "int64": "bigint", "double": "double"}
_DONE = "_done"  # the content hashes under which a row's id has its verdict already
_NOT_THERE = {"PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "DELTA_TABLE_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"}
_WHITE = r"(?U)^\s+|\s+$"
# A task's file comes into its place with the task, not at the end of the job: a driver that is killed loses what is under
# way and nothing else. A task has one file, of a name that its second attempt has too: so none is there twice.
_COMMIT = {"mapreduce.fileoutputcommitter.algorithm.version": "2", "maxRecordsPerFile": "0"}


@dataclass(frozen=True, kw_only=True)
class Written:
    """What a run did: rows that it was given, verdicts and errors that it wrote, dollars (None: not known)."""

    rows: int
    judged: int = 0
    failed: int = 0
    cost: float | None = 0.0


def judge(df: DataFrame, judge: Judge, **limits: Unpack[Limits]) -> DataFrame:
    """The verdicts on the rows of a DataFrame, with the columns of `Judge.predict_batch`; a row a row.

    It is lazy, as all of Spark is: every action judges again, and `write` keeps the verdicts. Raises InputError for a
    DataFrame without a column of content, ConfigurationError without a model, its key, or the price that `max_cost` needs.
    """
    run = _Run(df.sparkSession, judge, limits)
    return run.rows(df).mapInArrow(run.worker.batches, run.schema)


def write(
    df: DataFrame,
    judge: Judge,
    out: str,
    *,
    format: str = "parquet",  # noqa: A002  # Spark's word
    rows_per_task: int = 2_000,
    **limits: Unpack[Limits],
) -> Written:
    """Judge the rows of a DataFrame and append the verdicts to the table `out`: each row once a judge.

    A row is known again by its column `id`, which there must be, and its content. Rows that `out` has a verdict of this
    judge on are left out. An error is written too, and its row judged again by the next run. One run at a time may write
    to `out`. A task that is lost is done again: `rows_per_task` is how many calls that may cost.
    """
    run = _Run(df.sparkSession, judge, limits)
    try:
        return run.write(df, out, format, rows_per_task)
    finally:
        run.close()


def stream(
    df: DataFrame,
    judge: Judge,
    out: str,
    *,
    checkpoint: str,
    trigger: Mapping[str, Any] | None = None,
    format: str = "parquet",  # noqa: A002
    rows_per_task: int = 2_000,
    **limits: Unpack[Limits],
) -> StreamingQuery:
    """Judge a streaming DataFrame, each batch as `write` does. Gives the query, which runs.

    `checkpoint` is a folder in which Spark keeps how far it came; `trigger` has the arguments of Spark's, such as
    `{"availableNow": True}`. Of a batch that comes again after a stop only what is missing is judged.
    """
    run = _Run(df.sparkSession, judge, limits)

    def each(batch: DataFrame, _: int) -> None:
        run.write(batch, out, format, rows_per_task)

    writer = df.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
    return (writer.trigger(**trigger) if trigger else writer).start()


def register(spark: SparkSession, judge: Judge, name: str, **limits: Unpack[Limits]) -> None:
    """A function of SQL, `SELECT name(struct(id, inputs, outputs)) FROM cases`, that gives a struct of the columns."""
    run = _Run(spark, judge, limits)
    verdict = F.arrow_udf(run.worker.structs, f"struct<{run.schema}>")
    # Spark may call a deterministic function once for each field that is read of what it gives.
    spark.udf.register(name, verdict.asNondeterministic())


class _Worker(Task):
    """What a Python worker does: one judge, one adapter and one event loop for all of its tasks."""

    def batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts on a partition, a batch of Spark's at a time."""
        for batch in batches:
            yield from self.predict(pa.Table.from_batches([batch])).to_batches()

    def whole(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The verdicts that are missing of a partition, which holds all rows of its ids; none twice."""
        if not (given := list(batches)):
            return
        table = pa.Table.from_batches(given)
        earlier: set[tuple[str, str]] = set()
        if _DONE in table.column_names:
            ids = table[self.judge.columns.get("id", "id")]
            pairs = zip(ids.to_pylist(), table[_DONE].to_pylist(), strict=True)
            earlier = {(name, content) for name, contents in pairs for content in contents or ()}
            table = table.drop_columns([_DONE])
        verdicts, seen, kept = self.predict(table, done=earlier), set[tuple[str, str]](), []
        for name, content in zip(verdicts["id"].to_pylist(), verdicts["content_hash"].to_pylist(), strict=True):
            kept.append(content is None or (name, content) not in seen)
            seen.add((name, content))
        yield from verdicts.filter(pa.array(kept, pa.bool_())).to_batches()

    def structs(self, rows: Iterator[pa.Array]) -> Iterator[pa.Array]:
        """The verdicts on rows that are structs."""
        for batch in rows:
            verdicts = self.predict(pa.Table.from_struct_array(batch)).to_struct_array()
            yield pa.concat_arrays(verdicts.chunks) if verdicts.num_chunks else pa.array([], verdicts.type)


class _Run:
    """One run as the driver sees it."""

    def __init__(self, spark: SparkSession, judge: Judge, limits: Limits) -> None:
        if judge.model is None:  # what the driver's environment names, whatever a worker's would
            judge = judge.replace(model=open_model(judge).name)
        self._spark, self._columns = spark, judge.columns
        self._signature = signature_of(judge)
        fields = ((field.name, _TYPES.get(str(field.type), "string")) for field in arrow_schema(judge))
        self.schema = ", ".join(f"{name}: {kind}" for name, kind in fields)
        host = spark.conf.get("spark.driver.host", "127.0.0.1") or ""
        self._coordinator = Coordinator.of(limits, judge, host=host)
        place = None if self._coordinator is None else self._coordinator.place
        self.worker = _Worker(spark.sparkContext.broadcast(judge), limits, place)

    def close(self) -> None:
        """Grant no more calls."""
        if self._coordinator is not None:
            self._coordinator.close()

    def rows(self, df: DataFrame) -> DataFrame:
        """The columns that are judged, so that no other leaves Spark."""
        names = [self._columns.get(field, field) for field in ("id", *CONTENT_FIELDS)]
        there = [name for name in names if name in df.columns]
        if not set(there) - {names[0]}:
            raise InputError(
                f"the DataFrame has no column of content: {', '.join(names[1:])}; its columns: {', '.join(df.columns)}; "
                "Judge(columns={'outputs': 'answer'}) says which column a field is"
            )
        return df.select(*(F.col(f"`{name}`") for name in there))

    def write(self, df: DataFrame, out: str, form: str, rows_per_task: int) -> Written:
        """See `write`."""
        name = self._columns.get("id", "id")
        if name not in df.columns:
            raise InputError(f"the DataFrame has no column {name}; a row that is written is known again by its id")
        if isinstance(rows_per_task, bool) or not isinstance(rows_per_task, int) or rows_per_task < 1:
            raise InputError(f"rows_per_task is a whole number from 1 up, not {rows_per_task!r}")
        earlier = self._earlier(out, form)
        rows = self.rows(df).withColumn(name, F.regexp_replace(F.col(f"`{name}`").cast("string"), _WHITE, ""))
        if not (count := rows.count()):
            return Written(rows=0)
        # All rows of an id in one task, where the second is seen to be a copy.
        rows = rows.repartition(math.ceil(count / rows_per_task), F.col(f"`{name}`"))
        if earlier is not None:
            rows = rows.join(earlier.withColumnRenamed("id", name), name, "left")
        seen = Observation()
        one = F.lit(1)
        figures = {"rows": F.count(one), "failed": F.count("error"), "priced": F.count("cost"), "cost": F.sum("cost")}
        verdicts = rows.mapInArrow(self.worker.whole, self.schema)
        verdicts = verdicts.observe(seen, *(figure.alias(what) for what, figure in figures.items()))
        verdicts.write.format(form).mode("append").options(**_COMMIT).save(out)
        found = seen.get
        cost = (found["cost"] or 0.0) if found["priced"] == found["rows"] else None
        return Written(rows=count, judged=found["rows"] - found["failed"], failed=found["failed"], cost=cost)

    def _earlier(self, out: str, form: str) -> DataFrame | None:
        """By id the content hashes that `out` has a verdict of this judge on; None while there is no such table."""
        try:
            table = self._spark.read.format(form).load(out)
        except AnalysisException as error:
            if error.getCondition() in _NOT_THERE:
                return None
            raise
        if missing := [column for column in (*KEY, "value", "error") if column not in table.columns]:
            raise InputError(f"{out} has no column {missing[0]}: it is no table of verdicts; name another")
        kind = table.schema["value"].dataType.simpleString()
        if f"value: {kind}," not in self.schema:
            raise InputError(f"{out} holds verdicts of type {kind}, and this judge gives others; name another table")
        answered = (F.col("judge") == self._signature) & F.col("error").isNull()
        return table.where(answered).groupBy("id").agg(F.collect_set("content_hash").alias(_DONE))
