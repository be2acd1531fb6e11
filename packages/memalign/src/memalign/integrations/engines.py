"""What one task of an engine does: `Judge.predict_batch` on its rows, within the task's part of the job's limits.

Tasks do not speak to each other. A rate and a limit of cost are divided evenly by the number of tasks, so a task that
is slow, or has dear rows, leaves a part of its own unused.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from memalign.errors import ConfigurationError, InputError
from memalign.judge import Judge
from memalign.models.base import PricedModel
from memalign.models.calls import Calls, check_concurrency
from memalign.models.judge_models import open_judging_model
from memalign.types import Usage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EngineTask", "Limits", "ready"]

_LOG = logging.getLogger("memalign.integrations")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How a judge may be asked.

    Attributes:
        concurrency: Calls in flight of one task; None for as many as suit the model.
        max_cost: Dollars; None for no limit.
        rows_per_second: Rows judged a second; None for no limit.
    """

    concurrency: int | None = None
    max_cost: float | None = None
    rows_per_second: float | None = None

    def share(self, tasks: int) -> Limits:
        """Give each of `tasks` tasks its part, and say in the log what it is.

        Raises:
            InputError: When a limit or the number of tasks is not a number above 0.
        """
        check_concurrency(self.concurrency)
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise InputError(f"tasks is a whole number from 1 up, not {tasks!r}")
        return replace(
            self,
            max_cost=_part("max_cost", self.max_cost, tasks),
            rows_per_second=_part("rows_per_second", self.rows_per_second, tasks),
        )


def _part(name: str, limit: float | None, tasks: int) -> float | None:
    """The part of a limit that each of `tasks` tasks has."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
        raise InputError(f"{name} is a number above 0, not {limit!r}")
    _LOG.warning("%s=%g is divided by %d tasks: each has %g", name, limit, tasks, limit / tasks)
    return limit / tasks


def ready(judge: Judge, limits: Limits) -> Judge:
    """Give the judge as every worker has it: with the model that the driver's environment names, where it names none.

    Raises:
        ConfigurationError: When there is no model, no key for it, or no price although there is a limit of cost.
    """
    model = open_judging_model(judge)
    if limits.max_cost is not None and isinstance(model, PricedModel) and model.price_of(Usage(input_tokens=1)) is None:
        raise ConfigurationError(
            f"max_cost cannot hold: what a call of {model.name} costs is not known; say it with the judge's parameter "
            "models, or leave max_cost out"
        )
    return judge.replace(model=model.name) if judge.model is None else judge


class EngineTask:
    """Judges the rows of one task, table by table."""

    def __init__(self, judge: Judge, limits: Limits, done: Collection[tuple[str, str]] = ()) -> None:
        """Hold a judge, the task's own limits, and the keys (id and content hash) of rows that are left out."""
        self._judge, self._limits, self._done = judge, limits, done
        self._calls = Calls(max_cost=limits.max_cost)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Give the verdicts on the rows of a table: a row that fails, or is beyond a limit, is a row with an error."""
        import pyarrow as pa

        rate = self._limits.rows_per_second
        if rate is None:
            return self._judged(table)
        size, parts = math.ceil(rate), []
        for start in range(0, max(len(table), 1), size):
            begin = time.monotonic()
            parts.append(self._judged(table.slice(start, size)))
            time.sleep(max(0.0, len(parts[-1]) / rate - (time.monotonic() - begin)))
        return pa.concat_tables(parts)

    def _judged(self, table: pa.Table) -> pa.Table:
        verdicts: pa.Table = self._judge.predict_batch(
            table, done=self._done, concurrency=self._limits.concurrency, max_cost=self._calls
        )
        return verdicts
