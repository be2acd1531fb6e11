"""What a sheet for review hides in each row, so that it comes back whole: the case, exactly as it was judged.

People read texts, and a spreadsheet changes them: it cuts long cells, breaks lines, turns ids into dates. So the last
columns of a sheet, `memalign`, `memalign 2`, …, hold id and content as JSON in plain ASCII, which no spreadsheet and no
encoding changes. Reading takes the case from there, and the expert's own columns from the cells.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memalign.errors import RowError
from memalign.io.frames import is_absent
from memalign.io.rows import Row
from memalign.types import CONTENT_FIELDS, Example

__all__ = ["HIDDEN", "REASON", "VERDICT", "hidden_cells", "is_review", "restored"]

HIDDEN = "memalign"
VERDICT, REASON = "judge's verdict", "judge's reason"
_PART = 30_000  # characters; a cell of a spreadsheet holds 32,767


def is_review(fields: Mapping[str, Any]) -> bool:
    """Whether a row is of a sheet that `memalign review` wrote."""
    return str(fields.get(HIDDEN, "")).startswith("{")


def hidden_cells(example: Example) -> list[str]:
    """The case as JSON, in parts that fit into cells."""
    text = json.dumps({"id": example.id, **example.content}, ensure_ascii=True, separators=(",", ":"))
    return [text[at : at + _PART] for at in range(0, len(text), _PART)]


def restored(row: Row) -> Row | RowError:
    """The row with the case as it was judged, and all else as it was filled in."""
    cells = {name: value for name, value in row.fields.items() if not is_absent(value) and value != ""}
    names = [name for name in cells if name == HIDDEN or name.startswith(f"{HIDDEN} ")]
    names.sort(key=lambda name: int(name.removeprefix(HIDDEN).strip() or 1))
    row_id = str(cells.get("id", "")).removeprefix("'").strip()

    def fault(name: str, reason: str) -> RowError:
        column = f"{row.letters[name]} ({name})" if name in row.letters else None
        return RowError(line=row.line, id=row_id or None, column=column, reason=reason)

    try:
        case = json.loads("".join(str(cells[name]) for name in names))
        case_id = str(case.pop("id"))
    except (ValueError, KeyError, TypeError, AttributeError):
        cut = f"the hidden column {HIDDEN!r}, which holds the case, was changed or cut"
        return fault(HIDDEN, f"{cut}; copy the row from a new sheet of memalign review")
    if row_id != case_id and row.letters:  # in a sheet ids are text, and stay as they are
        moved = "its id was changed, or a column was sorted apart from the others"
        return fault("id", f"the row is of case {case_id!r}: {moved}")
    ours = {*names, "id", *CONTENT_FIELDS, VERDICT, REASON}
    filled_in = {name: value for name, value in cells.items() if name not in ours}
    return replace(row, fields={"id": case_id, **case, **filled_in}, review=True)
