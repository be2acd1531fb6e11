"""Judging on Ray Data: `Judge.predict_batch` on every batch of a data set, by `map_batches`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Unpack

from memalign.errors import ConfigurationError
from memalign.integrations.engines import EngineTask, Limits
from memalign.io import Frame
from memalign.judge import Judge

try:
    import pyarrow as pa
    from ray.data import ActorPoolStrategy
except ImportError as missing:
    raise ConfigurationError(f"Ray needs what is not here ({missing}): install memalign[ray]") from None

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["judge"]

_CPUS = 0.5  # a worker waits more than it computes; at a whole CPU each none would be left for reading the rows


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
    done: Frame | Collection[tuple[str, str]] = (),
    **limits: Unpack[Limits],
) -> Dataset:
    """Return the verdicts on the rows of a data set, with the columns of `Judge.predict_batch`.

    It is lazy, as all of Ray Data is, and every action judges again: write the verdicts once, and read them from there.

    Args:
        ds: Rows with the columns that the judge reads, and `id`.
        judge: Only the driver needs the registry that it came from.
        tasks: Worker processes, half a CPU each, that judge side by side.
        batch_size: Rows that a worker judges at a time. What is judged again if it is lost is a block, or a batch.
        done: What an earlier run judged: its verdicts as a frame, or pairs of an id and a content hash. Left out.
        limits: `concurrency`, `max_cost` and `rows_per_second`; see `memalign.integrations.engines.Limits`.

    Returns:
        A data set with one row for each row that is judged. A row that fails has an `error` and stops no other.

    Raises:
        InputError: When a limit is not a number above 0.
        ConfigurationError: Without a model, its key, or the price that `max_cost` needs.
    """
    task = EngineTask(judge, tasks, done, **limits)
    settings: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": batch_size, "num_cpus": _CPUS}
    return ds.map_batches(_Worker, fn_constructor_args=(task,), compute=ActorPoolStrategy(size=tasks), **settings)
