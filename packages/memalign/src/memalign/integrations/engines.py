"""Judging in a distributed engine: what Spark and Ray share.

The engine deals out rows, repeats what it lost and stores verdicts. Its workers do not know of each
other, so that each task has an equal part of the limits of the job. The sum never passes the limit,
at the price of waste: a task that is slow, or has expensive rows, cannot use what another leaves.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Container, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from memalign.errors import ConfigurationError, InputError
from memalign.judge import Judge, signature_of, task_of
from memalign.judge.frames import content_hashes, verdict_schema
from memalign.models.base import ChatModel, DecisionModel, PricedModel
from memalign.models.calls import Calls, check_concurrency
from memalign.models.judge_models import open_judging_model
from memalign.types import CONTENT_FIELDS, Usage

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ROW_FIELDS", "EngineLimits", "EngineTask", "check_done"]

ROW_FIELDS = ("id", *CONTENT_FIELDS)
"""What rows may have for a judge."""

_LOG = logging.getLogger("memalign.integrations")


class EngineLimits(TypedDict, total=False):
    """How a job may ask its model.

    Attributes:
        concurrency: Calls in flight of one task; None for as many as suit the model.
        max_cost: Dollars of all tasks together. Each may spend an equal part; the rest of its rows
            have an error.
        rows_per_second: Rows a second of all tasks together, if all of them run at once. Calls
            start at this pace, however long they take.
    """

    concurrency: int | None
    max_cost: float | None
    rows_per_second: float | None


class EngineTask:
    """Judges the rows of one task, table by table; every task has a copy of what the driver made.

    Args:
        judge: If it names no model, all tasks use the one that the driver's environment names.
        tasks: How many tasks share the limits. The log says what each has.
        columns: The columns of the rows.
        keep: Columns that verdicts have beside their own.
        limits: See `EngineLimits`.

    Raises:
        InputError: A limit, or the number of tasks, is not a number above 0, or a column cannot be
            read or kept.
        ConfigurationError: Without a model, its key, or the price that `max_cost` needs.
    """

    def __init__(
        self,
        judge: Judge,
        tasks: int,
        *,
        columns: Sequence[str] = ROW_FIELDS,
        keep: Sequence[str] = (),
        **limits: Unpack[EngineLimits],
    ) -> None:
        if type(tasks) is not int or tasks < 1:
            raise InputError(f"tasks is a whole number from 1 up, not {tasks!r}")
        check_concurrency(limits.get("concurrency"))
        self._concurrency = limits.get("concurrency")
        self._max_cost = _part("max_cost", limits.get("max_cost"), tasks)
        self._rate = _part("rows_per_second", limits.get("rows_per_second"), tasks)
        self._calls: Calls | None = None
        model = open_judging_model(judge)
        if self._max_cost:
            _check_price(model)
        self.judge = judge.replace(model=model.name) if judge.model is None else judge
        self.signature = signature_of(self.judge)
        self.read = _columns_read(judge, columns)
        """The columns that are read, by their fields."""
        self.keep = tuple(keep)
        _check_kept(self.keep, columns, judge)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the verdicts on the rows of a table, each with its id as it was.

        A row that fails has an error.
        """
        if self._calls is None:  # one for all tables of a task
            self._calls = Calls(max_cost=self._max_cost, per_second=self._rate)
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
        """Return a table with two columns more: its ids as text, and the hash of each row."""
        hashes = content_hashes(task_of(self.judge), self._rows(table), columns={})
        hashed = _column(hashes)
        ids = table[self.read["id"]].cast("string") if "id" in self.read else hashed
        table = table.append_column("memalign_id", ids)
        return table.append_column("memalign_hash", hashed)

    def _rows(self, table: pa.Table) -> pa.Table:
        """Return what the judge reads.

        Ids are numbers: rows of one id are judged alike, in one table or in two.
        """
        import pyarrow as pa

        present = set(table.column_names)
        fields = {
            field: table[name] for field, name in self.read.items() if name in present
        }
        if "id" in fields:
            ids = enumerate(fields["id"].cast("string").to_pylist())
            fields["id"] = _column(
                [str(n) if (name or "").strip() else None for n, name in ids]
            )
        return pa.table(fields)


def _columns_read(judge: Judge, columns: Sequence[str]) -> dict[str, str]:
    """Return the names of the columns that a judge reads, by their fields.

    Raises InputError if none of them has content.
    """
    wanted = {name: judge.columns.get(name, name) for name in ROW_FIELDS}
    read = {field: name for field, name in wanted.items() if name in columns}
    if not read.keys() & set(CONTENT_FIELDS):
        raise InputError(
            f"the rows have no column of content: {', '.join(wanted.values())}; its columns: "
            f"{', '.join(columns)}; name them, as Judge(columns={{'outputs': 'answer'}}) does"
        )
    return read


def _check_kept(keep: Sequence[str], columns: Collection[str], judge: Judge) -> None:
    """Raise InputError for a column that rows do not have, or that verdicts have already."""
    for name in keep:
        if name not in columns:
            raise InputError(f"{name!r} cannot be kept: it is no column of the rows")
        if name in verdict_schema(judge.value_type):
            raise InputError(
                f"{name!r} cannot be kept: it is a column of the verdicts; rename it"
            )


def _check_price(model: ChatModel | DecisionModel) -> None:
    """Raise ConfigurationError for a model whose calls have no price, so that no limit can hold."""
    if isinstance(model, PricedModel) and model.price_of(Usage(input_tokens=1)) is None:
        raise ConfigurationError(
            f"max_cost cannot hold, because the price of {model.name} is not known; give it in the "
            "judge's parameter models, or leave max_cost out"
        )


def check_done(columns: Container[str]) -> None:
    """Raise InputError if verdicts of an earlier run lack a column that says what was judged."""
    for name in ("id", "content_hash", "judge", "error"):
        if name not in columns:
            raise InputError(
                f"done has no column {name}; it is what an earlier run gave, or some of its rows"
            )


def _column(values: Sequence[str | None]) -> Any:
    import pyarrow as pa

    return pa.array(values, pa.string())


def _part(name: str, limit: float | None, tasks: int) -> float | None:
    """Return the part of a limit that each task has."""
    if limit is None:
        return None
    if (
        isinstance(limit, bool)
        or not isinstance(limit, int | float)
        or not 0 < limit < math.inf
    ):
        raise InputError(f"{name} is a number above 0, not {limit!r}")
    _LOG.warning(
        "%s=%g is divided by %d tasks: each has %g", name, limit, tasks, limit / tasks
    )
    return limit / tasks
