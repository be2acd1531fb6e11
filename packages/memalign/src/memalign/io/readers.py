"""Which reader a file needs: by its suffix, and the files of a folder one after the other.

JSONL, CSV and sheets are read row by row and Parquet some hundred rows at a time, so that a large file never lies in
memory and one broken line costs that line only; a JSON array is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.delimited import delimited_rows
from memalign.io.files import path_of
from memalign.io.frames import parquet_rows
from memalign.io.rows import Row, array_rows, file_lines, json_rows, never_empty
from memalign.io.sheets import sheet_rows

__all__ = ["read_rows"]

_FORMATS = ".jsonl, .ndjson, .csv, .tsv, .xlsx, .parquet or .json (an array), or a folder of Parquet or JSONL files"


def read_rows(path: str | Path, columns: Columns | None = None) -> Iterator[Row | RowError]:
    """Read the rows of a file in order, as they were written; a row that cannot be read is a RowError.

    Args:
        path: A file or a folder; a folder is read file by file.
        columns: Which columns hold content: there, cells of CSV files and sheets that hold a JSON object or array are
            parsed. Empty cells are None.

    Raises:
        InputError: The file as a whole cannot be read or has no row.
        ConfigurationError: Parquet without pyarrow.
    """
    yield from never_empty(str(path), _rows_of(path_of(path), columns or Columns()))


def _rows_of(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    suffix = path.suffix.lower()
    if path.is_dir():
        return _folder_rows(path)
    if suffix in (".jsonl", ".ndjson"):
        return json_rows(file_lines(path))
    if suffix == ".json":
        return array_rows(path)
    if suffix in (".csv", ".tsv"):
        return delimited_rows(path, columns)
    if suffix in (".xlsx", ".xlsm"):
        return sheet_rows(path, columns)
    if suffix in (".parquet", ".pq"):
        return parquet_rows(path)
    if not suffix:
        raise InputError(f"{path}: there is no such folder, and the name of a file has to end in {_FORMATS}")
    raise InputError(f"{path}: cannot read files of type {path.suffix!r}; use {_FORMATS}")


def _folder_rows(path: Path) -> Iterator[Row | RowError]:
    """The rows of all JSONL files below a folder, by their names and numbered on; else those of its Parquet files."""
    files = sorted(path.rglob("*.jsonl"))
    if not files:
        return parquet_rows(path)
    return json_rows(enumerate((raw for file in files for _, raw in file_lines(file)), 1))
