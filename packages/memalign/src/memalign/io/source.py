"""Where feedback and examples come from: files, frames, data sets or Python objects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from memalign.content.json_values import fields_of, is_absent
from memalign.content.normal import whole_text
from memalign.errors import InputError, RowError
from memalign.io.columns import Columns
from memalign.io.delimited import delimited_rows
from memalign.io.fields import JUDGED, id_of_content
from memalign.io.files import path_of
from memalign.io.frames import Frame, frame_rows, is_frame, is_table, parquet_rows
from memalign.io.rows import (
    ReadRow,
    ReadRows,
    Row,
    file_lines,
    folder_rows,
    json_rows,
    never_empty,
)
from memalign.io.sheets import HIDDEN, restored, sheet_rows
from memalign.types import Example, Feedback

__all__ = ["ExampleSource", "FeedbackSource", "RowSource"]

_FORMATS = (
    ".jsonl, .ndjson, .json, .csv, .tsv, .xlsx or .parquet, "
    "or a folder of JSON lines or Parquet files"
)
_LINES = (".jsonl", ".ndjson")
_PARQUET = (".parquet", ".parq", ".pq", "")
_HIDDEN_FILE = re.compile(r"(^|[/\\])[._]")
_FIRST = 100  # rows that say whether there are ids


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Rows that are read when they are asked for, as often as one likes.

    Attributes:
        items: A path, a frame, a data set, or an iterable of rows.
        name: What errors call them.
        columns: Which column each field is read from.
        source: Whose feedback a row is that does not say so itself.
    """

    items: Any
    name: str
    columns: Columns
    source: str | None = None

    @classmethod
    def of(
        cls,
        items: object,
        *,
        name: str = "feedback",
        columns: Mapping[str, str] | None = None,
        remembered: Mapping[str, str] | None = None,
        source: str | None = None,
    ) -> RowSource:
        """Return the rows of a path, a frame, a data set, or an iterable; a RowSource stays itself.

        Args:
            items: In an iterable, Examples, Feedback or mappings.
            name: What errors call rows that are no file.
            columns: Field to column, named for these rows: each must be there.
            remembered: Without `columns`: read where they are there.
            source: Whose feedback a row is that does not say so itself.

        Raises:
            InputError: The items are nothing that has rows, or the columns name no field.
        """
        chosen = remembered if columns is None else columns
        names = Columns(chosen, required=columns is not None)
        if isinstance(items, RowSource):
            if items.columns.required or items.columns.names:
                return items
            return replace(items, columns=names)
        kind = type(items).__name__
        if isinstance(items, str | Path):
            name = str(path_of(items))
        elif isinstance(items, Mapping):
            raise InputError(
                f"{name}: a {kind} is one row or a set of splits; pass a list of rows"
            )
        elif isinstance(items, Iterator):
            items = tuple(items)
        elif not is_frame(items) and not isinstance(items, Iterable):
            raise InputError(
                f"{name} must be a path, a DataFrame or an iterable of rows, not {kind}"
            )
        return cls(items=items, name=name, columns=names, source=source)

    @classmethod
    def of_lines(
        cls, lines: Iterable[bytes], *, name: str, **options: Any
    ) -> RowSource:
        """Return the rows of JSON lines that can be read only once, such as those of stdin.

        Args:
            lines: The lines.
            name: What errors call them.
            **options: Those of `of`.
        """
        return cls.of(
            never_empty(name, json_rows(enumerate(lines, 1))), name=name, **options
        )

    @property
    def is_empty(self) -> bool:
        """True if it is an empty list: no feedback at all."""
        return isinstance(self.items, list | tuple | set | frozenset) and not self.items

    @property
    def has_columns(self) -> bool:
        """True if its rows have columns of their own, as files, frames and data sets have."""
        return isinstance(self.items, str | Path) or is_table(self.items)

    def rows(self, *, distinct: bool = False) -> ReadRows:
        """Read the rows by their fields, in order; a row that cannot be read is a RowError.

        Rows of which the first hundred have no id get ids made of their content.

        Args:
            distinct: Whether no two made ids may be the same.
        """
        makes_ids = self._lacks_ids()
        present: dict[str, None] = {}
        copies: Counter[str] = Counter()
        for item in self._read():
            if isinstance(item, RowError):
                yield item
                continue
            present |= dict.fromkeys(item.fields)
            row = self._named(item)
            if makes_ids and isinstance(row, Row):
                made = id_of_content(row)
                copies[made] += 1
                if made and distinct and copies[made] > 1:
                    made = f"{made}-{copies[made]}"
                if made:
                    fields = {**row.fields, "id": made}
                    row = replace(row, fields=fields, made_id=True)
            yield row
        self.columns.check(self.name, present)

    def _lacks_ids(self) -> bool:
        """Return whether there are rows, and none of the first ones has an id."""
        rows = [row for row in islice(self._read(), _FIRST) if isinstance(row, Row)]
        return bool(rows) and all(
            self.columns.ids.isdisjoint(row.fields) for row in rows
        )

    def _read(self) -> ReadRows:
        for row in self._given():
            if isinstance(row, RowError):
                yield row
            else:
                yield replace(row, fields=self.columns.spelled(row.fields))

    def _given(self) -> ReadRows:
        if isinstance(self.items, str | Path):
            path = path_of(self.items)
            return never_empty(str(self.items), _file_rows(path, self.columns))
        if is_table(self.items):
            return never_empty(self.name, frame_rows(self.items, self.columns))
        return (
            _object_row(position, item) for position, item in enumerate(self.items, 1)
        )

    def _named(self, row: Row) -> ReadRow:
        """Return a row by its fields, with what a review sheet hides and the source of all."""
        if self.columns.names:
            row = replace(row, fields=self.columns.renamed(row.fields))
        if str(row.fields.get(HIDDEN, "")).startswith("{"):
            case = restored(row)
            if isinstance(case, RowError):
                return case
            row = case
        if self.source is None or row.fields.keys() >= JUDGED:
            return row
        source = row.fields.get("source")
        if source and not is_absent(source):
            return row
        fields = {**row.fields, "source": self.source}
        return replace(row, fields=fields)


def _file_rows(path: Path, columns: Columns) -> ReadRows:
    """Return the rows of a file or folder as they were written; the suffix says how it is read."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return _rows_of_folder(path)
    if suffix == ".parquet":
        return parquet_rows(path)
    if suffix in (*_LINES, ".json"):
        return json_rows(file_lines(path))
    if suffix in (".csv", ".tsv"):
        return delimited_rows(path, columns)
    if suffix == ".xlsx":
        return sheet_rows(path, columns)
    raise InputError(f"{path}: the name of a file ends in {_FORMATS}")


def _rows_of_folder(folder: Path) -> ReadRows:
    """Read the JSON lines in a folder, else its Parquet files; hidden files are left out."""
    lines: list[Path] = []
    has_parquet = False
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or _HIDDEN_FILE.search(str(file.relative_to(folder))):
            continue
        if file.suffix.lower() in _LINES:
            lines.append(file)
        has_parquet = has_parquet or file.suffix.lower() in _PARQUET
    if lines:
        return folder_rows(folder, lines)
    if has_parquet:
        return parquet_rows(folder)
    raise InputError(
        f"{folder} is a folder without JSON lines or Parquet files; "
        "name a file, or a folder with some"
    )


FeedbackSource = str | Path | Frame | RowSource | Iterable[Feedback | Mapping[str, Any]]
"""Whatever feedback is read from."""

ExampleSource = (
    str | Path | Frame | RowSource | Iterable[Example | Feedback | Mapping[str, Any]]
)
"""Whatever examples are read from."""


def _object_row(position: int, item: object) -> ReadRow:
    """Return a Python object as a row. A row stays as it is."""
    if isinstance(item, ReadRow):
        return item
    if isinstance(item, Example | Feedback):
        fields = msgspec.structs.asdict(item)
        return Row(line=position, fields=fields, faults=item.faults)
    kind = type(item).__name__
    of_mlflow = kind == "Trace"  # its fields hold no case
    if not isinstance(item, Mapping) and not of_mlflow:
        item = fields_of(item)
    if isinstance(item, Mapping):
        named = {whole_text(str(name)): value for name, value in item.items()}
        return Row(line=position, fields=named)
    reason = f"a row is a mapping, an Example or a Feedback, not {kind}"
    if of_mlflow:
        call = "memalign.integrations.mlflow.feedback_of(traces, judge)"
        reason += f"; {call} makes rows of MLflow's"
    return RowError(line=position, reason=reason)
