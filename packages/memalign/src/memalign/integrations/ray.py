"""Judging on Ray Data: `Judge.predict_batch` on every batch of a data set, by `map_batches`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Unpack

from memalign.errors import ConfigurationError
from memalign.integrations.engines import (
    ROW_FIELDS,
    EngineLimits,
    EngineTask,
    check_done,
)
from memalign.io import Frame
from memalign.judge import Judge
from memalign.judge.frames import keys_of

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import ray.data
    from ray.data import ActorPoolStrategy, Dataset
except ImportError as missing:
    raise ConfigurationError(
        f"Ray needs what is not here ({missing}): install memalign[ray]"
    ) from None

__all__ = ["judge"]

_KEY = ("memalign_id", "memalign_hash")
_CPUS = 0.5
"""Of a worker, which waits more than it computes; with a whole one each, none would read rows."""


class _Worker:
    """A process of Ray's, which holds one task."""

    def __init__(self, task: EngineTask) -> None:
        self._task = task

    def __call__(self, table: pa.Table) -> pa.Table:
        return self._task(table)


def judge(
    ds: Dataset,
    judge: Judge,
    *,
    tasks: int = 4,
    batch_size: int = 1_000,
    done: Dataset | Frame | Collection[tuple[str, str]] = (),
    keep: Sequence[str] = (),
    **limits: Unpack[EngineLimits],
) -> Dataset:
    """Return the verdicts on the rows of a data set, with the columns of `Judge.predict_batch`.

    It is lazy, as all of Ray Data is, and every action judges again: write the verdicts once, and
    read them from there.

    Args:
        ds: Rows with the columns that the judge reads, and `id`, which is unique.
        judge: Only the driver needs the registry that it came from.
        tasks: Worker processes, half a CPU each, that judge side by side.
        batch_size: Rows that a worker judges at a time. What is judged again if it is lost is a
            block, or a batch.
        done: What an earlier run judged: its verdicts as a data set, which stays on the engine, or
            as another frame, or pairs of an id and a content hash. Left out.
        keep: Columns of the rows that the verdicts have too.
        limits: `concurrency`, `max_cost` and `rows_per_second`; see
            `memalign.integrations.engines.EngineLimits`.

    Returns:
        A data set with one row for each row that is judged, and `id` as it was. A row that fails
        has an `error` and stops no other.

    Raises:
        InputError: No column has content, a column cannot be kept, or a limit is not a number above
            0.
        ConfigurationError: There is no model, no key, or no price that `max_cost` needs.
    """
    columns = ds.columns() or ROW_FIELDS
    task = EngineTask(judge, tasks, columns=columns, keep=keep, **limits)
    rows = ds.select_columns(list(dict.fromkeys([*task.read.values(), *task.keep])))
    settings: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": batch_size}
    earlier = _keys(done, task.signature)
    if earlier is not None:
        hashed = rows.map_batches(task.hashed, **settings)
        rows = hashed.join(earlier, "left_anti", num_partitions=tasks, on=_KEY)
    pool = ActorPoolStrategy(size=tasks)
    return rows.map_batches(
        _Worker, fn_constructor_args=(task,), compute=pool, num_cpus=_CPUS, **settings
    )


def _keys(
    done: Dataset | Frame | Collection[tuple[str, str]], signature: str
) -> Dataset | None:
    """Return the ids and content hashes that a judge has answered, or None if there are none."""
    if isinstance(done, Dataset):
        return done.map_batches(_answered, fn_args=(signature,), batch_format="pyarrow")
    keys = sorted(keys_of(done, signature))
    if not keys:
        return None
    return ray.data.from_arrow(
        pa.table(list(zip(*keys, strict=True)), names=list(_KEY))
    )


def _answered(table: pa.Table, signature: str) -> pa.Table:
    """Return the keys of verdicts of this judge that are no errors."""
    check_done(table.column_names)
    answered = pc.and_(pc.equal(table["judge"], signature), pc.is_null(table["error"]))
    rows = table.filter(answered)
    return pa.table(
        {
            "memalign_id": rows["id"].cast("string"),
            "memalign_hash": rows["content_hash"].cast("string"),
        }
    )
