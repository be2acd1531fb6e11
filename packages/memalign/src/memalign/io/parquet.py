"""Rows of a Parquet file, or of a folder of them, some hundred at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from memalign.errors import ConfigurationError, InputError, RowError
from memalign.io.cells import plain_fields, shown_id
from memalign.io.column_map import Columns
from memalign.io.locations import Location, shown_location
from memalign.io.rows import check_columns

__all__ = ["open_parquet", "parquet_rows", "plain_row"]

_BATCH = 256
_BUFFER = 1 << 20  # bytes read ahead of a column; without it a column of a row group is read whole


def parquet_rows(path: Location, columns: Columns | None) -> Iterator[tuple[int, dict[str, Any]] | RowError]:
    """The rows of a Parquet file, or of all files below a folder in the order of their names, each with its 1-based number.

    Folders named `day=2026-01-01` are columns. Structs are objects, lists arrays, maps arrays of pairs; times are ISO
    8601 text. Raises ConfigurationError without pyarrow, InputError for a file that cannot be read, or has none of the
    `columns` of a field.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]  # ships no types
    except ImportError:
        raise ConfigurationError(f"reading {path} needs pyarrow: pip install pyarrow") from None
    try:
        with ExitStack() as opened:
            names, batches = _batches(path, opened)
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"{path}: {', '.join(twice)} is there twice; every column needs a name of its own")
            if columns is not None:
                check_columns(path, names, columns)
            number = 0
            for batch in batches:
                for fields in _to_microseconds(batch).to_pylist():
                    number += 1
                    yield plain_row(number, fields)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is no readable Parquet file: {shown_location(error)}") from None


def _batches(path: Location, opened: ExitStack) -> tuple[list[str], Iterator[Any]]:
    """The names of the columns, and the record batches."""
    if path.is_dir():
        data = open_parquet(path)
        read = {"batch_size": _BATCH, "batch_readahead": 1, "fragment_readahead": 1, "use_threads": False}
        return list(data.schema.names), data.to_batches(**read)
    import pyarrow.parquet as pq  # type: ignore[import-untyped, import-not-found, unused-ignore]

    source = path if isinstance(path, Path) else opened.enter_context(path.open())
    file = opened.enter_context(pq.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False))
    return list(file.schema_arrow.names), file.iter_batches(batch_size=_BATCH, use_threads=False)


def _to_microseconds(batch: Any) -> Any:
    """The batch with times that Python has, which go to the microsecond; pyarrow refuses others."""
    types = [_python_type(column.type) for column in batch.columns]
    if types == [column.type for column in batch.columns]:
        return batch
    import pyarrow as pa

    columns = [column.cast(kind, safe=False) for column, kind in zip(batch.columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _python_type(kind: Any) -> Any:
    """A type of Arrow, with microseconds where it has nanoseconds, at any depth of lists and structs."""
    import pyarrow as pa
    import pyarrow.types as is_of  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if is_of.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit == "ns" else kind
    if is_of.is_duration(kind):
        return pa.duration("us") if kind.unit == "ns" else kind
    if is_of.is_time64(kind):
        return pa.time64("us")
    if is_of.is_list(kind) or is_of.is_large_list(kind):
        make = pa.list_ if is_of.is_list(kind) else pa.large_list
        return make(kind.value_field.with_type(_python_type(kind.value_type)))
    if is_of.is_struct(kind):
        return pa.struct([field.with_type(_python_type(field.type)) for field in kind])
    return kind


def open_parquet(path: Location) -> Any:
    """A Parquet file, or all files below a folder, as one data set of pyarrow. Raises InputError for an empty folder."""
    import pyarrow.dataset as ds  # type: ignore[import-untyped, import-not-found, unused-ignore]

    fs = None if isinstance(path, Path) else path.fs
    where = str(path) if isinstance(path, Path) else path.path
    data = ds.dataset(where, format="parquet", partitioning="hive", filesystem=fs, exclude_invalid_files=False)
    if not data.files:
        raise InputError(f"{path} is a folder without Parquet or JSONL files")
    return data


def plain_row(number: int, fields: dict[str, Any]) -> tuple[int, dict[str, Any]] | RowError:
    """A row by its number, its values as JSON has them; a RowError where one has no such form."""
    try:
        return number, plain_fields(fields)
    except InputError as error:
        return RowError(line=number, reason=str(error), id=shown_id(fields))
