"""Judging on Spark: `Judge.predict_batch` on every partition of a DataFrame, by `mapInArrow`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from memalign.errors import ConfigurationError
from memalign.integrations.engines import (
    ROW_FIELDS,
    EngineLimits,
    EngineTask,
    check_done,
)
from memalign.io import Frame
from memalign.judge import Judge
from memalign.judge.frames import verdict_schema

try:
    import pyarrow as pa
    from pyspark.sql.types import (
        BooleanType,
        DoubleType,
        LongType,
        StringType,
        StructField,
        StructType,
    )
except ImportError as missing:
    raise ConfigurationError(
        f"Spark needs what is not here ({missing}): install memalign[spark]"
    ) from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["judge"]

_TYPES = {"bool": BooleanType(), "int64": LongType(), "double": DoubleType()}
_KEY = ["memalign_id", "memalign_hash"]


def judge(
    df: DataFrame,
    judge: Judge,
    *,
    tasks: int = 8,
    done: DataFrame | Frame | Collection[tuple[str, str]] = (),
    keep: Sequence[str] = (),
    **limits: Unpack[EngineLimits],
) -> DataFrame:
    """Return the verdicts on the rows of a DataFrame, with the columns of `Judge.predict_batch`.

    It is lazy, as all of Spark is, and every action judges again: write the verdicts once, and read
    them from there.

    Args:
        df: Rows with the columns that the judge reads, and `id`, which is unique.
        judge: Only the driver needs the registry that it came from.
        tasks: The partitions of the rows, of which Spark judges one on each core; one that is lost
            is judged again.
        done: What an earlier run judged: its verdicts as a DataFrame, which stays on the engine, or
            as another frame, or pairs of an id and a content hash. Left out.
        keep: Columns of the rows that the verdicts have too.
        limits: `concurrency`, `max_cost` and `rows_per_second`; see
            `memalign.integrations.engines.EngineLimits`.

    Returns:
        A DataFrame with one row for each row that is judged, and `id` as it was. A row that fails
        has an `error` and stops no other.

    Raises:
        InputError: No column has content, a column cannot be kept, or a limit is not a number above
            0.
        ConfigurationError: There is no model, no key, or no price that `max_cost` needs.
    """
    columns = {}
    for field in ROW_FIELDS:
        columns[field] = _found(df, judge.columns.get(field, field))
    kept = [_found(df, name) for name in keep]
    judge = judge.replace(columns=columns)
    task = EngineTask(judge, tasks, columns=df.columns, keep=kept, **limits)
    names = list(dict.fromkeys([*task.read.values(), *task.keep]))
    # mapInArrow looks columns up, and takes no backtick.
    short = [f"c{number}" for number in range(len(names))]
    rows = df.select(*(_quoted(name) for name in names)).toDF(*short)
    if not isinstance(done, Collection) or len(done):
        keyed = StructType(
            [*rows.schema.fields, *(StructField(name, StringType()) for name in _KEY)]
        )
        hashed = rows.mapInArrow(_each(task.hashed, names, [*short, *_KEY]), keyed)
        rows = hashed.join(_keys(df, done, task.signature), _KEY, "left_anti").select(
            *short
        )
    schema = _verdicts(task, StructType([df.schema[name] for name in names]))
    return rows.repartition(tasks).mapInArrow(_each(task, names, schema.names), schema)


def _found(df: DataFrame, name: str) -> str:
    """Return the name of a column as the DataFrame writes it: Spark ignores case."""
    if (
        name in df.columns
        or df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"
    ):
        return name
    return next(
        (column for column in df.columns if column.lower() == name.lower()), name
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _each(
    step: Callable[[pa.Table], pa.Table], names: Sequence[str], after: Sequence[str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what Spark calls with the batches of a partition.

    `step` sees the columns `names`, and Spark those `after`.
    """

    def steps(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            table = step(pa.Table.from_batches([batch]).rename_columns(names))
            yield from table.rename_columns(after).to_batches()

    return steps


def _keys(df: DataFrame, done: Any, signature: str) -> DataFrame:
    """Return the ids and content hashes that a judge has answered, as a DataFrame."""
    spark: Any = df.sparkSession
    frame = hasattr(done, "columns") or hasattr(done, "schema")
    if isinstance(done, Collection) and not frame:
        schema = ", ".join(f"{name} string" for name in _KEY)
        return spark.createDataFrame([tuple(key) for key in done], schema)
    earlier: Any = (
        done if hasattr(done, "sparkSession") else spark.createDataFrame(done)
    )
    check_done(earlier.columns)
    answered = earlier.where(earlier.error.isNull() & (earlier.judge == signature))
    return answered.selectExpr(
        "CAST(id AS string) AS memalign_id", "content_hash AS memalign_hash"
    )


def _verdicts(task: EngineTask, given: StructType) -> StructType:
    """Return the schema of verdicts: ids and kept columns as they are in the rows."""
    fields = []
    for field in verdict_schema(task.judge.value_type).to_arrow():
        fields.append(
            StructField(field.name, _TYPES.get(str(field.type), StringType()))
        )
    if "id" in task.read:
        fields[0] = StructField("id", given[task.read["id"]].dataType)
    return StructType([*fields, *(given[name] for name in task.keep)])
