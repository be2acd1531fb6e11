"""Rows of a Parquet file, some hundred at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memalign.errors import ConfigurationError, InputError, RowError
from memalign.io.cells import plain_value
from memalign.io.column_map import Columns
from memalign.io.rows import id_needed

__all__ = ["parquet_rows"]

_BATCH = 256
_BUFFER = 1 << 20  # bytes read ahead of a column; without it a column of a row group is read whole


def parquet_rows(path: Path, columns: Columns | None) -> Iterator[tuple[int, dict[str, Any]] | RowError]:
    """The rows of a Parquet file, each with its 1-based number.

    Structs are objects, lists arrays, maps arrays of pairs; times are ISO 8601 text. Raises ConfigurationError without pyarrow,
    InputError for a file that cannot be read, or has none of the `columns` that may hold the id.
    """
    try:
        import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]  # ships no types
        import pyarrow.parquet as pq  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        raise ConfigurationError(f"reading {path} needs pyarrow: pip install pyarrow") from None
    try:
        with pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            names = list(file.schema_arrow.names)
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise InputError(f"{path}: {', '.join(twice)} is there twice; every column needs a name of its own")
            if columns is not None and not columns.ids & set(names):
                raise id_needed(path, names)
            number = 0
            for batch in file.iter_batches(batch_size=_BATCH, use_threads=False):
                for fields in batch.to_pylist():
                    number += 1
                    yield _row(number, fields)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is no readable Parquet file: {error}") from None


def _row(number: int, fields: dict[str, Any]) -> tuple[int, dict[str, Any]] | RowError:
    try:
        return number, {name: plain_value(value) for name, value in fields.items()}
    except InputError as error:
        return RowError(line=number, reason=str(error))
