"""Judging on Ray Data: `Judge.predict_batch` on every batch of a data set, by `map_batches`."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from memalign.errors import ConfigurationError
from memalign.integrations.engines import EngineTask, Limits, ready
from memalign.io import Frame
from memalign.judge import Judge, signature_of
from memalign.judge.frames import keys_of

try:
    import pyarrow  # noqa: F401  # so that a missing engine is said here
    from ray.data import ActorPoolStrategy
except ImportError as missing:
    raise ConfigurationError(f"Ray needs what is not here ({missing}): install memalign with its extra ray") from None

if TYPE_CHECKING:
    from ray.data import Dataset

__all__ = ["judge"]

_CPUS = 0.5  # a worker waits more than it computes; at a whole CPU each none would be left for reading the rows


def judge(
    ds: Dataset,
    judge: Judge,
    *,
    tasks: int = 4,
    batch_size: int = 1_000,
    done: Frame | Collection[tuple[str, str]] = (),
    concurrency: int | None = None,
    max_cost: float | None = None,
    rows_per_second: float | None = None,
) -> Dataset:
    """Give the verdicts on the rows of a data set, with the columns of `Judge.predict_batch`.

    It is lazy, as all of Ray Data is, and every action judges again: write the verdicts once, and read them from there.

    Args:
        ds: Rows with the columns that the judge reads, and `id`.
        judge: Only the driver needs the registry that it came from.
        tasks: Worker processes, half a CPU each, that judge side by side.
        batch_size: Rows that a worker judges at a time, and again if it is lost.
        done: What an earlier run judged: its verdicts as a frame, or pairs of an id and a content hash. Left out.
        concurrency: Calls in flight of one task; None for as many as suit the model.
        max_cost: Dollars of all tasks together. Each may spend an equal part; the rest of its rows have an error.
        rows_per_second: Rows a second of all tasks together.

    Returns:
        A data set with one row for each row that is judged. A row that fails has an `error` and stops no other.

    Raises:
        InputError: When a limit is not a number above 0.
        ConfigurationError: Without a model, its key, or the price that `max_cost` needs.
    """
    limits = Limits(concurrency=concurrency, max_cost=max_cost, rows_per_second=rows_per_second)
    judge = ready(judge, limits)
    task = {"judge": judge, "limits": limits.share(tasks), "done": keys_of(done, signature_of(judge))}
    settings: dict[str, Any] = {"batch_format": "pyarrow", "batch_size": batch_size, "num_cpus": _CPUS}
    return ds.map_batches(EngineTask, fn_constructor_kwargs=task, compute=ActorPoolStrategy(size=tasks), **settings)
