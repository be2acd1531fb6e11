"""What experts are to review: cases, with the judge's verdicts where there are some, and the sheet to fill in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
from memalign.values import ValueType

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
    """The cases of a file of judgments, in its order, and the ids of judgments that no example has.

    Of a file that `judge --ask-below` marked, only what goes to people. Without `judged` all examples are cases without
    a verdict. Raises InputError for an example that is not what was
    judged, and InvalidRows.
    """
    source = examples if isinstance(examples, Examples) else Examples.of(examples)
    if judged is None:
        return [(example, None) for example in source], []
    file = read_judgments(judged)
    contents = {example.id: example for example in remembered}
    contents |= {example.id: example for example in source if example.id in file.judgments}
    cases: list[ReviewCase] = []
    missing: list[str] = []
    for example_id, judgment in file.judgments.items():
        if example_id in file.passed:
            continue
        if (example := contents.get(example_id)) is None:
            missing.append(example_id)
            continue
        if not file.fits(example):
            raise InputError(
                f"{source.name}: {example_id!r} has changed since it was judged in {judged}; use the file "
                "as it was, or judge it again"
            )
        cases.append((example, None if judgment.error else judgment))
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
    """Write an XLSX sheet to fill in: one row a case, a column a field, and the expert's own.

    `with_verdicts` shows the judge's verdict and reason, `source` is who fills it in, and `instructions` is what the
    judge is asked. Raises InputError if the file cannot be written or is of another kind.
    """
    path = Path(path)
    if path.suffix.lower() != ".xlsx":
        raise InputError(
            f"{path}: the name of a sheet ends in .xlsx, not in {path.suffix or 'nothing'}"
        )
    fields = [
        name for name in CONTENT_FIELDS if any(name in example.content for example, _ in cases)
    ]
    texts = [
        json.dumps({"id": example.id, **example.content}, separators=(",", ":"))
        for example, _ in cases
    ]
    hidden = [
        [text[at : at + _LONGEST_CELL] for at in range(0, len(text), _LONGEST_CELL)]
        for text in texts
    ]
    names = [
        HIDDEN,
        *(f"{HIDDEN} {part}" for part in range(2, max(map(len, hidden), default=1) + 1)),
    ]
    verdicts = (
        (VERDICT, REASON)
        if with_verdicts and any(judgment is not None for _, judgment in cases)
        else ()
    )
    columns = ["id", *fields, *verdicts, "value", "rationale", "source", *names]
    rows = []
    for (example, judgment), parts in zip(cases, hidden, strict=True):
        row: dict[str, Any] = {
            "id": example.id,
            "source": source,
            **dict(zip(names, parts, strict=False)),
        }
        row |= {name: as_read(name, value) for name, value in example.content.items()}
        if judgment is not None:
            row |= {VERDICT: judgment.value, REASON: judgment.rationale}
        rows.append([row.get(name) for name in columns])
    guide = (
        "Read each case. Write your verdict in the column value and your reason in rationale. Either may be empty.",
        f"A verdict is {value_type.allowed}.",
        "Skip cases that you cannot decide. Rows that are not filled in are ignored.",
        "You may sort and filter the rows. Leave the hidden columns at the end: they hold the cases as judged.",
        *(["", "What the judge is asked:", instructions] if instructions else []),
    )
    book = _workbook(columns, rows, guide, value_type)
    try:
        with atomic_write(path) as file:
            book.save(file)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; if it is open in a spreadsheet, close it"
        ) from None


def _workbook(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    notes: Sequence[str],
    value_type: ValueType,
) -> Workbook:
    """The sheet, with wrapped texts, a frozen header and a choice of verdicts; the notes are on a second one."""
    from openpyxl import Workbook
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter
    from openpyxl.worksheet.datavalidation import DataValidation

    book = Workbook()
    sheet, guide = book.worksheets[0], book.create_sheet("guide")
    sheet.title = REVIEW
    for number, line in enumerate(notes, 1):
        _put(guide.cell(number, 1), line)
    guide.column_dimensions["A"].width = 100
    for place, name in enumerate(columns, 1):
        letter, hidden = get_column_letter(place), name.startswith(HIDDEN)
        sheet.column_dimensions[letter].width = (
            16 if name in ("id", "value", "source", VERDICT) else 45
        )
        sheet.column_dimensions[letter].hidden = hidden
        for number, value in enumerate((name, *(row[place - 1] for row in rows)), 1):
            _put(cell := sheet.cell(number, place), value)
            cell.alignment = Alignment(wrap_text=not hidden, vertical="top")
        sheet.cell(1, place).font = Font(bold=True)
        if (
            name == "value" and value_type.labels
        ):  # the sheet offers these, which are listed in the guide
            for number, choice in enumerate(value_type.labels, 1):
                _put(guide.cell(number, 2), choice)
            rule = DataValidation(
                type="list", formula1=f"guide!$B$1:$B${len(value_type.labels)}", allow_blank=True
            )
            sheet.add_data_validation(rule)
            rule.add(f"{letter}2:{letter}{len(rows) + 1}")
    sheet.freeze_panes = "B2"
    return book


def _put(cell: Cell, value: Any) -> None:
    """Write a value into a cell; a text is never a formula, whatever it begins with."""
    if value is None or isinstance(value, bool | int | float):
        cell.value = value
        return
    text = printable(value)
    if len(text) > _LONGEST_CELL:
        text = f"{text[:_LONGEST_CELL]}… ({len(text) - _LONGEST_CELL:,} more characters)"
    cell.value = text
    cell.data_type = "s"
    cell.quotePrefix = True  # nor is it one when somebody edits the cell
    cell.number_format = "@"
