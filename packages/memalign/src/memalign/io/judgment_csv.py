"""A judgment file as CSV, for spreadsheets: a row a judgment, one cell a field."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from memalign.errors import InputError
from memalign.io.atomic import atomic_write
from memalign.io.judged import judgment_lines
from memalign.io.table import safe_cell
from memalign.types import Judgment
from memalign.values import value_text

__all__ = ["write_judgment_csv"]


def write_judgment_csv(judged: str | Path, path: str | Path) -> None:
    """Write the judgments of the file `judged` to `path`, in its order, as CSV in UTF-8 with a mark that Excel knows.

    A text that a spreadsheet would run as a formula has an apostrophe before it. Lists are separated by spaces, notes by
    semicolons; what is None is an empty cell. Raises InputError where a file cannot be read or written.
    """
    try:
        with atomic_write(Path(path)) as file:
            text = io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="", write_through=True)
            writer = None
            for line in judgment_lines(Path(judged)):
                row = _row(line.head.id, line.judgment)
                row |= {"judge": line.head.judge, "content_hash": line.head.content_hash}
                if writer is None:
                    writer = csv.DictWriter(text, fieldnames=list(row))
                    writer.writeheader()
                writer.writerow({name: _cell(value) for name, value in row.items()})
            text.detach()
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None


def _row(example_id: str, judgment: Judgment) -> dict[str, object]:
    return {
        "id": example_id,
        "value": judgment.value,
        "confidence": judgment.confidence,
        "rationale": judgment.rationale,
        "error": judgment.error,
        "own_value": judgment.own_value,
        "decided_by": judgment.decided_by,
        "guideline_ids": " ".join(judgment.guideline_ids),
        "example_ids": " ".join(judgment.example_ids),
        "notes": "; ".join(judgment.notes),
        "model": judgment.model,
        "input_tokens": judgment.usage.input_tokens,
        "output_tokens": judgment.usage.output_tokens,
        "cost": judgment.usage.cost,
    }


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return str(safe_cell(value))
    return value_text(value) if isinstance(value, bool | float) else str(value)
