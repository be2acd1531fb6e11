"""CSV and TSV files."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.rows import Row, file_texts

__all__ = ["delimited_rows", "distinct_names", "table_rows"]

_TITLE_ROWS = 20
"""Rows among which the header of a table is looked for."""


def delimited_rows(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    """Read the rows of a CSV or TSV file, under the row that has the names of columns.

    The mark between cells is what the header has outside quotation marks: in a .tsv file a tab, else a comma, a
    semicolon, a tab or a bar. A first line `sep=;`, as spreadsheets write it, names the mark.

    Raises:
        InputError: It is not UTF-8, or its header is broken.
    """
    # The standard reader refuses cells over 128 KiB unless told otherwise, and can only be told for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    mark, begin = _mark_of(path, columns)
    texts: Iterator[str] = islice(_lines(path), begin, None)
    if _backslashes(path, mark):
        texts = map(_doubled, texts)
    return table_rows(path, _records(path, texts, mark, begin), columns)


def _lines(path: Path) -> Iterator[str]:
    """Return the lines of a text file, which an old program may end by carriage returns alone. Raises InputError."""
    first = next(file_texts(path), "")
    if "\r" not in first.rstrip("\r\n"):
        yield from file_texts(path)
        return
    for text in file_texts(path):
        yield from re.split(r"(?<=\r)(?!\n)", text)


def _records(path: Path, texts: Iterable[str], mark: str, begin: int) -> Iterator[tuple[int, list[str]] | RowError]:
    """Return the cells of each row that has any, with the line where it starts. Raises InputError."""
    reader = csv.reader(texts, strict=True, delimiter=mark)
    first = True
    while True:
        line = begin + reader.line_num + 1  # a quoted cell may run over many lines
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = str(error)
            if "end of data" in reason:
                end = begin + reader.line_num
                reason = f"a quotation mark opens a cell and is never closed, so the cell runs on to line {end}"
            if first:
                raise InputError(f"{path}: the header on line {line} is broken: {reason}") from None
            yield RowError(line=line, reason=f"broken CSV: {reason}")
            continue
        if any(cell.strip() for cell in cells):
            first = False
            yield line, cells


def table_rows(
    path: Path, records: Iterable[tuple[int, list[Any]] | RowError], columns: Columns, *, ragged: bool = False
) -> Iterator[Row | RowError]:
    """Return the rows under a table's header: the first row that names columns as memalign knows them, else the first.

    A table may have a title, or a line on its export, above its header.

    Args:
        path: What errors name.
        records: The cells of each row that has any, with its line.
        columns: Which column each field is read from.
        ragged: Whether empty cells at the end of a row are not written.

    Raises:
        InputError: Two columns have the name of a field.
    """
    waiting: list[tuple[int, list[Any]]] = []
    header: list[str] = []
    for record in records:
        if isinstance(record, RowError):
            yield record
            continue
        if header:
            yield _cells_row(*record, header, ragged=ragged)
            continue
        waiting.append(record)
        if _is_header(record[1], columns, first=len(waiting) == 1):
            waiting = [record]
        elif len(waiting) < _TITLE_ROWS:
            continue
        header = _header_names(path, waiting[0][1], columns)
        for line, cells in waiting[1:]:
            yield _cells_row(line, cells, header, ragged=ragged)
    if waiting and not header:
        header = _header_names(path, waiting[0][1], columns)
        for line, cells in waiting[1:]:
            yield _cells_row(line, cells, header, ragged=ragged)


def _is_header(cells: Sequence[Any], columns: Columns, *, first: bool) -> bool:
    known = {str(cell).strip() for cell in cells} & columns.read
    return len(known) > 1 or (first and bool(known))


def _header_names(path: Path, cells: Sequence[Any], columns: Columns) -> list[str]:
    """Return the names of columns; a name that is there twice gets a number, unless a field is read from it.

    Raises:
        InputError: Two columns have the name of a field.
    """
    shown = ["" if cell is None else str(cell).strip() for cell in cells]
    names = [name or f"column {position}" for position, name in enumerate(shown, 1)]
    return distinct_names(f"{path}: the header", names, columns)


def distinct_names(what: str, names: Sequence[str], columns: Columns) -> list[str]:
    """Return the names, each once: one that is there again gets a number. Raises InputError for one that is read."""
    counts = Counter(names)
    twice = sorted(name for name in columns.read if counts[name] > 1)
    if twice:
        raise InputError(f"{what} has {', '.join(twice)} twice; give every column its own name")
    seen: Counter[str] = Counter()
    made = []
    for name in names:
        seen[name] += 1
        made.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return made


def _cells_row(line: int, cells: Sequence[Any], header: Sequence[str], *, ragged: bool) -> Row | RowError:
    """Return the row of a table's cells; one that says nothing is None, and empty ones behind the last are dropped."""
    extra = [cell for cell in cells[len(header) :] if cell is not None and str(cell).strip()]
    if (len(cells) < len(header) and not ragged) or extra:
        reason = f"the row has {len(cells)} cells and the header {len(header)}; write one cell for each column"
        return RowError(line=line, reason=reason)
    said = (None if isinstance(cell, str) and not cell.strip() else cell for cell in cells)
    return Row(line=line, fields=dict(zip_longest(header, islice(said, len(header)))))


# -- which dialect it is -----------------------------------------------------------------------------------------------


def _mark_of(path: Path, columns: Columns) -> tuple[str, int]:
    """Return the mark between cells, and how many lines come before the table to say so."""
    lines = list(islice(_lines(path), _TITLE_ROWS))
    named = re.fullmatch(r"sep=(.)\s*", lines[0], re.IGNORECASE) if lines else None
    if named:
        return named[1], 1
    if path.suffix.lower() == ".tsv":
        return "\t", 0
    best = (0, 0, ",")
    for line in lines:
        outside = re.sub(r'"[^"]*"', "", line)
        for mark in ",;\t|":
            names = {cell.strip().strip('"') for cell in line.rstrip("\r\n").split(mark)}
            score = (len(names & columns.read), outside.count(mark), mark)
            best = max(best, score, key=lambda found: found[:2])
        if best[0] > 1:
            break
    first = re.sub(r'"[^"]*"', "", lines[0]) if lines else ""
    return (best[2] if best[0] > 1 else max(",;\t|", key=first.count)), 0


_BACKSLASHES = re.compile(r'(?<!\\)(\\+)"')


def _doubled(text: str) -> str:
    """Return a line in which quotation marks are doubled where Spark writes a backslash before them."""

    def written(match: re.Match[str]) -> str:
        count = len(match[1])
        return "\\" * (count // 2) + ('""' if count % 2 else '"')

    return _BACKSLASHES.sub(written, text) if "\\" in text else text


def _backslashes(path: Path, mark: str) -> bool:
    """Return whether a file has backslashes before its quotation marks, as Spark writes: then only so is it whole."""
    if not any('\\"' in text for text in _lines(path)):
        return False
    return not _reads(_lines(path), mark) and _reads(map(_doubled, _lines(path)), mark)


def _reads(texts: Iterable[str], mark: str) -> bool:
    """Return whether every row is whole, and has as many cells as the first."""
    try:
        widths = {len(cells) for cells in csv.reader(texts, strict=True, delimiter=mark) if any(cells)}
    except csv.Error:
        return False
    return len(widths) == 1
