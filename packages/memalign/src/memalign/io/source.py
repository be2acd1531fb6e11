"""Where feedback and examples come from: a file, a frame, a data set or Python objects, with their own columns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from memalign.content import Part, check_fields
from memalign.content.json_values import fields_of, is_absent, opened, plain, whole
from memalign.content.normal import whole_text
from memalign.errors import InputError, InvalidValue, RowError
from memalign.io.columns import LABEL_FIELDS, Columns, unmapped
from memalign.io.delimited import delimited_rows
from memalign.io.files import path_of
from memalign.io.frames import Frame, column_names, frame_rows, is_frame, parquet_rows, shown_id
from memalign.io.rows import Row, file_lines, folder_rows, json_rows, never_empty
from memalign.io.sheets import HIDDEN, restored, sheet_rows
from memalign.types import CONTENT_FIELDS, Example, Feedback
from memalign.values import Value, ValueType

__all__ = [
    "CONTENT_NEEDED",
    "JUDGED",
    "ExampleSource",
    "FeedbackSource",
    "Reading",
    "RowSource",
    "case_fields",
    "case_of",
    "labels_of",
]

JUDGED = frozenset({"judge", "content_hash", "value"})
"""What every line of a judgment file has."""

CONTENT_NEEDED = f"one of {', '.join(CONTENT_FIELDS)} is required, in this row or in another row with the same id"

_FORMATS = (
    ".jsonl, .ndjson, .json, .csv, .tsv, .xlsx or .parquet, "
    "or a folder of JSON lines or Parquet files"
)
_LINES, _PARQUET = (".jsonl", ".ndjson"), (".parquet", ".parq", ".pq", "")
MISSING = frozenset(
    ("NULL", "null", "\\N", "nan", "NaN", "-nan", "<NA>", "NaT", "None", "#N/A", "N/A", "n/a")
)
"""What databases and libraries write into a text for a cell that is missing; in content it is a word like any other."""

CaseT = TypeVar("CaseT", Example, Feedback)

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
            return (
                items
                if items.columns.required or items.columns.names
                else replace(items, columns=names)
            )
        if isinstance(items, str | Path):
            name = str(path_of(items))
        elif isinstance(items, Mapping):
            raise InputError(
                f"{name}: a {type(items).__name__} is one row or a set of splits; pass a list of rows"
            )
        elif not is_frame(items) and not isinstance(items, Iterable):
            raise InputError(
                f"{name} must be a path, a DataFrame or an iterable of rows, not {type(items).__name__}"
            )
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
            if isinstance(row, Row) and make_ids and (made := _id_of_content(row)):
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
            return never_empty(self.name, frame_rows(self.items, self.columns))
        return (_object_row(position, item) for position, item in enumerate(self.items, 1))

    def _named(self, row: Row) -> Row | RowError:
        """A row by its fields, with the content that a sheet for review holds, and with the source of all."""
        if self.columns.names:
            row = replace(row, fields=self.columns.renamed(row.fields))
        if str(row.fields.get(HIDDEN, "")).startswith("{"):
            case = restored(row)
            if isinstance(case, RowError):
                return case
            row = case
        source = row.fields.get("source")
        if (
            self.source is not None
            and (not source or is_absent(source))
            and not row.fields.keys() >= JUDGED
        ):
            row = replace(row, fields={**row.fields, "source": self.source})
        return row


def _file_rows(path: Path, columns: Columns) -> Iterator[Row | RowError]:
    """The rows of a file or of a folder of Parquet files, as they were written; its suffix says how it is read."""
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


def _rows_of_folder(folder: Path) -> Iterator[Row | RowError]:
    """Read the JSON lines in a folder, else its Parquet files; hidden and temporary files are none of it."""
    hidden = re.compile(r"(^|[/\\])[._]")
    files = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    files = [file for file in files if not hidden.search(str(file.relative_to(folder)))]
    lines = [file for file in files if file.suffix.lower() in _LINES]
    if lines:
        return folder_rows(folder, lines)
    if not any(file.suffix.lower() in _PARQUET for file in files):
        raise InputError(
            f"{folder} is a folder without JSON lines or Parquet files; name a file, or a folder with some"
        )
    return parquet_rows(folder)


class Reading:
    """What one reading of a source meets: its columns, its bad rows, and what of others was left out.

    Args:
        parts: What a judge reads, as its instructions name it; without one nothing of the content is checked.
    """

    def __init__(self, parts: Collection[str] = ()) -> None:
        self.parts = tuple(parts)
        self.columns: dict[str, None] = {}
        self.bad: list[RowError] = []
        self.left_out: dict[str, str] = {}

    def take(self, item: Row | RowError) -> None:
        """Take up a row; what cannot be read or used is kept as a bad one."""
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
        self.bad.append(RowError(line=row.line, reason=reason, id=shown_id(row.fields)))

    def faults(self) -> list[RowError]:
        """Return the bad rows in their order."""
        return sorted(self.bad, key=lambda error: error.line)

    def check(self, row: Row, case: Example | Feedback) -> None:
        """Check what the judge reads of a row, and note what else had no form in JSON. Raises InputError."""
        check_fields(case, self.parts)
        for fault in case.faults:
            self.left_out.setdefault(
                fault.steps[0], f"{fault.place} was left out on line {row.line}: it {fault.reason}"
            )

    def needed(self) -> Collection[str]:
        """Return the content that rows must have: what a judge reads, else any; the usual fields stand for it."""
        if self.parts:
            return tuple(dict.fromkeys(Part.parse(name).field for name in self.parts))
        return () if self.columns.keys() & set(CONTENT_FIELDS) else ("inputs", "outputs")

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
        fields = msgspec.structs.asdict(item)
        return Row(line=position, fields=fields, faults=item.faults)
    kind = type(item).__name__
    if not isinstance(item, Mapping) and kind != "Trace":  # of MLflow, whose fields hold no case
        item = fields_of(item) or item
    if isinstance(item, Mapping):
        return Row(
            line=position, fields={whole_text(str(name)): value for name, value in item.items()}
        )
    hint = (
        "; memalign.integrations.mlflow.feedback_of(traces, judge) makes rows of MLflow's"
        if kind == "Trace"
        else ""
    )
    return RowError(
        line=position, reason=f"a row is a mapping, an Example or a Feedback, not {kind}{hint}"
    )


def case_of(kind: type[CaseT], row: Row, fields: Mapping[str, Any]) -> CaseT:
    """Return the Example or Feedback of a row. Raises InputError."""
    case = kind(**fields)
    if row.faults:
        case.__dict__["faults"] = row.faults
    return case


def _id_of_content(row: Row) -> str:
    """`c-` and the beginning of the content's hash; empty for a row without content, or whose content is at fault."""
    try:
        content = {
            name: value for name, value in case_fields(row).items() if name in CONTENT_FIELDS
        }
        return f"c-{Example(id='made', **content).content_hash[:12]}"
    except InputError:
        return ""  # said where rows are checked


def case_fields(row: Row) -> dict[str, Any]:
    """Return the fields of a row that are present, ready for Example or Feedback, all others in `meta`.

    Raises:
        InputError: The id or a label is of no usable kind.
    """
    rest = {name: value for name, value in row.fields.items() if not is_absent(value)}
    case: dict[str, Any] = {"id": ""}
    for name in ("id", *CONTENT_FIELDS, *LABEL_FIELDS):
        if name in rest:
            case[name] = rest.pop(name)
    case["id"] = _name_of("id", case["id"])
    if case["id"] in MISSING:
        case["id"] = ""
    meta = opened(rest.pop("meta", {}))
    if not isinstance(meta, Mapping):
        meta = {"meta": meta}
    if "group" in rest and meta.get("group", rest["group"]) != rest["group"]:
        raise InputError("group is both a column and a key of meta; keep one of them")
    both = rest.keys() & meta.keys() - {"group"}
    case["meta"] = {**rest, **meta} | {f"{name} (column)": rest[name] for name in sorted(both)}
    return case


def labels_of(case: Mapping[str, Any], value_type: ValueType | None) -> dict[str, Any]:
    """Return the labels of a case's row, read; words that databases write for a missing cell are absent.

    Raises:
        InputError: The source is no text, or the value is no label, or not one of the judge's value type.
    """
    labels = {name: plain(case[name], name) for name in LABEL_FIELDS if name in case}
    for name in ("rationale", "source", "created_at"):
        text = labels.get(name)
        if isinstance(text, str) and (not text.strip() or text.strip() in MISSING):
            del labels[name]
    if "source" in labels:
        labels["source"] = _name_of("source", labels["source"])
    if "value" in labels:
        value = _label(labels.pop("value"), value_type)
        if value is not None:
            labels["value"] = value
    return labels


def _label(value: object, value_type: ValueType | None) -> Value | None:
    """Return the label that a cell holds, None for a word that says that there is none. Raises InputError."""
    missing = isinstance(value, str) and value.strip() in MISSING
    if value_type is None:
        if missing or value is None:
            return None
        if isinstance(value, bool | int | float | str):
            return value
        raise InputError(
            f"value {str(value)[:60]!r} is not a label; a label is a boolean, a number or a text"
        )
    try:
        return value_type.parse(value)
    except InvalidValue:
        if missing or value is None:
            return None
        raise


def _name_of(field: str, value: object) -> str:
    """Return an id or a person as text: numbered ones are common, and pandas makes 7.0 of a 7. Raises InputError."""
    value = whole(plain(value, field))
    if isinstance(value, float) and abs(value) >= 2**53:
        raise InputError(
            f"{field} {value:.17g} is a fraction that has lost digits; read the column as text"
        )
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{field} must be text")
    return str(value).strip()
