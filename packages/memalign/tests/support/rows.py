"""What a row of a file is before anybody has checked it."""

from __future__ import annotations

from typing import Any

RawRow = dict[str, Any]


def given_in(row: RawRow) -> RawRow:
    """A row without the fields that are None."""
    return {name: value for name, value in row.items() if value is not None}
