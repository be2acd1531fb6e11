"""Where feedback and examples come from: a file, a frame, a data set or Python objects, with their own columns."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from memalign.content import check_field
from memalign.errors import InputError, RowError
from memalign.io.columns import LABEL_FIELDS, Columns, unmapped
from memalign.io.delimited import delimited_rows
from memalign.io.files import path_of
from memalign.io.frames import Frame, column_names, frame_rows, is_absent, is_frame, parquet_rows
from memalign.io.rows import Row, array_rows, file_lines, json_rows, never_empty
from memalign.io.sheets import HIDDEN, restored, sheet_rows
from memalign.types import CONTENT_FIELDS, Example, Feedback, canonical_json

__all__ = ["CONTENT_NEEDED", "JUDGED", "ExampleSource", "FeedbackSource", "Reading", "RowSource", "case_fields"]

JUDGED = frozenset({"judge", "content_hash", "value"})
"""What every line of a judgment file has."""

CONTENT_NEEDED = f"one of {', '.join(CONTENT_FIELDS)} is required, in this row or in another row with the same id"

_FORMATS = ".jsonl, .ndjson, .csv, .tsv, .xlsx, .parquet or .json (an array), or a folder of Parquet files"
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
        """The rows of a path, a frame, a data set, or an iterable; of another RowSource, that one.

        Args:
            items: In an iterable, Examples, Feedback or mappings.
            name: What errors call rows that are no file.
            columns: Field to column, named for these rows: each must be there.
            remembered: Without `columns`: read where they are there.
            source: Whose feedback a row is that does not say so itself.
        """
        names = Columns(remembered) if columns is None else Columns(columns, required=True)
        if isinstance(items, RowSource):
            return items if items.columns.required or items.columns.names else replace(items, columns=names)
        if isinstance(items, str | Path):
            name = str(path_of(items))
        elif isinstance(items, Mapping):
            raise InputError(f"{name}: a {type(items).__name__} is one row or a set of splits; pass a list of rows")
        elif not is_frame(items) and not isinstance(items, Iterable):
            raise InputError(f"{name} must be a path, a DataFrame or an iterable of rows, not {type(items).__name__}")
        elif isinstance(items, Iterator):
            items = tuple(items)
        return cls(items=items, name=name, columns=names, source=source)

    @classmethod
    def of_lines(cls, lines: Iterable[bytes], *, name: str, **options: Any) -> RowSource:
        """The rows of JSON lines that can be read only once, such as those of stdin; for the `options` see `of`."""
        return cls.of(never_empty(name, json_rows(enumerate(lines, 1))), name=name, **options)

    @property
    def is_empty(self) -> bool:
        """Whether it is an empty list: no feedback at all."""
        return isinstance(self.items, list | tuple | set | frozenset) and not self.items

    def rows(self, *, distinct: bool = False) -> Iterator[Row | RowError]:
        """Read the rows by their fields, in order; a row that cannot be read is a RowError.

        Rows of which the first hundred have no id get ids made of their content; if `distinct`, no two the same.
        """
        first = (row for row in islice(self._read(), _FIRST) if isinstance(row, Row))
        have_ids = [not self.columns.ids.isdisjoint(row.fields) for row in first]
        make_ids = bool(have_ids) and not any(have_ids)
        present: dict[str, None] = {}
        copies: Counter[str] = Counter()
        for item in self._read():
            if isinstance(item, RowError):
                yield item
                continue
            present |= dict.fromkeys(item.fields)
            row = self._named(item)
            if isinstance(row, Row) and make_ids and (made := _id_of_content(row.fields)):
                copies[made] += 1
                suffix = f"-{copies[made]}" if distinct and copies[made] > 1 else ""
                yield replace(row, fields={**row.fields, "id": made + suffix}, made_id=True)
            else:
                yield row
        self.columns.check(self.name, present)

    def _read(self) -> Iterator[Row | RowError]:
        if isinstance(self.items, str | Path):
            return never_empty(str(self.items), _file_rows(path_of(self.items), self.columns))
        if column_names(self.items) is not None or is_frame(self.items):
            return never_empty(self.name, frame_rows(self.items))
        return (_object_row(position, item) for position, item in enumerate(self.items, 1))

    def _named(self, row: Row) -> Row | RowError:
        """A row by its fields, with the content that a sheet for review hides, and with the source of all."""
        if self.columns.names:
            row = replace(row, fields=self.columns.renamed(row.fields))
        if str(row.fields.get(HIDDEN, "")).startswith("{"):
            case = restored(row)
            if isinstance(case, RowError):
                return case
            row = case
        source = row.fields.get("source")
        if self.source is not None and (not source or is_absent(source)) and not row.fields.keys() >= JUDGED:
            row = replace(row, fields={**row.fields, "source": self.source})
        return row


def _file_rows(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of a file or of a folder of Parquet files, as they were written; its suffix says how it is read."""
    suffix = path.suffix.lower()
    if path.is_dir() or suffix == ".parquet":
        return parquet_rows(path)
    if suffix in (".jsonl", ".ndjson"):
        return json_rows(file_lines(path))
    if suffix == ".json":
        return array_rows(path)
    if suffix in (".csv", ".tsv"):
        return delimited_rows(path, columns)
    if suffix == ".xlsx":
        return sheet_rows(path, columns)
    raise InputError(f"{path}: the name of a file ends in {_FORMATS}")


class Reading:
    """What one reading of a source meets: its columns, and its bad rows."""

    def __init__(self) -> None:
        self.columns: dict[str, None] = {}
        self.bad: list[RowError] = []

    def readable(self, row: Row | RowError) -> Row | None:
        """The row, unless it cannot be read."""
        if isinstance(row, RowError):
            self.bad.append(row)
            return None
        self.columns |= dict.fromkeys(name for name in row.fields if not (row.made_id and name == "id"))
        return row

    def needed(self, fields: Collection[str]) -> Collection[str]:
        """The content that rows must have: the `fields` that a judge reads, else any; the usual ones stand for it."""
        return fields or (() if self.columns.keys() & set(CONTENT_FIELDS) else ("inputs", "outputs"))

    def check_columns(self, source: RowSource, fields: Iterable[str]) -> None:
        """Raise InputError for a file or frame with fields that no column gives: all of them in one message."""
        missing = [field for field in fields if field not in self.columns]
        has_columns = isinstance(source.items, str | Path) or column_names(source.items) is not None
        if missing and self.columns and has_columns:
            raise unmapped(source.name, missing, self.columns, source.columns.names)


FeedbackSource = str | Path | Frame | RowSource | Iterable[Feedback | Mapping[str, Any]]
"""Whatever feedback is read from."""

ExampleSource = str | Path | Frame | RowSource | Iterable[Example | Feedback | Mapping[str, Any]]
"""Whatever examples are read from."""


def _object_row(position: int, item: object) -> Row | RowError:
    """A Python object as a row. What is a row already stays as it is."""
    if isinstance(item, Row | RowError):
        return item
    if isinstance(item, Example | Feedback):
        return Row(line=position, fields=msgspec.structs.asdict(item))
    if isinstance(item, Mapping):
        return Row(line=position, fields={str(name): value for name, value in item.items()})
    return RowError(line=position, reason=f"a row is a mapping, an Example or a Feedback, not {type(item).__name__}")


def _id_of_content(fields: Mapping[str, Any]) -> str:
    """`c-` and the beginning of the content's hash; empty for a row without content, or whose content is at fault."""
    try:
        content = {name: value for name, value in case_fields(fields).items() if name in CONTENT_FIELDS}
        text = canonical_json(content)
    except InputError:
        return ""  # said where rows are checked
    return f"c-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}" if content else ""


def case_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row that are present, ready for Example or Feedback, all others in `meta`. Raises InputError."""
    rest = {name: value for name, value in fields.items() if not is_absent(value)}
    case = {name: rest.pop(name) for name in ("id", *CONTENT_FIELDS, *LABEL_FIELDS) if name in rest}
    case.setdefault("id", "")
    for name in ("id", "source"):
        # Numbered cases and people are common, and a CSV file would give the same numbers as text.
        if isinstance(case.get(name), int) and not isinstance(case[name], bool):
            case[name] = str(case[name])
        if isinstance(case.get(name), str):
            case[name] = case[name].strip()
        elif name in case:
            raise InputError(f"{name} must be text")
    if isinstance(case.get("rationale"), str) and not case["rationale"].strip():
        del case["rationale"]
    meta = rest.pop("meta", {})
    if not isinstance(meta, Mapping):
        raise InputError("meta must be a JSON object")
    if both := sorted(meta.keys() & rest.keys()):
        raise InputError(f"{', '.join(both)} is both a column and a key of meta; keep one of them")
    case["meta"] = {**meta, **rest}
    for name in (*CONTENT_FIELDS, *(["meta"] if case["meta"] else [])):
        if name not in case:
            continue
        if name != "meta":
            check_field(name, case[name])
        if not isinstance(case[name], str):  # any text is JSON
            try:
                canonical_json(case[name])
            except InputError as error:
                raise InputError(f"{name} is {error}") from None
    return case
