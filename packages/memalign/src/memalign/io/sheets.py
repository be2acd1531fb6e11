"""XLSX sheets as rows, and a table as a sheet that people fill in."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from xml.etree.ElementTree import ParseError

from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.delimited import cell_value, header_names
from memalign.io.files import atomic_write
from memalign.io.rows import Row
from memalign.terminal import plain

if TYPE_CHECKING:
    from openpyxl.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

__all__ = ["REVIEW", "Column", "sheet_rows", "write_sheet"]

REVIEW = "review"
"""The worksheet that experts fill in."""

_LONGEST_CELL = 32_000  # characters; a cell holds 32,767

# A file of two kilobytes can claim a cell in the last column of the last row, and every row before it is then made of
# 16,384 empty cells; a zip file of one megabyte can unpack to a gigabyte; and one text can stand in every cell.
_LARGEST = 200_000_000  # bytes when unpacked, and characters of all cells: 100,000 cases of 2,000 characters
_MOST_ROWS = 1_000_000  # a sheet has 1,048,576; the last of them are where a stray cell is
_MOST_COLUMNS = 1_000  # more than a person can name; a sheet has 16,384
_ERRORS = frozenset(("#N/A", "#REF!", "#NAME?", "#VALUE!", "#DIV/0!", "#NULL!", "#NUM!"))


def sheet_rows(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of the worksheet `review`, else of the first, under its first row that is not empty.

    A row's line is the sheet's own row number, and a formula is the value that was saved with it. How large the sheet
    says it is counts for nothing: every cell is read.

    Args:
        path: The XLSX file.
        columns: Which columns hold content or labels.

    Raises:
        InputError: It is no XLSX file, or is larger than the bounds above.
    """
    from openpyxl import load_workbook  # four tenths of a second
    from openpyxl.utils import get_column_letter

    try:
        with path.open("rb") as file, _readable(path):
            _check_unpacked(path, file)
            book = load_workbook(file, read_only=True, data_only=True)
            if not book.worksheets:
                raise InputError(f"{path} has no worksheet")
            sheet = next((sheet for sheet in book.worksheets if sheet.title == REVIEW), book.worksheets[0])
            sheet.reset_dimensions()
            letters: dict[str, str] = {}
            characters = 0
            for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
                characters += sum(len(cell) for cell in cells if isinstance(cell, str))
                if number > _MOST_ROWS or len(cells) > _MOST_COLUMNS or characters > _LARGEST:
                    raise _too_large(path, number, len(cells))
                width = max((place for place, cell in enumerate(cells, 1) if not _is_empty(cell)), default=0)
                if width and letters:
                    yield _row(number, letters, cells[:width], columns)
                elif width:
                    header = header_names(path, ["" if cell is None else str(cell) for cell in cells[:width]])
                    letters = {name: get_column_letter(place) for place, name in enumerate(header, 1)}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """In this block whatever openpyxl stumbles over becomes an InputError."""
    from openpyxl.utils.exceptions import InvalidFileException

    broken = (zipfile.BadZipFile, zlib.error, ParseError, InvalidFileException, LookupError, TypeError, ValueError)
    try:
        yield
    except InputError:
        raise
    except (*broken, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the file itself
            raise
        raise InputError(f"cannot read {path} as an XLSX file ({error}); save it again as .xlsx") from None


def _check_unpacked(path: Path, file: BinaryIO) -> None:
    """Raise InputError for a file that unpacks to more than is read; no part unpacks to more than its entry says."""
    with zipfile.ZipFile(file) as parts:
        size = sum(part.file_size for part in parts.infolist())
    if size > _LARGEST:
        megabytes = f"{size // 1_000_000:,} MB, and at most {_LARGEST // 1_000_000} are read"
        raise InputError(f"{path} unpacks to {megabytes}; save it as .csv, or split it")
    file.seek(0)


def _too_large(path: Path, number: int, width: int) -> InputError:
    from openpyxl.utils import get_column_letter

    most = f"{_MOST_ROWS:,} rows, {_MOST_COLUMNS:,} columns and {_LARGEST // 1_000_000} million characters are read"
    return InputError(
        f"{path} extends to row {number:,}, column {get_column_letter(max(width, 1))}, but at most {most}; delete "
        "stray cells beside or below the table, save it as .csv, or split it"
    )


def _row(number: int, letters: dict[str, str], cells: Sequence[Any], columns: Columns) -> Row | RowError:
    from openpyxl.utils import get_column_letter

    if len(cells) > len(letters):
        reason = f"the column of {str(cells[-1])[:40]!r} has no name in the header; give it one, or empty the cell"
        return RowError(line=number, column=get_column_letter(len(cells)), reason=reason)
    fields: dict[str, Any] = dict.fromkeys(letters)
    for name, cell in zip(letters, cells, strict=False):  # cells behind the last one of a row are not written
        if isinstance(cell, str) and cell in _ERRORS:
            reason = f"the cell holds the spreadsheet's error {cell}"
            return RowError(line=number, column=f"{letters[name]} ({name})", reason=reason)
        if isinstance(cell, str):
            fields[name] = cell_value(name, cell, columns)
        elif isinstance(cell, datetime | date | time):
            fields[name] = cell.isoformat()
        elif cell is not None:
            whole = isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53
            fields[name] = int(cell) if whole else cell
    return Row(line=number, fields=fields, letters=letters)


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of a sheet that people fill in.

    Attributes:
        name: Its header.
        width: In characters.
        to_fill: Whether people fill it in.
        hidden: Whether they do not see it.
        choices: All values that they may write.
        bounds: The lowest and the highest number.
        allowed: The same in words.
    """

    name: str
    width: int = 60
    to_fill: bool = False
    hidden: bool = False
    choices: Sequence[bool | int | str] = ()
    bounds: tuple[float, float] | None = None
    allowed: str = ""


def write_sheet(
    path: Path, columns: Sequence[Column], rows: Sequence[Sequence[Any]], notes: Sequence[str] = ()
) -> None:
    """Write a table as an XLSX sheet: wrapped texts, a frozen header, lists to choose from, notes on a second sheet.

    Texts are never formulas, whatever they begin with.

    Raises:
        InputError: The file cannot be written.
    """
    from openpyxl import Workbook
    from openpyxl.styles import Font, PatternFill
    from openpyxl.utils import get_column_letter

    book = Workbook()
    sheet = book.worksheets[0]
    sheet.title = REVIEW
    guide = book.create_sheet("guide")
    for number, line in enumerate(notes, 1):
        _put(guide.cell(number, 1), line)
    guide.column_dimensions["A"].width = 100
    for place, column in enumerate(columns, 1):
        letter = get_column_letter(place)
        _put(head := sheet.cell(1, place), column.name)
        head.font = Font(bold=True)
        if column.to_fill:
            head.fill = PatternFill("solid", fgColor="FFF2CC")
            _allow(sheet, guide, column, f"{letter}2:{letter}{len(rows) + 1}", place)
        sheet.column_dimensions[letter].width = column.width
        sheet.column_dimensions[letter].hidden = column.hidden
    for number, cells in enumerate(rows, 2):
        for place, (column, cell) in enumerate(zip(columns, cells, strict=True), 1):
            _put(sheet.cell(number, place), cell, to_fill=column.to_fill, wrap=not column.hidden)
    sheet.freeze_panes = "B2"
    made = io.BytesIO()
    book.save(made)
    try:
        with atomic_write(path) as file:
            file.write(made.getvalue())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}; if it is open in a spreadsheet, close it") from None


def _put(cell: Cell, value: Any, *, to_fill: bool = False, wrap: bool = True) -> None:
    from openpyxl.styles import Alignment

    cell.alignment = Alignment(wrap_text=wrap, vertical="top")
    if isinstance(value, bool | int | float):
        cell.value = value
    elif value is not None:
        text = plain(value)
        if len(text) > _LONGEST_CELL:
            text = f"{text[:_LONGEST_CELL]}… ({len(text) - _LONGEST_CELL:,} more characters)"
        cell.value = text
        cell.data_type = "s"  # never a formula
        cell.quotePrefix = True  # nor when somebody edits the cell
        cell.number_format = "@"
    elif to_fill:
        cell.number_format = "General"


def _allow(sheet: Worksheet, guide: Worksheet, column: Column, cells: str, place: int) -> None:
    """Say what may be written into the cells of a column, as a list or as bounds; the sheet refuses anything else."""
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    if column.choices:
        letter = get_column_letter(place + 1)  # of the guide, beside its notes
        for number, choice in enumerate(column.choices, 1):
            _put(guide.cell(number, place + 1), choice)
        rule = DataValidation(type="list", formula1=f"guide!${letter}$1:${letter}${len(column.choices)}")
    elif column.bounds is not None:
        low, high = column.bounds
        rule = DataValidation(type="decimal", operator="between", formula1=f"{low:g}", formula2=f"{high:g}")
    else:
        return
    rule.allow_blank = True
    rule.showErrorMessage = rule.showInputMessage = True
    rule.errorTitle, rule.error = "Not a verdict", column.allowed[:250]
    rule.promptTitle, rule.prompt = column.name[:32], column.allowed[:250]
    sheet.add_data_validation(rule)
    rule.add(cells)
