"""Judging on Spark: `Judge.predict_batch` on every partition of a DataFrame, by `mapInArrow`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Unpack

from memalign.errors import ConfigurationError, InputError
from memalign.integrations.engines import EngineTask, Limits
from memalign.io import Frame
from memalign.judge import Judge
from memalign.judge.frames import verdict_schema
from memalign.types import CONTENT_FIELDS

try:
    import pyarrow as pa
    import pyspark  # noqa: F401  # so that a missing engine is said here
except ImportError as missing:
    raise ConfigurationError(f"Spark needs what is not here ({missing}): install memalign[spark]") from None

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["judge"]

_TYPES = {"bool": "boolean", "int64": "bigint", "double": "double"}


def judge(
    df: DataFrame,
    judge: Judge,
    *,
    tasks: int = 8,
    done: Frame | Collection[tuple[str, str]] = (),
    **limits: Unpack[Limits],
) -> DataFrame:
    """Return the verdicts on the rows of a DataFrame, with the columns of `Judge.predict_batch`.

    It is lazy, as all of Spark is, and every action judges again: write the verdicts once, and read them from there.

    Args:
        df: Rows with the columns that the judge reads, and `id`.
        judge: Only the driver needs the registry that it came from.
        tasks: The partitions of the rows, of which Spark judges one on each core; one that is lost is judged again.
        done: What an earlier run judged: its verdicts as a frame, or pairs of an id and a content hash. Left out.
        limits: `concurrency`, `max_cost` and `rows_per_second`; see `memalign.integrations.engines.Limits`.

    Returns:
        A DataFrame with one row for each row that is judged. A row that fails has an `error` and stops no other.

    Raises:
        InputError: When no column has content, or a limit is not a number above 0.
        ConfigurationError: Without a model, its key, or the price that `max_cost` needs.
    """
    columns = [judge.columns.get(field, field) for field in ("id", *CONTENT_FIELDS)]
    present = [name for name in columns if name in df.columns]
    if not set(present) - {columns[0]}:
        lacks = f"no column of content: {', '.join(columns[1:])}; its columns: {', '.join(df.columns)}"
        raise InputError(f"the DataFrame has {lacks}; name them, as Judge(columns={{'outputs': 'answer'}}) does")
    task = EngineTask(judge, tasks, done, **limits)

    def predict(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from task(pa.Table.from_batches([batch])).to_batches()

    schema = ", ".join(
        f"{field.name}: {_TYPES.get(str(field.type), 'string')}" for field in verdict_schema(judge).to_arrow()
    )
    return df.select(*(f"`{name}`" for name in present)).repartition(tasks).mapInArrow(predict, schema)
