"""Columns of other names: which column of a file or frame each field is read from."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from memalign.errors import InputError
from memalign.types import CONTENT_FIELDS

__all__ = ["FIELDS", "LABEL_FIELDS", "Columns", "checked_columns", "parse_columns"]

LABEL_FIELDS = ("value", "rationale", "source", "created_at")

FIELDS = ("id", *CONTENT_FIELDS, *LABEL_FIELDS, "group")
"""The fields that may be read from a column of another name."""

_NEXT = re.compile(rf",(?=\s*(?:{'|'.join(FIELDS)})\s*=)")  # a comma inside a column's name splits nothing


def checked_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """The same, field to column, without fields that are read from their own name. Raises InputError."""
    for field, column in columns.items():
        if field not in FIELDS:
            raise InputError(f"{field!r} is not a field; fields: {', '.join(FIELDS)}; write field=column")
        if not isinstance(column, str) or not column.strip():
            raise InputError(f"the column that {field} is read from has no name; write {field}=column")
    names = [column.strip() for column in columns.values()]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"column {twice[0]!r} is named for two fields; one column is one field")
    return {field: column.strip() for field, column in columns.items() if field != column.strip()}


def parse_columns(given: Iterable[str]) -> dict[str, str]:
    """`outputs=answer,value=label`, as often as given, or `none`. Raises InputError."""
    texts = list(given)
    if [text.strip().lower() for text in texts] == ["none"]:
        return {}
    found: dict[str, str] = {}
    for part in (part for text in texts for part in _NEXT.split(text)):
        field, equals, column = part.partition("=")
        if not equals:
            raise InputError(f"--map {part}: write it as field=column, for example outputs=answer; none forgets it")
        if field.strip() in found:
            raise InputError(f"--map names {field.strip()} twice")
        found[field.strip()] = column
    return checked_columns(found)


class Columns:
    """Fields read from columns of other names; every other column is what its own name says.

    `asked` means that they were named for these very rows: each must then be there. Columns that a judge remembers may
    be missing, for another file has other columns.
    """

    def __init__(self, names: Mapping[str, str] | None = None, *, asked: bool = False) -> None:
        self.names = MappingProxyType(checked_columns(names or {}))
        self.asked = asked
        self._field_of = {column: field for field, column in self.names.items()}
        self.ids = self._spellings("id")
        self.values = self._spellings("value")
        self.labels = self._spellings(*LABEL_FIELDS)
        self.json = self._spellings(*CONTENT_FIELDS, "meta")

    def _spellings(self, *fields: str) -> frozenset[str]:
        """The columns that any of these fields may be read from."""
        return frozenset(name for field in fields for name in (field, self.names.get(field, field)))

    def field_of(self, column: str) -> str:
        """The field that a column is."""
        return self._field_of.get(column, column)

    def applied(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """A row by its fields. A column of a field's name, where that field is read elsewhere, gets another name."""
        if not self._field_of or not any(column in fields for column in self._field_of):
            return dict(fields)
        taken = {field for column, field in self._field_of.items() if column in fields}
        named: dict[str, Any] = {}
        for column, value in fields.items():
            field = self._field_of.get(column)
            if field is None:
                field = f"{column} (column)" if column in taken else column
            named[field] = value
        return named

    def missing(self, name: str, seen: Collection[str]) -> InputError | None:
        """What is wrong with rows, called `name`, of these columns: one that was asked for is not there."""
        for field, column in self.names.items():
            if self.asked and column not in seen:
                listed = ", ".join(map(str, seen))[:300]
                return InputError(
                    f"{name} has no column {column!r}, from which {field} was to be read; its columns: {listed}"
                )
        return None
