"""XLSX sheets as rows, and the cases that a sheet for review hides, which come back as judged."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from memalign.content.json_values import decode_json, is_absent, plain, whole_number
from memalign.content.normal import printable
from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.delimited import TITLE_ROWS, header_place, table_rows
from memalign.io.rows import ReadRow, ReadRows, Row, reading
from memalign.types import CONTENT_FIELDS

if TYPE_CHECKING:
    from openpyxl import Workbook

__all__ = ["HIDDEN", "REASON", "REVIEW", "VERDICT", "restored", "sheet_rows"]

HIDDEN = "memalign"
VERDICT = "judge's verdict"
REASON = "judge's reason"
REVIEW = "review"
"""The worksheet that experts fill in."""

# A file of two kilobytes can claim a cell in the last column of the last row, and every row before
# it is then made of 16,384 empty cells; a zip file of one megabyte can unpack to a gigabyte; and
# one text can stand in every cell.
# Bytes when unpacked, and characters of all cells: 100,000 cases of 2,000 characters.
_LARGEST = 200_000_000
_MOST_ROWS = (
    200_000  # a sheet has 1,048,576; the last of them are where a stray cell is
)
_MOST_COLUMNS = 1_000  # more than a person can name; a sheet has 16,384


def sheet_rows(path: Path, columns: Columns) -> ReadRows:
    """Read the rows of the worksheet `review`, else of the first with a header, visible ones first.

    A sheet has a header if one of its upper rows names two columns that are read. Without any, the
    first sheet with cells is read.

    A row's line is the sheet's own row number, and a formula is the value that was saved with it,
    or absent where that is an error such as #N/A. How large the sheet says it is counts for
    nothing.

    Raises:
        InputError: It is no XLSX file, or is larger than the bounds above.
    """
    with reading(path, " as an XLSX file"), path.open("rb") as file:
        _check_unpacked(path, file)
        rows = _table(path, _opened(file), columns)
        yield from table_rows(path, rows, columns, ragged=True)


def _table(
    path: Path, book: Workbook, columns: Columns
) -> Iterator[tuple[int, list[Any]]]:
    """Return the rows of the sheet that is read, each with its number. Raises InputError."""

    def rank(sheet: Any) -> tuple[bool, bool, bool, bool]:
        first = list(islice(_cells_of(path, sheet), TITLE_ROWS))
        has_header = header_place(first, columns) is not None
        has_cells = bool(first)
        is_shown = has_cells and sheet.sheet_state == "visible"
        is_ours = sheet.title == REVIEW
        return is_ours, has_header, is_shown, has_cells

    for sheet in sorted(book.worksheets, key=rank, reverse=True)[:1]:
        yield from _cells_of(path, sheet)


def _cells_of(path: Path, sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    sheet.reset_dimensions()
    characters = 0
    for number, cells in enumerate(sheet.iter_rows(), 1):
        values = [_cell_value(cell) for cell in cells]
        for value in values:
            if isinstance(value, str):
                characters += len(value)
        if number > _MOST_ROWS or len(cells) > _MOST_COLUMNS or characters > _LARGEST:
            raise InputError(
                f"{path} is too large at row {number:,}: at most {_MOST_ROWS:,} rows, "
                f"{_MOST_COLUMNS:,} columns and {_LARGEST // 1_000_000} million characters are "
                "read; delete stray cells beside or below the table, save it as .csv, or split it"
            )
        while values and values[-1] is None:
            values.pop()
        if values:
            yield number, values


def _opened(file: BinaryIO) -> Workbook:
    """Open a workbook for its tables; charts, properties and the theme are not read."""
    from openpyxl.reader.excel import ExcelReader  # four tenths of a second

    class Tables(ExcelReader):  # type: ignore[misc]  # openpyxl ships no types
        def read_chartsheet(self, *_: Any) -> None: ...

        def read_properties(self) -> None: ...

        def read_custom(self) -> None: ...

        def read_theme(self) -> None: ...

    reader = Tables(file, read_only=True, data_only=True, keep_links=False)
    reader.read()
    return reader.wb


def _check_unpacked(path: Path, file: BinaryIO) -> None:
    """Raise InputError for a file that unpacks to more than is read.

    No part unpacks to more than its entry says.
    """
    if not zipfile.is_zipfile(file):
        raise InputError(
            f"cannot read {path} as an XLSX file: open it in a spreadsheet, and save it again, "
            "without a password"
        )
    with zipfile.ZipFile(file) as parts:
        size = sum(part.file_size for part in parts.infolist())
    if size > _LARGEST:
        megabytes = (
            f"{size // 1_000_000:,} MB, and at most {_LARGEST // 1_000_000} are read"
        )
        raise InputError(f"{path} unpacks to {megabytes}; save it as .csv, or split it")
    file.seek(0)


def _cell_value(cell: Any) -> Any:
    """Return a cell as JSON has it, None for an empty one or an error; 7.0 is 7."""
    value = cell.value
    if value is None or cell.data_type == "e":
        return None
    if isinstance(value, str):
        if not value.strip():
            return None
        return value
    return whole_number(plain(value))


# -- what `memalign review` hides in each row of a sheet -------------------------------------------
#
# A spreadsheet cuts long cells and breaks lines. So the last columns, `memalign`, `memalign 2`, …,
# hold id and content as JSON in plain ASCII. Reading takes the case from there, and the expert's
# own columns from the cells.


def _in_a_cell(name: str) -> str:
    """Return an id without what a sheet cannot show, or what marks its cell as text."""
    return printable(name).strip().lstrip("'").strip()


def restored(row: Row) -> ReadRow:
    """Return the row with the case as it was judged, and all else as it was filled in."""
    cells: dict[str, Any] = {}
    hidden: dict[int, str] = {}
    for name, value in row.fields.items():
        if is_absent(value) or value == "":
            continue
        number = name.removeprefix(HIDDEN).strip() or "1"
        if name.startswith(HIDDEN) and number.isdecimal():
            hidden[int(number)] = str(value)
        else:
            cells[name] = value
    row_id = str(cells.pop("id", ""))
    try:
        text = "".join(hidden[number] for number in sorted(hidden))
        case = decode_json(text)
        case_id = str(case.pop("id"))
    except (InputError, KeyError, TypeError, AttributeError):
        reason = (
            f"the hidden column {HIDDEN!r}, which holds the case, was changed or cut; "
            "copy the row from a new sheet of memalign review"
        )
        return RowError(line=row.line, id=row_id, reason=reason)
    if _in_a_cell(row_id) != _in_a_cell(case_id):
        reason = (
            f"the row is of case {case_id!r}: its id was changed, or a column was sorted "
            "apart from the others"
        )
        return RowError(line=row.line, id=row_id, reason=reason)
    fields = {"id": case_id, **case}
    for name, value in cells.items():
        if name not in (*CONTENT_FIELDS, VERDICT, REASON):
            fields[name] = value
    return replace(row, fields=fields, review=True)
