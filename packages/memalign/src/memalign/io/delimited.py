"""CSV and TSV files, by whatever mark their cells are separated, as spreadsheets of any country write them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from memalign.errors import InputError, RowError
from memalign.io.column_map import Columns
from memalign.io.locations import Location
from memalign.io.rows import Row, check_columns, decoded, file_lines

__all__ = ["cell_value", "delimited_rows", "header_names", "is_missing"]

_MARKS = {".csv": ",;\t|", ".tsv": "\t,;|"}
_SAID = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel's own first line
_MISSING = frozenset(("nan", "NaN", "NaT", "<NA>"))  # how pandas spells a missing cell as text
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_CP1252_UNDEFINED = b"\x81\x8d\x8f\x90\x9d"


def delimited_rows(path: Location, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of a CSV or TSV file. The mark that separates cells is the one that finds a field in the header."""
    # The standard reader refuses cells over 128 KiB unless told otherwise, and can only be told for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    not_utf8: dict[int, RowError] = {}

    def texts() -> Iterator[str]:
        for line, raw in file_lines(path):
            text = decoded(line, raw)
            if isinstance(text, RowError):
                not_utf8[line] = RowError(line=line, reason=text.reason.partition(";")[0] + _encoding_hint(raw))
                text = raw.decode("utf-8", "replace")
            yield text

    given = texts()
    first = list(islice(given, 1))
    said = _SAID.fullmatch(first[0]) if first else None
    skipped = 1 if said else 0
    while first and not first[-1].strip():  # empty lines before the header
        first += (more := list(islice(given, 1)))
        if not more:
            return
    mark = said[1] if said else _mark(first[-1] if first else "", _MARKS[path.suffix.lower()], columns)
    reader = csv.reader(chain(first[skipped:], given), strict=True, delimiter=mark)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1 + skipped  # where the row starts: a quoted cell may run over many lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            end = reader.line_num + skipped
            open_quote = f"a quote is opened and never closed, so that it takes in all up to line {end}"
            reason = open_quote if "end of data" in str(error) else str(error)
            if header is None:
                raise InputError(f"{path}: broken header, line {line}: {reason}") from None
            yield RowError(line=line, reason=f"broken CSV: {reason}")
            continue
        bad = next((not_utf8[n] for n in range(line, reader.line_num + skipped + 1) if n in not_utf8), None)
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            if bad is not None:
                raise InputError(f"{path}: {bad}")
            header = header_names(path, cells, columns)
        elif bad is not None:
            yield bad
        elif len(cells) != len(header):
            yield RowError(line=line, reason=f"broken CSV: {len(cells)} cells, but the header has {len(header)}")
        else:
            yield Row(line=line, fields=_fields(header, cells, columns, decimal_comma=mark == ";"))


def header_names(path: Location, cells: Sequence[str], columns: Columns) -> list[str]:
    """The names of columns. Raises InputError for a name that is there twice, and where none is a field's."""
    names = [cell.strip() or f"column {position}" for position, cell in enumerate(cells, 1)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the header names {', '.join(twice)} twice; every column needs a name of its own")
    check_columns(path, names, columns)
    return names


def is_missing(name: str, cell: str, columns: Columns) -> bool:
    """Whether a cell says nothing."""
    return not cell.strip() or (name in columns.labels and cell.strip() in _MISSING)


def cell_value(name: str, cell: str, columns: Columns) -> Any:
    """What a cell that is not missing holds: in a column of content a JSON object or array, elsewhere text."""
    text = cell.strip()
    if name in columns.json and (text[0], text[-1]) in (("{", "}"), ("[", "]")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return cell  # text that only looks like JSON: "[sic] … {1}"
    return cell


def _fields(header: Sequence[str], cells: Sequence[str], columns: Columns, *, decimal_comma: bool) -> Mapping[str, Any]:
    named = zip(header, cells, strict=True)
    fields = {name: cell_value(name, cell, columns) for name, cell in named if not is_missing(name, cell, columns)}
    if decimal_comma:  # where cells are separated by semicolons, numbers are written 0,5
        for name in columns.values & fields.keys():
            if _DECIMAL_COMMA.fullmatch(str(fields[name]).strip()):
                fields[name] = fields[name].strip().replace(",", ".")
    return fields


def _mark(header: str, marks: str, columns: Columns) -> str:
    """The mark that separates the cells of a header: the first that finds an id, else a field, else the commonest."""
    for fields in (columns.ids, columns.json | columns.labels):
        for mark in marks:
            names = header.rstrip("\r\n").split(mark)
            if len(names) > 1 and fields & {name.strip().strip('"').strip() for name in names}:
                return mark
    return max(marks, key=lambda mark: (header.count(mark), -marks.index(mark))) if "\n" in header else marks[0]


def _encoding_hint(raw: bytes) -> str:
    if any(byte in _CP1252_UNDEFINED for byte in raw):
        return "; save the file as UTF-8"
    return ", perhaps Windows-1252 as Excel writes a plain CSV; save it as CSV UTF-8, or as .xlsx"
