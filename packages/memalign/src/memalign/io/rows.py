"""Rows of a file, each with the line it stands on, and what is wrong with those that cannot be read.

JSONL and CSV are read line by line and Parquet some hundred rows at a time, so that a large file never lies in memory
and one broken line costs that line only; a JSON array is read whole.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, RowError
from memalign.types import CONTENT_FIELDS

__all__ = ["FORMATS", "LABEL_FIELDS", "Row", "json_rows", "never_empty", "read_rows"]

FORMATS = ".jsonl, .ndjson, .csv, .parquet or .json (an array)"

_BOM = b"\xef\xbb\xbf"
_JSON_CELLS = frozenset((*CONTENT_FIELDS, "meta"))
LABEL_FIELDS = ("value", "rationale", "source", "created_at")
_MISSING = frozenset(("nan", "NaN", "NaT", "<NA>"))  # how pandas spells a missing cell as text


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row: its 1-based line (in a `.json` array or a list, its position) and its fields as they were written."""

    line: int
    fields: Mapping[str, Any]


def read_rows(path: str | Path) -> Iterator[Row | RowError]:
    """The rows of a JSONL, CSV, JSON or Parquet file, in order; a RowError stands where a row cannot be read.

    Empty CSV cells are left out, and cells of content fields that hold a JSON object or array are parsed. Raises
    InputError when the file as a whole cannot be read or has no row, ConfigurationError for Parquet without pyarrow.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path}: unknown kind of file {path.suffix!r}; use {FORMATS}")
    return never_empty(str(path), reader(path))


def never_empty(name: str, rows: Iterator[Row | RowError]) -> Iterator[Row | RowError]:
    """The same rows. Raises InputError, which calls them `name`, when there is none."""
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InputError(f"{name} is empty: it has no row")


def _jsonl(path: Path) -> Iterator[Row | RowError]:
    return json_rows(_lines(path))


def json_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[Row | RowError]:
    """The rows of numbered JSON lines; empty ones are left out."""
    for line, raw in lines:
        text = _decoded(line, raw.removeprefix(_BOM) if line == 1 else raw)
        if isinstance(text, RowError):
            yield text
        elif text.strip():
            try:
                fields = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError) as error:
                yield RowError(line=line, reason=f"broken JSON: {error}")
                continue
            yield _object(line, fields)


def _json(path: Path) -> Iterator[Row | RowError]:
    parts: list[str] = []
    for line, raw in _lines(path):
        part = _decoded(line, raw)
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


def _csv(path: Path) -> Iterator[Row | RowError]:
    # The standard reader refuses cells over 128 KiB unless told otherwise, and can only be told for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    not_utf8: dict[int, RowError] = {}

    def texts() -> Iterator[str]:
        for line, raw in _lines(path):
            text = _decoded(line, raw)
            if isinstance(text, RowError):
                not_utf8[line] = text
                text = raw.decode("utf-8", "replace")
            yield text

    reader = csv.reader(texts(), strict=True)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1  # where the row starts: a quoted cell may run over many lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            open_quote = f"a quote is opened and never closed, so that it takes in all up to line {reader.line_num}"
            reason = open_quote if "end of data" in str(error) else str(error)
            if header is None:
                raise InputError(f"{path}: broken header, line {line}: {reason}") from None
            yield RowError(line=line, reason=f"broken CSV: {reason}")
            continue
        bad = next((not_utf8[n] for n in range(line, reader.line_num + 1) if n in not_utf8), None)
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            if bad is not None:
                raise InputError(f"{path}: {bad}")
            header = _header(path, cells)
        elif bad is not None:
            yield bad
        elif len(cells) != len(header):
            yield RowError(line=line, reason=f"broken CSV: {len(cells)} cells, but the header has {len(header)}")
        else:
            named = zip(header, cells, strict=True)
            yield Row(line=line, fields={name: _cell(name, cell) for name, cell in named if not _missing(name, cell)})


def _header(path: Path, cells: list[str]) -> list[str]:
    names = [cell.strip() or f"column {position}" for position, cell in enumerate(cells, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the header names {', '.join(twice)} twice; every column needs a name of its own")
    if "id" not in names:
        other = next((mark for mark in (";", "\t") if mark in cells[0]), None)
        hint = f"; cells are separated by commas here, not by {other!r}" if other else ""
        raise InputError(f"{path}: the header has no column id; its columns: {', '.join(names)[:200]}{hint}")
    return names


def _missing(name: str, cell: str) -> bool:
    return not cell.strip() or (name in LABEL_FIELDS and cell.strip() in _MISSING)


def _cell(name: str, cell: str) -> Any:
    text = cell.strip()
    if name in _JSON_CELLS and (text[0], text[-1]) in (("{", "}"), ("[", "]")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return cell  # text that only looks like JSON: "[sic] … {1}"
    return cell


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for line, raw in enumerate(file, 1):
                if line == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise InputError(f"{path} is UTF-16, not UTF-8; save it as UTF-8")
                yield line, raw.removeprefix(_BOM) if line == 1 else raw
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def _decoded(line: int, raw: bytes) -> str | RowError:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        return RowError(line=line, reason=f"not UTF-8: byte {error.start + 1} is 0x{byte:02x}; save the file as UTF-8")


def _kind(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "an array"}
    return names.get(type(value), type(value).__name__)


def _parquet(path: Path) -> Iterator[Row | RowError]:
    from memalign.io.parquet import parquet_rows  # pyarrow takes a moment

    for found in parquet_rows(path):
        yield found if isinstance(found, RowError) else Row(line=found[0], fields=found[1])


_READERS = {
    **dict.fromkeys((".jsonl", ".ndjson"), _jsonl),
    ".csv": _csv,
    ".json": _json,
    **dict.fromkeys((".parquet", ".pq"), _parquet),
}
