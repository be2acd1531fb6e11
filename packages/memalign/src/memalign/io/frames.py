"""DataFrames as rows: pandas, Polars, Arrow tables and whatever else Narwhals reads. None of them is a dependency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memalign.errors import InputError, RowError
from memalign.io.cells import plain_fields, shown_id
from memalign.io.rows import Row

__all__ = ["column_names", "frame_rows", "is_frame", "is_lazy", "plain_rows"]

_MARKS = ("__narwhals_dataframe__", "__dataframe__", "__arrow_c_stream__")


def is_frame(given: object) -> bool:
    """Whether it is a DataFrame or a table, by the protocols that such objects have; nothing is imported."""
    if isinstance(given, str | Path | list | tuple | Mapping | Iterator):
        return False
    return any(hasattr(type(given), mark) for mark in _MARKS)


def is_lazy(given: object) -> bool:
    """Whether it is a frame that is still to be computed."""
    return type(given).__name__ == "LazyFrame" and hasattr(given, "collect")


def column_names(given: Any) -> list[str] | None:
    """The names of the columns of a frame or data set, a named index among them; None for anything else."""
    names = getattr(given, "column_names", None)  # of Arrow tables and of Hugging Face's data sets
    if names is None and is_frame(given):
        names = getattr(given, "columns", None)
    if names is None or isinstance(given, Mapping):
        return None
    index = getattr(getattr(given, "index", None), "name", None)
    return [str(name) for name in (*names, *([] if index is None else [index]))]


def frame_rows(frame: Any) -> Iterator[Row | RowError]:
    """The rows of a frame, each with its 1-based position; a named index is a column too.

    Arrays are lists, times ISO 8601 text. Raises InputError for one that Narwhals does not read.
    """
    import narwhals as nw

    if getattr(getattr(frame, "index", None), "name", None) is not None:
        frame = frame.reset_index()
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(f"{type(frame).__name__} is no DataFrame that can be read: {error}") from None
    return plain_rows(table.iter_rows(named=True))


def plain_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row | RowError]:
    """Mappings of any library's values as rows, each with its 1-based position."""
    for position, fields in enumerate(rows, 1):
        try:
            yield Row(line=position, fields=plain_fields(fields))
        except InputError as error:
            yield RowError(line=position, reason=str(error), id=shown_id(fields))
        except RecursionError:
            yield RowError(line=position, reason="a cell is nested too deep to be read; flatten it")
