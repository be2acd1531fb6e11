"""CSV and TSV files, and the rows under the header of any table."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.rows import ReadRow, ReadRows, Row, file_texts

__all__ = [
    "TITLE_ROWS",
    "delimited_rows",
    "distinct_names",
    "header_place",
    "table_rows",
]

_NAMED_MARK = re.compile(r"sep=(.)\s*$", re.IGNORECASE)
TITLE_ROWS = 20
"""Rows among which the header of a table is looked for."""


def delimited_rows(path: Path, columns: Columns) -> ReadRows:
    """Read the rows of a CSV or TSV file, under the row that has the names of columns.

    The mark between cells is the one by which a row names most columns: a comma, a semicolon, a tab
    or a bar. A first line `sep=;`, as spreadsheets write it, names the mark.

    A blank behind the mark is no part of a cell if all names of columns have one, and quotation
    marks follow such blanks.

    Raises:
        InputError: It is not UTF-8, or its header is broken.
    """
    # The standard reader refuses cells over 128 KiB unless told otherwise, for the whole process.
    csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))
    first = list(islice(file_texts(path), TITLE_ROWS))
    named = _NAMED_MARK.match("".join(first[:1]))
    begin = 0
    if named:
        begin = 1
        mark = named[1]
    else:
        mark = _mark_of(first, columns)
    texts: Iterator[str] = islice(file_texts(path), begin, None)
    if _written_by_spark(path, mark):
        texts = map(_doubled, texts)
    header = "".join(first[begin : begin + 1])
    marks = header.count(mark)
    spaced = 0 < marks == header.count(f"{mark} ") and _has_spaced_quotes(path, mark)
    reader = csv.reader(texts, strict=True, delimiter=mark, skipinitialspace=spaced)
    return table_rows(path, _records(path, reader, begin), columns)


def _has_spaced_quotes(path: Path, mark: str) -> bool:
    """Return whether blanks stand before opening quotation marks, and nowhere as indentation."""
    if mark == "\t":
        return False
    has_quotes = False
    for text in file_texts(path):
        if f"{mark}  " in text:
            return False
        has_quotes = has_quotes or f'{mark} "' in text
    return has_quotes


def _mark_of(first: Sequence[str], columns: Columns) -> str:
    """Return the mark by which a line names most columns; without names, the header's commonest."""

    def fit(mark: str) -> tuple[int, int]:
        rows = list(csv.reader(first, delimiter=mark))
        if not rows:
            return 0, 0
        named = max(_known(cells, columns) for cells in rows)
        width = len(rows[0])
        if named < 2:
            named = 0
        return named, width

    return max(",;\t|", key=fit)


def _known(cells: Sequence[Any], columns: Columns) -> int:
    """Return how many names of columns that are read stand in a row."""
    names = {columns.field_of(str(cell).strip()) for cell in cells}
    known = names & columns.read
    return len(known)


def _records(
    path: Path, reader: Any, begin: int
) -> Iterator[tuple[int, list[str]] | RowError]:
    """Return the cells of each row that has any, with the line where it starts."""
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
                reason = (
                    "a quotation mark opens a cell and is never closed, "
                    f"so the cell runs on to line {end}"
                )
            elif "expected after" in reason:
                reason = "a quotation mark inside a quoted cell is not doubled"
            if first:
                raise InputError(
                    f"{path}: the header on line {line} is broken: {reason}"
                ) from None
            yield RowError(line=line, reason=f"broken CSV: {reason}")
            continue
        if any(cell.strip() for cell in cells):
            first = False
            yield line, cells


# -- any table -------------------------------------------------------------------------------------


def table_rows(
    path: Path,
    records: Iterable[tuple[int, list[Any]] | RowError],
    columns: Columns,
    *,
    ragged: bool = False,
) -> ReadRows:
    """Return the rows under a table's header: the first row that names two columns, else the first.

    A table may have a title, or a line on its export, above its header.

    Args:
        path: What errors name.
        records: The cells of each row that has any, with its line.
        columns: Which column each field is read from.
        ragged: Whether empty cells at the end of a row are not written.

    Raises:
        InputError: Two columns have the name of a field.
    """
    records = iter(records)
    first = list(islice(records, TITLE_ROWS))
    place = header_place(first, columns) or 0
    header: list[str] = []
    for record in chain(first[place:], records):
        if isinstance(record, RowError):
            yield record
        elif header:
            yield _cells_row(*record, header, ragged=ragged)
        else:
            header = _header_names(path, record[1], columns)


def header_place(
    rows: Iterable[tuple[int, list[Any]] | RowError], columns: Columns
) -> int | None:
    """Return the place of the first row that names two columns, None without one."""
    for place, row in enumerate(rows):
        if not isinstance(row, RowError) and _known(row[1], columns) > 1:
            return place
    return None


def _header_names(path: Path, cells: Sequence[Any], columns: Columns) -> list[str]:
    """Return the names of columns; a column without one is called by its place."""
    names: list[str] = []
    for position, cell in enumerate(cells, 1):
        name = str(cell).strip()
        if cell is None or not name:
            name = f"column {position}"
        names.append(name)
    return distinct_names(f"{path}: the header", names, columns)


def distinct_names(what: str, names: Sequence[str], columns: Columns) -> list[str]:
    """Return the names, each once: one that is there again gets a number.

    Raises:
        InputError: A field is read from a name that is there twice.
    """
    seen: Counter[str] = Counter()
    taken = set(names)
    made: list[str] = []
    for name in names:
        seen[name] += 1
        number = seen[name]
        numbered = name
        while number > 1 and numbered in taken:
            numbered = f"{name} ({number})"
            number += 1
        taken.add(numbered)
        made.append(numbered)
    twice = sorted(name for name in columns.read if seen[name] > 1)
    if twice:
        listed = ", ".join(twice)
        raise InputError(f"{what} has {listed} twice; give every column its own name")
    return made


def _cells_row(
    line: int, cells: Sequence[Any], header: Sequence[str], *, ragged: bool
) -> ReadRow:
    """Return the row of a table's cells; one that says nothing is None."""
    said: list[Any] = []
    for cell in cells:
        is_blank = isinstance(cell, str) and not cell.strip()
        said.append(None if is_blank else cell)
    width = len(header)
    beyond = said[width:]
    is_short = len(cells) < width and not ragged
    if is_short or beyond.count(None) < len(beyond):
        counts = f"the row has {len(cells)} cells and the header {width}"
        reason = f"{counts}; write one cell for each column"
        return RowError(line=line, reason=reason)
    cells_of_columns = zip_longest(header, said[:width])
    fields = dict(cells_of_columns)
    return Row(line=line, fields=fields)


# -- quotation marks of Spark ----------------------------------------------------------------------

_BACKSLASHES = re.compile(r'(?<!\\)(\\+)"')


def _doubled(text: str) -> str:
    """Return a line with doubled quotation marks where Spark writes a backslash before them."""

    def written(match: re.Match[str]) -> str:
        count = len(match[1])
        quotation = '""' if count % 2 else '"'
        return "\\" * (count // 2) + quotation

    return _BACKSLASHES.sub(written, text)


def _written_by_spark(path: Path, mark: str) -> bool:
    """Return whether a file is whole only if backslashes before quotation marks mean something."""
    if not any('\\"' in text for text in file_texts(path)):
        return False
    if _is_whole(file_texts(path), mark):
        return False
    doubled = map(_doubled, file_texts(path))
    return _is_whole(doubled, mark)


def _is_whole(texts: Iterable[str], mark: str) -> bool:
    """Return whether every row can be read, and has as many cells as the first."""
    try:
        rows = csv.reader(texts, strict=True, delimiter=mark)
        widths = {len(cells) for cells in rows if cells}
    except csv.Error:
        return False
    return len(widths) == 1
