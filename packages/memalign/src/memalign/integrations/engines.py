"""Judging in a distributed engine: what Spark and Ray share.

The engine deals out rows, repeats what it lost and stores verdicts. Its workers do not know of each other, so that each
task has an equal part of the limits of the job. The sum never passes the limit, at the price of waste: a task that
is slow, or has expensive rows, cannot use what another one leaves.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from memalign.errors import ConfigurationError, InputError
from memalign.judge import Judge, signature_of, task_of
from memalign.judge.frames import content_hashes, verdict_schema
from memalign.models.base import PricedModel
from memalign.models.calls import Calls, check_concurrency
from memalign.models.judge_models import open_judging_model
from memalign.types import CONTENT_FIELDS, Usage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EngineLimits", "EngineTask"]

_LOG = logging.getLogger("memalign.integrations")


class EngineLimits(TypedDict, total=False):
    """How a job may ask its model.

    Attributes:
        concurrency: Calls in flight of one task; None for as many as suit the model.
        max_cost: Dollars of all tasks together. Each may spend an equal part; the rest of its rows have an error.
        rows_per_second: Rows a second of all tasks together, if all of them run at once. Calls start at this pace,
            however long they take.
    """

    concurrency: int | None
    max_cost: float | None
    rows_per_second: float | None


class EngineTask:
    """Judges the rows of one task, table by table; every task has a copy of what the driver made.

    Args:
        judge: Where it names no model, the one that the driver's environment names is used by all tasks.
        tasks: How many tasks share the limits. The log says what each has.
        columns: The columns of the rows; None for those that the judge can read.
        keep: Columns that verdicts have beside their own.
        limits: See `EngineLimits`.

    Raises:
        InputError: When a limit, or the number of tasks, is not a number above 0, or a column cannot be read or kept.
        ConfigurationError: Without a model, its key, or the price that `max_cost` needs.
    """

    def __init__(
        self,
        judge: Judge,
        tasks: int,
        *,
        columns: Sequence[str] | None = None,
        keep: Sequence[str] = (),
        **limits: Unpack[EngineLimits],
    ) -> None:
        if isinstance(tasks, bool) or not isinstance(tasks, int) or tasks < 1:
            raise InputError(f"tasks is a whole number from 1 up, not {tasks!r}")
        check_concurrency(limits.get("concurrency"))
        self._concurrency = limits.get("concurrency")
        self._max_cost = _part("max_cost", limits.get("max_cost"), tasks)
        self._rate = _part("rows_per_second", limits.get("rows_per_second"), tasks)
        self._calls: Calls | None = None
        model = open_judging_model(judge)
        if (
            self._max_cost
            and isinstance(model, PricedModel)
            and model.price_of(Usage(input_tokens=1)) is None
        ):
            what = f"max_cost cannot hold, because the price of {model.name} is not known"
            raise ConfigurationError(
                f"{what}; give it in the judge's parameter models, or leave max_cost out"
            )
        self.judge = judge.replace(model=model.name) if judge.model is None else judge
        self.signature = signature_of(self.judge)
        wanted = {field: judge.columns.get(field, field) for field in ("id", *CONTENT_FIELDS)}
        columns = [*wanted.values()] if columns is None else columns
        self.read = {field: name for field, name in wanted.items() if name in columns}
        """The columns that are read, by their fields."""
        if not self.read.keys() & set(CONTENT_FIELDS):
            lacks = f"no column of content: {', '.join(wanted.values())}; its columns: {', '.join(columns)}"
            raise InputError(
                f"the rows have {lacks}; name them, as Judge(columns={{'outputs': 'answer'}}) does"
            )
        self.keep = tuple(keep)
        for name in self.keep:
            if name not in columns or name in verdict_schema(judge.value_type):
                why = (
                    "is a column of the verdicts; rename it"
                    if name in columns
                    else "is no column of the rows"
                )
                raise InputError(f"{name!r} cannot be kept: it {why}")

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the verdicts on the rows of a table, each with its id as it was; what fails has an error."""
        self._calls = self._calls or Calls(
            max_cost=self._max_cost, per_second=self._rate
        )  # of all tables of a task
        judge = self.judge.replace(columns={})
        verdicts = judge.predict_batch(
            self._rows(table), concurrency=self._concurrency, max_cost=self._calls
        )
        if "id" in self.read and self.read["id"] in table.column_names:
            verdicts = verdicts.set_column(0, "id", table[self.read["id"]])
        for name in self.keep:
            verdicts = verdicts.append_column(name, table[name])
        return verdicts

    def hashed(self, table: pa.Table) -> pa.Table:
        """Return a table with a column for its ids as text and one for the hash of each row's content."""
        hashes = content_hashes(task_of(self.judge), self._rows(table), columns={})
        ids = table[self.read["id"]].cast("string") if "id" in self.read else _column(hashes)
        return table.append_column("memalign_id", ids).append_column(
            "memalign_hash", _column(hashes)
        )

    def _rows(self, table: pa.Table) -> pa.Table:
        """Return what the judge reads. Ids are numbers: rows of one id are judged alike, in one table or in two."""
        import pyarrow as pa

        fields = {
            field: table[name] for field, name in self.read.items() if name in table.column_names
        }
        if "id" in fields:
            ids = fields["id"].cast("string").to_pylist()
            fields["id"] = _column(
                [str(n) if name and name.strip() else None for n, name in enumerate(ids)]
            )
        return pa.table(fields)


def _column(values: Sequence[str | None]) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array(values, pa.string())])


def _part(name: str, limit: float | None, tasks: int) -> float | None:
    """The part of a limit that each of `tasks` tasks has."""
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int | float) or not 0 < limit < math.inf:
        raise InputError(f"{name} is a number above 0, not {limit!r}")
    _LOG.warning("%s=%g is divided by %d tasks: each has %g", name, limit, tasks, limit / tasks)
    return limit / tasks
