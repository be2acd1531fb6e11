"""What one task of an engine does: `Judge.predict_batch` on its rows, within the task's part of the job's limits.

Tasks do not know of each other. A rate and a limit of cost are divided evenly by the number of tasks, so a task that
is slow, or has expensive rows, cannot use what another one leaves.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, TypedDict, Unpack

from memalign.errors import ConfigurationError, InputError
from memalign.io import Frame
from memalign.judge import Judge, signature_of
from memalign.judge.frames import keys_of
from memalign.models.base import PricedModel
from memalign.models.calls import Calls, check_concurrency
from memalign.models.judge_models import open_judging_model
from memalign.types import Usage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EngineTask", "Limits"]

_LOG = logging.getLogger("memalign.integrations")


class Limits(TypedDict, total=False):
    """How a job may ask its model.

    Attributes:
        concurrency: Calls in flight of one task; None for as many as suit the model.
        max_cost: Dollars of all tasks together. Each may spend an equal part; the rest of its rows have an error.
        rows_per_second: Rows a second of all tasks together, if all of them run at once.
    """

    concurrency: int | None
    max_cost: float | None
    rows_per_second: float | None


class EngineTask:
    """Judges the rows of one task, table by table; every task has a copy of what the driver made.

    Args:
        judge: Where it names no model, the one that the driver's environment names is used by all tasks.
        tasks: How many tasks share the limits. The log says what each has.
        done: A frame of earlier verdicts, or pairs of an id and a content hash: rows that are left out.
        limits: See `Limits`.

    Raises:
        InputError: When a limit, or the number of tasks, is not a number above 0.
        ConfigurationError: Without a model, its key, or the price that `max_cost` needs.
    """

    def __init__(
        self, judge: Judge, tasks: int, done: Frame | Collection[tuple[str, str]] = (), **limits: Unpack[Limits]
    ) -> None:
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise InputError(f"tasks is a whole number from 1 up, not {tasks!r}")
        check_concurrency(limits.get("concurrency"))
        self._concurrency = limits.get("concurrency")
        self._max_cost = _part("max_cost", limits.get("max_cost"), tasks)
        self._rate = _part("rows_per_second", limits.get("rows_per_second"), tasks)
        self._calls: Calls | None = None
        model = open_judging_model(judge)
        if self._max_cost and isinstance(model, PricedModel) and model.price_of(Usage(input_tokens=1)) is None:
            what = f"max_cost cannot hold, because the price of {model.name} is not known"
            raise ConfigurationError(f"{what}; give it in the judge's parameter models, or leave max_cost out")
        self.judge = judge.replace(model=model.name) if judge.model is None else judge
        self._done = keys_of(done, signature_of(self.judge))

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the verdicts on the rows of a table; a row that fails, or is beyond a limit, has an error."""
        import pyarrow as pa

        if self._rate is None:
            return self._judged(table)
        size, parts = math.ceil(self._rate), []
        for start in range(0, max(len(table), 1), size):
            begin = time.monotonic()
            parts.append(self._judged(table.slice(start, size)))
            time.sleep(max(0.0, len(parts[-1]) / self._rate - (time.monotonic() - begin)))
        return pa.concat_tables(parts)

    def _judged(self, table: pa.Table) -> pa.Table:
        self._calls = self._calls or Calls(max_cost=self._max_cost)  # of this task alone, for all of its tables
        predict = self.judge.predict_batch
        return predict(table, done=self._done, concurrency=self._concurrency, max_cost=self._calls)


def _part(name: str, limit: float | None, tasks: int) -> float | None:
    """The part of a limit that each of `tasks` tasks has."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
        raise InputError(f"{name} is a number above 0, not {limit!r}")
    _LOG.warning("%s=%g is divided by %d tasks: each has %g", name, limit, tasks, limit / tasks)
    return limit / tasks
