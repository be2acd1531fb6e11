"""Columns of other names: which column of a file or frame each field is read from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from memalign.errors import InputError
from memalign.types import CONTENT_FIELDS

__all__ = ["FIELDS", "LABEL_FIELDS", "Columns", "checked_columns", "parse_columns", "unmapped"]

LABEL_FIELDS = ("value", "rationale", "source", "created_at")

FIELDS = ("id", *CONTENT_FIELDS, *LABEL_FIELDS, "group")
"""The fields that may be read from a column of another name."""

_COMMA = re.compile(rf",(?=\s*(?:{'|'.join(FIELDS)})\s*=)")  # a comma inside a column's name splits nothing


def checked_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The same, field to column, without fields that are read from their own name. Raises InputError."""
    for field, column in columns.items():
        if field not in FIELDS:
            raise InputError(f"{field!r} is not a field. Write FIELD=COLUMN; the fields are {', '.join(FIELDS)}")
        if not isinstance(column, str) or not column.strip():
            raise InputError(f"the mapping of {field} names no column; write {field}=COLUMN")
    names = [column.strip() for column in columns.values()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"column {twice[0]!r} is mapped to two fields; map it to one")
    return {field: column.strip() for field, column in columns.items() if field != column.strip()}


def parse_columns(texts: Iterable[str]) -> dict[str, str]:
    """The columns of `outputs=answer,value=label`, written as often as you like, or of `none`. Raises InputError."""
    texts = list(texts)
    if [text.strip().lower() for text in texts] == ["none"]:
        return {}
    columns: dict[str, str] = {}
    for part in (part for text in texts for part in _COMMA.split(text)):
        field, equals, column = part.partition("=")
        if not equals:
            raise InputError(f"--map {part}: write FIELD=COLUMN, for example outputs=answer; --map none forgets it")
        if field.strip() in columns:
            raise InputError(f"--map names the field {field.strip()} twice")
        columns[field.strip()] = column
    return checked_columns(columns)


def unmapped(name: str, missing: Iterable[str], present: Collection[str], names: Mapping[str, str]) -> InputError:
    """What is wrong with rows, called `name`, that have the `present` fields, from columns `names`, and lack others."""
    missing, listed = list(missing), ", ".join(names.get(field, field) for field in present)[:300]
    mapping = {field: names[field] for field in names if field in present} | dict.fromkeys(missing, "COLUMN")
    return InputError(
        f"{name} has no column for {', '.join(missing)}. Its columns are {listed}. Name the right ones: "
        f"--map {','.join(f'{field}={column}' for field, column in mapping.items())} (in Python: columns={mapping})"
    )


class Columns:
    """Fields read from columns of other `names`, field to column; if `required`, each must be among these very rows."""

    def __init__(self, names: Mapping[str, str] | None = None, *, required: bool = False) -> None:
        self.names = MappingProxyType(checked_columns(names or {}))
        self.required = required
        self._fields = {column: field for field, column in self.names.items()}
        self.ids = self._spellings("id")
        self.json = self._spellings(*CONTENT_FIELDS, "meta")

    def _spellings(self, *fields: str) -> frozenset[str]:
        """The columns that any of these fields may be read from."""
        return frozenset(name for field in fields for name in (field, self.names.get(field, field)))

    def renamed(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """A row by its fields. A column of a field's name, where that field is read elsewhere, gets another name."""
        taken = {field for column, field in self._fields.items() if column in row}
        names = {column: f"{column} (column)" if column in taken else column for column in row}
        return {self._fields.get(column, names[column]): value for column, value in row.items()}

    def check(self, name: str, present: Collection[str]) -> None:
        """Raise InputError for columns that were named for these rows, called `name`, and are in none of them."""
        missing = [f"{column!r} for {field}" for field, column in self.names.items() if column not in present]
        if self.required and missing:
            listed = ", ".join(map(str, present))[:300]
            raise InputError(f"{name} has no column {', no column '.join(missing)}. Its columns are {listed}")
