"""Columns of other names: which column of a file or frame each field is read from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from memalign.content.normal import column_form
from memalign.errors import InputError
from memalign.types import CONTENT_FIELDS

__all__ = [
    "FIELDS",
    "LABEL_FIELDS",
    "Columns",
    "checked_columns",
    "parse_columns",
    "unmapped",
    "unused",
]

LABEL_FIELDS = ("value", "rationale", "source", "created_at")

FIELDS = ("id", *CONTENT_FIELDS, *LABEL_FIELDS, "group")
"""The fields that may be read from a column of another name."""

_COMMA = re.compile(rf",(?=\s*(?:{'|'.join(FIELDS)})\s*=)")
"""A comma between two columns; one inside a column's name splits nothing."""


def checked_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Check a mapping of field to column, and leave out fields that are read from their own name.

    Raises:
        InputError: A field does not exist, a column has no name, or one is mapped twice.
    """
    checked: dict[str, str] = {}
    for field, column in columns.items():
        if field not in FIELDS:
            raise InputError(
                f"{field!r} is not a field. Write FIELD=COLUMN; the fields are {', '.join(FIELDS)}"
            )
        if not isinstance(column, str) or not column.strip():
            raise InputError(
                f"the mapping of {field} names no column; write {field}=COLUMN"
            )
        if column.strip() in checked.values():
            raise InputError(
                f"column {column.strip()!r} is mapped to two fields; map it to one"
            )
        checked[field] = column.strip()
    return {field: column for field, column in checked.items() if field != column}


def parse_columns(texts: Iterable[str]) -> dict[str, str]:
    """Read the columns of `outputs=answer,value=label`, written as often as you like, or of `none`.

    Raises:
        InputError: A part names no field or no column, or a field twice.
    """
    texts = list(texts)
    if [text.strip().lower() for text in texts] == ["none"]:
        return {}
    columns: dict[str, str] = {}
    for text in texts:
        for part in _COMMA.split(text):
            field, equals, column = part.partition("=")
            if not equals:
                raise InputError(
                    f"--map {part}: write FIELD=COLUMN, for example outputs=answer; "
                    "--map none forgets it"
                )
            if field.strip() in columns:
                raise InputError(f"--map names the field {field.strip()} twice")
            columns[field.strip()] = column
    return checked_columns(columns)


def unmapped(
    name: str,
    missing: Iterable[str],
    present: Collection[str],
    names: Mapping[str, str],
) -> InputError:
    """Return the error for rows that lack fields.

    Args:
        name: What the error calls the rows.
        missing: The fields that they lack.
        present: The fields that they have.
        names: The columns from which fields are read, where they have other names.
    """
    missing = list(missing)
    listed = ", ".join(names.get(field, field) for field in present)[:300]
    mapping = {field: names[field] for field in names if field in present}
    mapping |= dict.fromkeys(missing, "COLUMN")
    for column, field in nearest(present).items():
        if field in missing:
            mapping[field] = column
    return InputError(
        f"{name} has no column for {', '.join(missing)}. Its columns are {listed}. "
        f"Name the right ones: {written(mapping)}"
    )


def written(mapping: Mapping[str, str]) -> str:
    """Return how a person names the columns of fields, on the command line and in Python."""
    pairs = ",".join(f"{field}={column}" for field, column in mapping.items())
    return f"--map {shlex.quote(pairs)} (in Python: columns={mapping})"


# -- columns that are not read ---------------------------------------------------------------------

_MEANT = {
    "inputs": "input question query prompt request instruction user_input",
    "outputs": "output answer response reply completion prediction generated_text model_output",
    "expectations": "expectation expected expected_output reference ground_truth gold target",
    "conversation": "messages conversations chat dialogue transcript contents",
    "trace": "",
    "value": "label score rating verdict grade feedback_value",
    "rationale": (
        "comment comments reason explanation feedback critique justification note notes remark "
        "rational"
    ),
    "source": "annotator reviewer rater author expert user labeler annotated_by",
    "created_at": "timestamp date time created annotated_at",
    "id": "example_id case_id item_id uid uuid key",
}
_FIELD_BY_NAME: dict[str, str] = {}
for _field, _names in _MEANT.items():
    _FIELD_BY_NAME |= dict.fromkeys((_field, *_names.split()), _field)
_MOST_NAMED = 30  # columns
_LONGEST = 40  # characters of each that are compared
_CLOSE = 0.8  # of `difflib`: "coment" and "rationnale" are close, "region" is close to nothing

_OURS = frozenset(("meta", "memalign", "judge's verdict", "judge's reason", *FIELDS))


def nearest(columns: Iterable[str]) -> dict[str, str]:
    """Return the field that each column of another name seems to be, if it comes close to one."""
    columns = list(columns)
    taken = set(FIELDS).intersection(columns)
    found: dict[str, str] = {}
    others = [name for name in columns if name not in _OURS]
    for column in others[:_MOST_NAMED]:
        field = _field_near(column[:_LONGEST])
        if field is not None and field not in taken:
            taken.add(field)
            found[column] = field
    return found


@lru_cache(maxsize=1000)
def _form_of(column: str) -> str:
    return column_form(column[:_LONGEST])


@lru_cache(maxsize=1000)
def _field_near(column: str) -> str | None:
    name = column_form(column)
    if name not in _FIELD_BY_NAME:
        name = next(
            iter(get_close_matches(name, _FIELD_BY_NAME, n=1, cutoff=_CLOSE)), ""
        )
    return _FIELD_BY_NAME.get(name)


def unused(columns: Iterable[str]) -> list[str]:
    """Return a note on each unread column that comes close to a field, and one on all others."""
    columns = list(columns)
    likely = nearest(columns)
    notes: list[str] = []
    for column, field in likely.items():
        use = written({field: column})
        notes.append(f"{column}: not used; did you mean {column} → {field}? Use {use}")
    others: list[str] = []
    for name in columns:
        if (
            name not in likely
            and name not in _OURS
            and not name.startswith("memalign ")
        ):
            others.append(name)
    if others:
        listed = ", ".join(others[:_MOST_NAMED])[:300]
        notes.append(f"not used, and kept as meta: {listed}")
    return notes


class Columns:
    """Fields that are read from columns of other names.

    Args:
        names: Field to column.
        required: Whether each column must be among these very rows.

    Attributes:
        read: The columns of any name that fields are read from.
        ids: The columns from which an id is read.
    """

    def __init__(
        self, names: Mapping[str, str] | None = None, *, required: bool = False
    ) -> None:
        checked = checked_columns(names or {})
        self.names = MappingProxyType(checked)
        self.required = required
        self._fields = {column: field for field, column in checked.items()}
        column_of_ids = checked.get("id", "id")
        self.ids = frozenset(("id", column_of_ids))
        self.read = frozenset((*FIELDS, *self._fields))

    def spelled(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row with `Created At`, `ID` and the like under the names of their fields.

        A column of exactly that name, or the first of several, is the field.
        """
        spelled: dict[str, Any] = {}
        for column, value in row.items():
            field = self.field_of(column)
            is_taken = field in row or field in spelled
            spelled[column if is_taken else field] = value
        return spelled

    def field_of(self, column: str) -> str:
        """Return the field that a column names in other letters or signs; else the column."""
        if column in self.read:
            return column
        field = _form_of(column)
        return field if field in FIELDS else column

    def renamed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row by its fields.

        A column of a field's name, where that field is read elsewhere, gets another name.
        """
        taken = {field for column, field in self._fields.items() if column in row}
        renamed: dict[str, Any] = {}
        for column, value in row.items():
            name = column
            if column in taken:
                name = f"{column} (column)"
            field = self._fields.get(column, name)
            renamed[field] = value
        return renamed

    def check(self, name: str, present: Collection[str]) -> None:
        """Check that the columns that were named for these rows are in some of them.

        Args:
            name: What errors call the rows.
            present: The columns of all of them.

        Raises:
            InputError: Some are in none of them.
        """
        missing: list[str] = []
        for field, column in self.names.items():
            if column not in present:
                missing.append(f"{column!r} for {field}")
        if self.required and missing:
            listed = ", ".join(map(str, present))[:300]
            raise InputError(
                f"{name} has no column {', no column '.join(missing)}. Its columns are {listed}"
            )
