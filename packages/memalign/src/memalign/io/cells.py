"""Values of frames and columns as JSON has them."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from memalign.errors import InputError

__all__ = ["is_absent", "plain_value"]


def is_absent(value: object) -> bool:
    """Whether a cell is missing: None, and what pandas writes for it, NaN, NaT, NA. The first two equal nothing."""
    return (
        value is None
        or (isinstance(value, float | datetime) and value != value)  # noqa: PLR0124
        or type(value).__name__ == "NAType"
    )


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
        raise InputError("a cell holds bytes; a column is text, a number, a boolean, a list or a struct")
    if type(value).__module__ == "numpy":  # an array, or one of numpy's own numbers
        return plain_value(value.tolist())
    return value
