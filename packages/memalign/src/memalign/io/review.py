"""What experts are to review: cases, with the judge's verdicts where there are some, and the sheet to fill in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memalign.content import as_read
from memalign.errors import InputError
from memalign.io.delimited import write_delimited
from memalign.io.examples import Examples
from memalign.io.judgments import read_judgments
from memalign.io.review_cells import HIDDEN, REASON, VERDICT, hidden_cells
from memalign.io.sheets import Column, write_sheet
from memalign.io.source import ExampleSource
from memalign.types import CONTENT_FIELDS, Example, Judgment
from memalign.values import ValueType

__all__ = ["ReviewCase", "review_cases", "write_review"]

_SHEETS = (".xlsx", ".csv", ".tsv")


@dataclass(frozen=True, kw_only=True)
class ReviewCase:
    """One case to review, and the judge's verdict on it, None where there is none."""

    example: Example
    judgment: Judgment | None = None


def review_cases(
    judged: str | Path | None, examples: ExampleSource | Examples, *, remembered: Iterable[Example] = ()
) -> tuple[list[ReviewCase], list[str]]:
    """The cases to review.

    Args:
        judged: A file of judgments; without one all examples are cases without a verdict.
        examples: What was judged.
        remembered: Further examples, such as those in a judge's memory.

    Returns:
        The cases in the order of the judgments, each with its content, and the ids of judgments without content.

    Raises:
        InvalidRows: A row of `examples` cannot be read.
        InputError: An example is not what was judged.
    """
    source = examples if isinstance(examples, Examples) else Examples.of(examples)
    if judged is None:
        return [ReviewCase(example=example) for example in source], []
    file = read_judgments(judged)
    contents = {example.id: example for example in remembered}
    contents |= {example.id: example for example in source if example.id in file.judgments}
    cases: list[ReviewCase] = []
    missing: list[str] = []
    for example_id, judgment in file.judgments.items():
        if (example := contents.get(example_id)) is None:
            missing.append(example_id)
            continue
        if not file.fits(example):
            raise InputError(
                f"{source.name}: {example_id!r} has changed since it was judged in {judged}; use the file "
                "as it was, or judge it again"
            )
        cases.append(ReviewCase(example=example, judgment=None if judgment.error else judgment))
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
    """Write a sheet to fill in: one row a case, a column a field, and the expert's own.

    Args:
        cases: What is to be reviewed.
        path: XLSX, CSV or TSV by the suffix.
        value_type: What verdicts may be.
        with_verdicts: Whether to show the judge's verdict and reason beside the case.
        source: Who fills it in.
        instructions: What the judge is asked, for the guide.

    Raises:
        InputError: The file cannot be written or is of no such kind.
    """
    path = Path(path)
    if path.suffix.lower() not in _SHEETS:
        raise InputError(f"{path}: the name of a sheet ends in {', '.join(_SHEETS)}, not in {path.suffix or 'nothing'}")
    fields = [name for name in CONTENT_FIELDS if any(name in case.example.content for case in cases)]
    with_verdicts = with_verdicts and any(case.judgment is not None for case in cases)
    hidden = [hidden_cells(case.example) for case in cases]
    parts = max(map(len, hidden), default=1)
    columns = [
        Column(name="id", width=16),
        *(Column(name=name, width=60 if len(fields) < 3 else 45) for name in fields),
        *([Column(name=VERDICT, width=14), Column(name=REASON, width=45)] if with_verdicts else []),
        _verdict_column(value_type),
        Column(name="rationale", width=50, to_fill=True, allowed="Why, in your words. One point a sentence."),
        Column(name="source", width=16, to_fill=True, allowed="Your name"),
        *(Column(name=HIDDEN if not part else f"{HIDDEN} {part + 1}", width=12, hidden=True) for part in range(parts)),
    ]
    rows: list[list[Any]] = []
    for case, cells in zip(cases, hidden, strict=True):
        content, judgment = case.example.content, case.judgment
        row: list[Any] = [
            case.example.id,
            *(as_read(name, content[name]) if name in content else None for name in fields),
        ]
        if with_verdicts:
            row += [None, None] if judgment is None else [judgment.value, judgment.rationale]
        rows.append([*row, None, None, source, *cells, *[None] * (parts - len(cells))])
    if path.suffix.lower() != ".xlsx":
        write_delimited(path, [column.name for column in columns], rows)
        return
    notes = (
        "Read each case. Write your verdict in the column value and your reason in rationale. Either may be empty.",
        f"A verdict is {value_type.allowed}.",
        "Skip cases that you cannot decide. Rows that are not filled in are ignored.",
        "You may sort and filter the rows. Leave the hidden columns at the end: they hold the cases as judged.",
        *(["", "What the judge is asked:", instructions] if instructions else []),
    )
    write_sheet(path, columns, rows, notes)


def _verdict_column(value_type: ValueType) -> Column:
    bounds = None if value_type.low is None or value_type.high is None else (value_type.low, value_type.high)
    choices: Sequence[bool | int | str] = ()
    if value_type.kind in ("bool", "choice") or (value_type.kind == "int" and len(value_type.labels) <= 101):
        choices = [label for label in value_type.labels if not isinstance(label, float)]
    words = value_type.allowed[:1].upper() + value_type.allowed[1:]
    width = 14 if value_type.closed else 40
    return Column(name="value", width=width, to_fill=True, choices=choices, bounds=bounds, allowed=words)
