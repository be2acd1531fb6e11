"""One reading of rows: what is wrong with them, which columns they have, and what was left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from memalign.content import Part, check_fields
from memalign.errors import InputError, RowError
from memalign.io.columns import unmapped
from memalign.io.frames import shown_id
from memalign.io.rows import ReadRow, Row
from memalign.io.source import RowSource
from memalign.types import CONTENT_FIELDS, Example, Feedback

__all__ = ["RowReader"]


class RowReader:
    """Takes up rows one by one; a bad one costs itself.

    Args:
        parts: What a judge reads, as its instructions name it; without one nothing of the content
            is checked.
    """

    def __init__(self, parts: Collection[str] = ()) -> None:
        self.parts = tuple(parts)
        self.columns: dict[str, None] = {}
        self.bad: list[RowError] = []
        self.left_out: dict[str, str] = {}

    def take(self, item: ReadRow) -> None:
        """Take up a row; one that cannot be read or used is kept as a bad one."""
        if isinstance(item, RowError):
            self.bad.append(item)
            return
        self.columns |= dict.fromkeys(item.fields)
        if item.made_id:
            del self.columns["id"]
        try:
            self.use(item)
        except InputError as error:
            self.put(item, str(error))

    def use(self, row: Row) -> None:
        """Use a row that could be read. Raises InputError for one that is wrong."""
        raise NotImplementedError

    def put(self, row: Row, reason: str) -> None:
        """Keep a row as a bad one."""
        name = shown_id(row.fields)
        error = RowError(line=row.line, reason=reason, id=name)
        self.bad.append(error)

    def faults(self) -> list[RowError]:
        """Return the bad rows in their order."""
        return sorted(self.bad, key=lambda error: error.line)

    def check(self, row: Row, case: Example | Feedback) -> None:
        """Check what the judge reads of a row, and note other faults. Raises InputError."""
        check_fields(case, self.parts)
        for fault in case.faults:
            note = f"{fault.place} was left out on line {row.line}: it {fault.reason}"
            self.left_out.setdefault(fault.steps[0], note)

    def needed(self) -> Collection[str]:
        """Return the content that rows must have: what a judge reads, else the usual fields."""
        if self.parts:
            fields = [Part.parse(name).field for name in self.parts]
            return tuple(dict.fromkeys(fields))
        if self.columns.keys().isdisjoint(CONTENT_FIELDS):
            return ("inputs", "outputs")
        return ()

    def check_columns(self, source: RowSource, fields: Iterable[str]) -> None:
        """Check that a file or frame has a column for each field.

        Raises:
            InputError: Some are missing, all of them in one message.
        """
        missing = [field for field in fields if field not in self.columns]
        if missing and self.columns and source.has_columns:
            names = source.columns.names
            raise unmapped(source.name, missing, self.columns, names)
