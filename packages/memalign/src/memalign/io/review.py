"""Cases that experts are to review, with the judge's verdicts, and the sheet for it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memalign.content import as_read
from memalign.content.normal import printable
from memalign.errors import InputError
from memalign.io.examples import Examples
from memalign.io.files import atomic_write
from memalign.io.judgments import read_judgments
from memalign.io.sheets import HIDDEN, REASON, REVIEW, VERDICT
from memalign.io.source import ExampleSource
from memalign.types import CONTENT_FIELDS, Example, Judgment
from memalign.values import Value, ValueType

if TYPE_CHECKING:
    from openpyxl import Workbook
    from openpyxl.cell import Cell

__all__ = ["ReviewCase", "review_cases", "write_review"]

_LONGEST_CELL = 32_000  # characters; a cell holds 32,767

ReviewCase = tuple[Example, Judgment | None]
"""One case to review, and the judge's verdict on it, None where there is none."""


def review_cases(
    judged: str | Path | None,
    examples: ExampleSource | Examples,
    *,
    remembered: Iterable[Example] = (),
) -> tuple[list[ReviewCase], list[str]]:
    """Return the cases of a file of judgments, and the ids of judgments that no example has.

    Of a file that `judge --ask-below` marked, only what goes to people.

    Args:
        judged: The file; without one all examples are cases without a verdict.
        examples: What was judged.
        remembered: Cases that the judge has, whose examples need not be given again.

    Raises:
        InputError: An example is not what was judged.
        InvalidRows: The examples have bad rows.
    """
    source = examples if isinstance(examples, Examples) else Examples.of(examples)
    if judged is None:
        return [(example, None) for example in source], []
    file = read_judgments(judged)
    contents: dict[str, Example] = {}
    for example in chain(remembered, source):
        if example.id in file.judgments:
            contents[example.id] = example
    cases: list[ReviewCase] = []
    missing: list[str] = []
    for example_id, judgment in file.judgments.items():
        if example_id in file.passed:
            continue
        if example_id not in contents:
            missing.append(example_id)
            continue
        example = contents[example_id]
        if not file.fits(example):
            raise InputError(
                f"{source.name}: {example_id!r} has changed since it was judged in {judged}; "
                "use the file as it was, or judge it again"
            )
        verdict = None
        if not judgment.error:
            verdict = judgment
        cases.append((example, verdict))
    return cases, missing


def write_review(
    cases: Sequence[ReviewCase],
    path: str | Path,
    *,
    value_type: ValueType,
    with_verdicts: bool = False,
    source: str | None = None,
    instructions: str = "",
) -> None:
    """Write an XLSX sheet to fill in: a row for each case, with columns for the expert's own.

    Args:
        cases: What is to be reviewed.
        path: The sheet.
        value_type: Which verdicts there are.
        with_verdicts: Whether the judge's verdict and reason are shown.
        source: Who fills it in.
        instructions: What the judge is asked.

    Raises:
        InputError: The file cannot be written, or is of another kind.
    """
    path = Path(path)
    if path.suffix.lower() != ".xlsx":
        suffix = path.suffix or "nothing"
        raise InputError(f"{path}: the name of a sheet ends in .xlsx, not in {suffix}")
    rows = [_sheet_row(example, judgment, source) for example, judgment in cases]
    columns = _sheet_columns(rows, with_verdicts=with_verdicts)
    cells = [[row.get(name) for name in columns] for row in rows]
    book = _workbook(columns, cells, _guide(value_type, instructions), value_type)
    try:
        with atomic_write(path) as file:
            book.save(file)
    except OSError as error:
        reason = f"{error.strerror}; if it is open in a spreadsheet, close it"
        raise InputError(f"cannot write {path}: {reason}") from None


def _sheet_row(
    example: Example, judgment: Judgment | None, source: str | None
) -> dict[str, Any]:
    """Return the cells of a case by their columns, with the case itself in hidden ones."""
    row: dict[str, Any] = {"id": example.id, "source": source}
    for name, value in example.content.items():
        row[name] = as_read(name, value)
    if judgment is not None:
        row[VERDICT] = judgment.value
        row[REASON] = judgment.rationale
    case = {"id": example.id, **example.content}
    rest = json.dumps(case, separators=(",", ":"))
    number = 1
    while rest:
        name = HIDDEN
        if number > 1:
            name = f"{HIDDEN} {number}"
        row[name] = rest[:_LONGEST_CELL]
        rest = rest[_LONGEST_CELL:]
        number += 1
    return row


def _sheet_columns(rows: Sequence[dict[str, Any]], *, with_verdicts: bool) -> list[str]:
    present: dict[str, Any] = {HIDDEN: None}
    for row in rows:
        present |= row
    columns = ["id"]
    columns += [name for name in CONTENT_FIELDS if name in present]
    if with_verdicts and VERDICT in present:
        columns += [VERDICT, REASON]
    columns += ["value", "rationale", "source"]
    columns += [name for name in present if name.startswith(HIDDEN)]
    return columns


def _guide(value_type: ValueType, instructions: str) -> list[str]:
    lines = [
        "Read each case. Write your verdict in the column value and your reason in rationale. "
        "Either may be empty.",
        f"A verdict is {value_type.allowed}.",
        "Skip cases that you cannot decide. Rows that are not filled in are ignored.",
        "You may sort and filter the rows. Leave the hidden columns at the end: they hold the "
        "cases as judged.",
    ]
    if instructions:
        lines += ["", "What the judge is asked:", instructions]
    return lines


_NARROW = ("id", "value", "source", VERDICT)


def _workbook(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str],
    value_type: ValueType,
) -> Workbook:
    """Return a workbook with the rows under a frozen header, and a second sheet with the notes."""
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter

    book = Workbook()
    sheet = book.worksheets[0]
    sheet.title = REVIEW
    guide = book.create_sheet("guide")
    guide.column_dimensions["A"].width = 100
    for number, line in enumerate(notes, 1):
        _put(guide.cell(number, 1), line)
    for place, name in enumerate(columns, 1):
        hidden = name.startswith(HIDDEN)
        letter = get_column_letter(place)
        dimensions = sheet.column_dimensions[letter]
        dimensions.width = 45
        if name in _NARROW:
            dimensions.width = 16
        dimensions.hidden = hidden
        alignment = Alignment(wrap_text=not hidden, vertical="top")
        values = [name, *(row[place - 1] for row in rows)]
        for number, value in enumerate(values, 1):
            cell = sheet.cell(number, place)
            _put(cell, value)
            cell.alignment = alignment
        sheet.cell(1, place).font = Font(bold=True)
    sheet.freeze_panes = "B2"
    if value_type.labels:
        place = columns.index("value") + 1
        letter = get_column_letter(place)
        last = len(rows) + 1
        _offer(book, value_type.labels, f"{letter}2:{letter}{last}")
    return book


def _offer(book: Workbook, labels: Sequence[Value], cells: str) -> None:
    """Offer labels in these cells of the sheet; a column of the guide lists them."""
    from openpyxl.worksheet.datavalidation import DataValidation

    sheet, guide = book.worksheets
    for number, label in enumerate(labels, 1):
        _put(guide.cell(number, 2), label)
    formula = f"guide!$B$1:$B${len(labels)}"
    rule = DataValidation(type="list", formula1=formula, allow_blank=True)
    sheet.add_data_validation(rule)
    rule.add(cells)


def _put(cell: Cell, value: Any) -> None:
    """Write a value into a cell; a text is never a formula, whatever it begins with."""
    if value is None or isinstance(value, bool | int | float):
        cell.value = value
        return
    text = printable(value)
    if len(text) > _LONGEST_CELL:
        more = len(text) - _LONGEST_CELL
        shown = text[:_LONGEST_CELL]
        text = f"{shown}… ({more:,} more characters)"
    cell.value = text
    cell.data_type = "s"
    cell.quotePrefix = True  # it is none either when somebody edits the cell
    cell.number_format = "@"
