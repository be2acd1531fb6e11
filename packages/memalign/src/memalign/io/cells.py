"""Values of frames and columns as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from memalign.errors import InputError

__all__ = ["is_absent", "plain_fields", "plain_value", "shown_id"]


def is_absent(value: object) -> bool:
    """Whether a cell is missing: None, and what pandas writes for it, NaN, NaT, NA. The first two equal nothing."""
    return (
        value is None
        or (isinstance(value, float | datetime) and value != value)  # noqa: PLR0124
        or type(value).__name__ == "NAType"
    )


def plain_fields(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """The fields of a row by the names of their columns, as JSON has them. Raises InputError that names the column."""
    plain = {}
    for name, value in fields.items():
        try:
            plain[str(name)] = plain_value(value)
        except InputError as error:
            raise InputError(f"column {name} {error}") from None
    return plain


def shown_id(fields: Mapping[str, Any]) -> str | None:
    """The row's id, where it has one that can be shown."""
    name = fields.get("id")
    return str(name)[:80] if isinstance(name, str | int) and str(name).strip() else None


def plain_value(value: Any) -> Any:
    """`value` as JSON has it: arrays are lists, structs objects, times ISO 8601 text. Raises InputError for bytes."""
    if isinstance(value, str | bool | int) or is_absent(value):
        return value
    if isinstance(value, dict):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(part) for part in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        raise InputError("holds bytes; leave the column out, or give text, a number, a boolean, a list or a struct")
    if type(value).__module__ == "numpy":  # an array, or one of numpy's own numbers
        return plain_value(value.tolist())
    return value
