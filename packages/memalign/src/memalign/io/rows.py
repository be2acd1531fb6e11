"""Rows of a file, each with the line it stands on, and what is wrong with those that cannot be read.

JSONL, CSV and sheets are read row by row and Parquet some hundred rows at a time, so that a large file never lies in
memory and one broken line costs that line only; a JSON array is read whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, RowError
from memalign.io.column_map import FIELDS, LABEL_FIELDS, Columns
from memalign.io.locations import Location, Remote, location_of, store_errors

__all__ = [
    "FORMATS",
    "LABEL_FIELDS",
    "Row",
    "check_columns",
    "decoded",
    "file_lines",
    "json_rows",
    "never_empty",
    "read_rows",
]

FORMATS = ".jsonl, .ndjson, .csv, .tsv, .xlsx, .parquet or .json (an array), or a folder of Parquet or JSONL files"

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row: its 1-based line (in a `.json` array or a list, its position) and its fields as they were written.

    In a sheet `letters` has the letter of each field's column. `made_id`: the row came without an id, and has one made of
    its content. `review`: it is of a sheet that `memalign review` wrote, and may be not filled in yet.
    """

    line: int
    fields: Mapping[str, Any]
    letters: Mapping[str, str] = field(default_factory=dict)
    made_id: bool = False
    review: bool = False


def read_rows(path: str | Path, columns: Columns | None = None) -> Iterator[Row | RowError]:
    """The rows of a file in order, as they were written; a RowError stands where a row cannot be read.

    Empty cells of CSV files and sheets are left out, and cells of content fields that hold a JSON object or array are
    parsed; `columns` says which columns these are. A URL of an object store is read like a path, and a folder file by
    file. Raises InputError when the file as a whole cannot be read or has no row, ConfigurationError for Parquet without
    pyarrow and for a URL without its driver.
    """
    place = location_of(path)
    return never_empty(str(place), _told(place, _found(place, columns or Columns())))


def _told(path: Location, rows: Iterator[Row | RowError]) -> Iterator[Row | RowError]:
    with store_errors(path):
        yield from rows


def _found(path: Location, columns: Columns) -> Iterator[Row | RowError]:
    suffix = path.suffix.lower()
    found: Iterator[Row | RowError]
    if path.is_dir():
        found = _folder(path, columns)
    elif suffix in (".jsonl", ".ndjson"):
        found = json_rows(file_lines(path))
    elif suffix == ".json":
        found = _json(path)
    elif suffix in (".csv", ".tsv"):
        from memalign.io.delimited import delimited_rows

        found = delimited_rows(path, columns)
    elif suffix in (".xlsx", ".xlsm") and isinstance(path, Path):
        from memalign.io.sheets import sheet_rows  # openpyxl takes a moment

        found = sheet_rows(path, columns)
    elif suffix in (".parquet", ".pq"):
        found = _parquet(path, columns)
    elif not suffix:
        raise InputError(f"{path}: there is no such folder, and a file's name ends in its kind: {FORMATS}")
    else:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; use {FORMATS}")
    return found


def _folder(path: Location, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of all JSONL files below a folder, by their names and numbered on; else those of its Parquet files."""
    if isinstance(path, Path):
        files: list[Location] = [*sorted(path.rglob("*.jsonl"))]
    else:
        names = sorted(path.fs.find(path.path))
        files = [Remote(path.fs.unstrip_protocol(name), path.fs, name) for name in names if name.endswith(".jsonl")]
    if not files:
        return _parquet(path, columns)
    lines = (raw for file in files for _, raw in file_lines(file))
    return json_rows(enumerate(lines, 1))


def never_empty(name: str, rows: Iterator[Row | RowError]) -> Iterator[Row | RowError]:
    """The same rows. Raises InputError, which calls them `name`, when there is none."""
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InputError(f"{name} is empty: it has no row")


def json_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[Row | RowError]:
    """The rows of numbered JSON lines; empty ones are left out."""
    for line, raw in lines:
        text = decoded(line, raw.removeprefix(_BOM) if line == 1 else raw)
        if isinstance(text, RowError):
            yield text
        elif text.strip():
            try:
                fields = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                yield RowError(line=line, reason=f"broken JSON: {error}")
                continue
            yield _object(line, fields)


def _json(path: Location) -> Iterator[Row | RowError]:
    parts: list[str] = []
    for line, raw in file_lines(path):
        part = decoded(line, raw)
        if isinstance(part, RowError):
            raise InputError(f"{path}: {part}")
        parts.append(part)
    text = "".join(parts)
    if not text.strip():
        return
    try:
        items = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"{path}: broken JSON: {error}; a file with one object a line is called .jsonl") from None
    if not isinstance(items, list):
        raise InputError(
            f"{path}: a .json file holds one array of rows; a file with one object a line is called .jsonl"
        )
    for position, fields in enumerate(items, 1):
        yield _object(position, fields)


def _object(line: int, fields: object) -> Row | RowError:
    if isinstance(fields, dict):
        return Row(line=line, fields=fields)
    return RowError(line=line, reason=f"a row is a JSON object, not {_kind(fields)}")


def file_lines(path: Location) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a text file, without a byte order mark. Raises InputError."""
    try:
        with path.open("rb") as file:
            for line, raw in enumerate(file, 1):
                if line == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise InputError(f"{path} is UTF-16, not UTF-8; save it as UTF-8")
                yield line, raw.removeprefix(_BOM) if line == 1 else raw
    except OSError as error:
        if isinstance(path, Remote):
            raise  # `store_errors` knows more of it
        reason = ": no such file" if isinstance(error, FileNotFoundError) else f" cannot be read: {error.strerror}"
        raise InputError(f"{path}{reason}") from None


def decoded(line: int, raw: bytes) -> str | RowError:
    """A line's text, or what is wrong with it."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        return RowError(line=line, reason=f"not UTF-8: byte {error.start + 1} is 0x{byte:02x}; save the file as UTF-8")


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "an array"}
    return names.get(type(value), type(value).__name__)


def check_columns(path: Location, names: Iterable[str], columns: Columns) -> None:
    """Raise InputError for a file none of whose columns is an id or content: they have other names."""
    names = list(names)
    if not (columns.ids | columns.json) & set(names):
        listed = ", ".join(names)[:200]
        raise InputError(
            f"{path} has no column of a field's name; its columns: {listed}; --map names them, for example "
            f"--map inputs=COLUMN,outputs=COLUMN (fields: {', '.join(FIELDS)})"
        )


def _parquet(path: Location, columns: Columns) -> Iterator[Row | RowError]:
    from memalign.io.parquet import parquet_rows  # pyarrow takes a moment

    for found in parquet_rows(path, columns):
        yield found if isinstance(found, RowError) else Row(line=found[0], fields=found[1])
