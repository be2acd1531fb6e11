"""DataFrames, data sets and Parquet files as rows, their values as JSON has them. No library of them is required."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from memalign.errors import ConfigurationError, InputError, RowError
from memalign.io.rows import Row

__all__ = ["Frame", "column_names", "frame_rows", "is_absent", "is_frame", "parquet_rows", "shown_id"]

_PROTOCOLS = ("__narwhals_dataframe__", "__dataframe__", "__arrow_c_stream__")
_BATCH = 256  # rows of a Parquet file that are read at once


class Frame(Protocol):
    """A DataFrame or table of pandas, Polars, Arrow or another library that has Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


def is_frame(value: object) -> bool:
    """Whether it is a DataFrame or a table, by the protocols that such objects have; nothing is imported."""
    if isinstance(value, str | Path | list | tuple | Mapping | Iterator):
        return False
    return any(hasattr(type(value), protocol) for protocol in _PROTOCOLS)


def column_names(value: Any) -> list[str] | None:
    """The names of the columns of a frame or data set, a named index among them; None for anything else."""
    names = getattr(value, "column_names", None)  # of Arrow tables and of Hugging Face's data sets
    if names is None and is_frame(value):
        names = getattr(value, "columns", None)
    if names is None or isinstance(value, Mapping):
        return None
    index = getattr(getattr(value, "index", None), "name", None)
    return [str(name) for name in (*names, *([] if index is None else [index]))]


def frame_rows(frame: Any) -> Iterator[Row | RowError]:
    """The rows of a frame or data set, each with its 1-based position; a named index is a column too.

    Arrays are lists, times ISO 8601 text. Raises InputError for a frame that Narwhals does not read.
    """
    if not is_frame(frame):  # a data set, which gives its rows as mappings
        yield from _plain_rows(frame)
        return
    import narwhals as nw

    if getattr(getattr(frame, "index", None), "name", None) is not None:
        frame = frame.reset_index()
    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(f"cannot read this {type(frame).__name__} as a DataFrame: {error}") from None
    yield from _plain_rows(table.iter_rows(named=True))


def parquet_rows(path: Path) -> Iterator[Row | RowError]:
    """The rows of a Parquet file, or of all files below a folder; folders named `day=2026-01-01` are columns."""
    try:
        import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]  # ships no types
        import pyarrow.dataset as ds  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ConfigurationError(f"reading {path} needs pyarrow: pip install pyarrow") from None
    try:
        data = ds.dataset(path, format="parquet", partitioning="hive", exclude_invalid_files=False)
        if not data.files:
            raise InputError(f"{path} is a folder without Parquet files; name a file, or a folder with some")
        names = data.schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"{path}: it has the column {', '.join(twice)} twice; give every column its own name")
        batches = data.to_batches(batch_size=_BATCH, batch_readahead=1, fragment_readahead=1, use_threads=False)
        yield from _plain_rows(row for batch in batches for row in batch.to_pylist())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:  # ValueError: times to the nanosecond, without pandas
        raise InputError(f"cannot read {path} as a Parquet file: {error}") from None


# -- values ------------------------------------------------------------------------------------------------------------


def _plain_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row | RowError]:
    """Mappings of any library's values as rows, each with its 1-based position."""
    for position, fields in enumerate(rows, 1):
        name = "?"
        plain = {}
        try:
            for name, value in fields.items():
                plain[str(name)] = _plain(value)
            yield Row(line=position, fields=plain)
        except InputError as error:
            yield RowError(line=position, reason=f"column {name} {error}", id=shown_id(fields))


def is_absent(value: object) -> bool:
    """Whether a cell is missing: None, and what pandas writes for it, NaN, NaT, NA. The first two equal nothing."""
    missing = isinstance(value, float | datetime) and value != value  # noqa: PLR0124
    return value is None or missing or type(value).__name__ == "NAType"


def shown_id(fields: Mapping[str, Any]) -> str | None:
    """The row's id, where it has one as text or as a number."""
    name = fields.get("id")
    return str(name) if isinstance(name, str | int) and str(name).strip() else None


def _plain(value: Any) -> Any:
    """`value` as JSON has it: arrays are lists, structs objects, times ISO 8601 text. Raises InputError for bytes."""
    if isinstance(value, str | bool | int) or is_absent(value):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, timedelta | UUID):
        return str(value)
    if isinstance(value, bytes):
        raise InputError("holds bytes; leave the column out, or use text, a number, a boolean, a list or a struct")
    if type(value).__module__ == "numpy":  # an array, or one of numpy's own numbers
        return _plain(value.tolist())
    return value
