"""CSV and TSV files, by whatever mark their cells are separated, as spreadsheets of any country write them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.files import atomic_write
from memalign.io.rows import Row, decoded, file_lines
from memalign.terminal import plain

__all__ = ["cell_value", "delimited_rows", "header_names", "safe_cell", "write_delimited"]

_MARKS = {".csv": ",;\t|", ".tsv": "\t,;|"}
_MARK_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel's own first line
_MISSING = frozenset(("nan", "NaN", "NaT", "<NA>"))  # how pandas spells a missing cell as text
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_ENCODING = "perhaps Windows-1252, as Excel writes a plain CSV; save it as CSV UTF-8 or as .xlsx"
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are the full-width ones


def delimited_rows(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of a CSV or TSV file. The mark that separates cells is the one that finds a field in the header."""
    # The standard reader refuses cells over 128 KiB unless told otherwise, and can only be told for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    not_utf8: dict[int, RowError] = {}

    def texts() -> Iterator[str]:
        for line, raw in file_lines(path):
            text = decoded(line, raw)
            if isinstance(text, RowError):
                not_utf8[line] = RowError(line=line, reason=f"{text.reason.partition(';')[0]}, {_ENCODING}")
                text = raw.decode("utf-8", "replace")
            yield text

    lines = texts()
    head = [next(lines, "")]
    mark_line = _MARK_LINE.fullmatch(head[0])
    skipped = 1 if mark_line else 0
    while head[-1] and (not head[-1].strip() or len(head) == skipped):  # empty lines before the header
        head.append(next(lines, ""))
    mark = mark_line[1] if mark_line else _mark(head[-1], _MARKS[path.suffix.lower()], columns)
    reader = csv.reader(chain(head[skipped:], lines), strict=True, delimiter=mark)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1 + skipped  # where the row starts: a quoted cell may run over many lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if "end of data" in reason:
                end = reader.line_num + skipped
                reason = f"a quotation mark opens a cell and is never closed, so the cell runs on to line {end}"
            if header is None:
                raise InputError(f"{path}: the header on line {line} is broken: {reason}") from None
            yield RowError(line=line, reason=f"broken CSV: {reason}")
            continue
        bad = next((not_utf8[n] for n in range(line, reader.line_num + skipped + 1) if n in not_utf8), None)
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            if bad is not None:
                raise InputError(f"{path}: {bad}")
            header = header_names(path, cells)
        elif bad is not None:
            yield bad
        elif len(cells) != len(header):
            yield RowError(line=line, reason=f"broken CSV: the row has {len(cells)} cells and the header {len(header)}")
        else:
            yield Row(line=line, fields=_fields(header, cells, columns, decimal_comma=mark == ";"))


def header_names(path: Path, cells: Sequence[str]) -> list[str]:
    """The names of columns. Raises InputError for a name that is there twice."""
    names = [cell.strip() or f"column {position}" for position, cell in enumerate(cells, 1)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path}: the header has {', '.join(twice)} twice; give every column its own name")
    return names


def cell_value(name: str, cell: str, columns: Columns) -> Any:
    """What a cell holds: None where it says nothing, in a column of content a JSON object or array, elsewhere text."""
    text = cell.strip()
    if not text or (name in columns.labels and text in _MISSING):
        return None
    if name in columns.json and (text[0], text[-1]) in (("{", "}"), ("[", "]")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return cell  # text that only looks like JSON: "[sic] … {1}"
    return cell


def _fields(header: Sequence[str], cells: Sequence[str], columns: Columns, *, decimal_comma: bool) -> Mapping[str, Any]:
    fields = {name: cell_value(name, cell, columns) for name, cell in zip(header, cells, strict=True)}
    for name in columns.values & fields.keys():  # where cells are separated by semicolons, numbers are written 0,5
        if decimal_comma and _DECIMAL_COMMA.fullmatch(str(fields[name]).strip()):
            fields[name] = str(fields[name]).strip().replace(",", ".")
    return fields


def _mark(header: str, marks: str, columns: Columns) -> str:
    """The mark that separates the cells of a header: the first that finds an id, else a field, else the commonest."""
    for fields in (columns.ids, columns.json | columns.labels):
        for mark in marks:
            names = header.rstrip("\r\n").split(mark)
            if len(names) > 1 and fields & {name.strip().strip('"').strip() for name in names}:
                return mark
    return max(marks, key=lambda mark: (header.count(mark), -marks.index(mark))) if "\n" in header else marks[0]


# -- writing -----------------------------------------------------------------------------------------------------------


def write_delimited(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table as CSV, or TSV by the suffix: UTF-8 with the mark by which spreadsheets know it.

    A text that a spreadsheet would take for a formula begins with an apostrophe.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        with atomic_write(path) as file:
            text = io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="", write_through=True)
            writer = csv.writer(text, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\r\n")
            writer.writerow(header)
            writer.writerows([safe_cell(cell) for cell in cells] for cells in rows)
            text.detach()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; if it is open in a spreadsheet, close it") from None


def safe_cell(cell: Any) -> Any:
    """A cell of a CSV or TSV file: a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    text = plain(cell)
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text
