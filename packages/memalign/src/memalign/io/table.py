"""A table for people to fill in, and its plain forms: CSV and TSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memalign.errors import InputError
from memalign.io.atomic import atomic_write
from memalign.terminal import plain

__all__ = ["REVIEW", "Column", "Table", "safe_cell", "write_delimited"]

REVIEW = "review"
"""The worksheet that experts fill in."""

_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # the last four are the full-width ones


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column: its name, its width in characters, whether people fill it in, and what they may write.

    `choices` are all values, `bounds` the lowest and highest number; `allowed` says it in words.
    """

    name: str
    width: int = 60
    to_fill: bool = False
    hidden: bool = False
    choices: Sequence[bool | int | str] = ()
    bounds: tuple[float, float] | None = None
    allowed: str = ""


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns, rows of cells (text, numbers, booleans, None), and notes for those who fill it in."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    notes: Sequence[str] = ()


def write_delimited(table: Table, path: Path) -> None:
    """Write a table as CSV, or TSV by the suffix: UTF-8 with the mark by which spreadsheets know it.

    A text that a spreadsheet would take for a formula begins with an apostrophe. Raises InputError when the file cannot
    be written.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\r\n")
    writer.writerow([column.name for column in table.columns])
    writer.writerows([safe_cell(cell) for cell in cells] for cells in table.rows)
    try:
        with atomic_write(path) as file:
            file.write(text.getvalue().encode("utf-8-sig", "replace"))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}; is it open in a spreadsheet?") from None


def safe_cell(cell: Any) -> Any:
    """A cell of a CSV or TSV file: a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if not isinstance(cell, str):
        return cell
    shown = plain(cell)
    return f"'{shown}" if shown.lstrip(" ").startswith(_FORMULA) else shown
