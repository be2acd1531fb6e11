"""CSV and TSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.rows import Row, file_texts

__all__ = ["cells_row", "delimited_rows", "header_names"]


def delimited_rows(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of a CSV or TSV file. Cells of a CSV are separated by commas, or by semicolons if the header has more.

    Raises:
        InputError: It is not UTF-8, or its header is broken.
    """
    # The standard reader refuses cells over 128 KiB unless told otherwise, and can only be told for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    first = next(file_texts(path), "")
    mark = "\t" if path.suffix.lower() == ".tsv" else max(",;", key=first.count)
    reader = csv.reader(file_texts(path), strict=True, delimiter=mark)
    header: list[str] | None = None
    while True:
        line = reader.line_num + 1  # where the row starts: a quoted cell may run over many lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if "end of data" in reason:
                end = reader.line_num
                reason = f"a quotation mark opens a cell and is never closed, so the cell runs on to line {end}"
            if header is None:
                raise InputError(f"{path}: the header on line {line} is broken: {reason}") from None
            yield RowError(line=line, reason=f"broken CSV: {reason}")
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = header_names(path, cells)
        else:
            yield cells_row(line, header, cells, columns)


def header_names(path: Path, cells: Sequence[str]) -> list[str]:
    """The names of columns. Raises InputError for a name that is there twice."""
    names = [cell.strip() or f"column {position}" for position, cell in enumerate(cells, 1)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"{path}: the header has {', '.join(twice)} twice; give every column its own name")
    return names


def cells_row(line: int, header: Sequence[str], cells: Sequence[Any], columns: Columns) -> Row | RowError:
    """The row of a table's cells, of which a text is read by `_value`."""
    if len(cells) != len(header):
        reason = f"the row has {len(cells)} cells and the header {len(header)}; write one cell for each column"
        return RowError(line=line, reason=reason)
    return Row(
        line=line,
        fields={
            name: _value(name, cell, columns) if isinstance(cell, str) else cell
            for name, cell in zip(header, cells, strict=True)
        },
    )


def _value(name: str, cell: str, columns: Columns) -> Any:
    """What a cell holds: None where it says nothing, in a column of content a JSON object or array, elsewhere text."""
    text = cell.strip()
    if not text:
        return None
    if name in columns.json and (text[0], text[-1]) in (("{", "}"), ("[", "]")):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return cell  # text that only looks like JSON: "[sic] … {1}"
    return cell
