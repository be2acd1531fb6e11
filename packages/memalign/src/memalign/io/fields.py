"""A row's fields as those of an Example or Feedback: id, labels, content and `meta`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from memalign.content.json_values import is_absent, opened, plain, whole_number
from memalign.errors import InputError, InvalidValue
from memalign.io.columns import LABEL_FIELDS
from memalign.io.rows import Row
from memalign.types import CONTENT_FIELDS, Example, Feedback
from memalign.values import Value, ValueType

__all__ = [
    "CONTENT_NEEDED",
    "JUDGED",
    "case_fields",
    "case_of",
    "id_of_content",
    "labels_of",
    "without_labels",
]

JUDGED = frozenset({"judge", "content_hash", "value"})
"""Fields that every line of a judgment file has."""

CONTENT_NEEDED = (
    f"one of {', '.join(CONTENT_FIELDS)} is required, "
    "in this row or in another row with the same id"
)
MISSING = frozenset(
    (
        "",
        "NULL",
        "null",
        "\\N",
        "nan",
        "NaN",
        "-nan",
        "<NA>",
        "NaT",
        "None",
        "#N/A",
        "N/A",
        "n/a",
    )
)
"""What databases write for a missing cell; in content these are words like any other."""

_READ = frozenset(("id", *CONTENT_FIELDS, *LABEL_FIELDS))

CaseT = TypeVar("CaseT", Example, Feedback)


def case_of(kind: type[CaseT], row: Row, fields: Mapping[str, Any]) -> CaseT:
    """Return the Example or Feedback of a row. Raises InputError."""
    case = kind(**fields)
    if row.faults:
        case.__dict__["faults"] = row.faults
    return case


def id_of_content(row: Row) -> str:
    """Return an id made of a row's content: `c-` and the beginning of its hash.

    Returns:
        Empty for a row without content, or whose content is at fault, which is said where rows are
        checked.
    """
    try:
        case = case_fields(row)
        content = {name: case[name] for name in CONTENT_FIELDS if name in case}
        return f"c-{Example(id='made', **content).content_hash[:12]}"
    except InputError:
        return ""


def case_fields(row: Row) -> dict[str, Any]:
    """Return the present fields of a row, ready for Example or Feedback, all others in `meta`.

    Raises:
        InputError: The id or a label is of no usable kind.
    """
    case: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in row.fields.items():
        if is_absent(value):
            continue
        if name in _READ:
            case[name] = value
        else:
            rest[name] = value
    if not row.review:  # whose id is that of a case
        case_id = _name_of("id", case.get("id", ""))
        case["id"] = "" if case_id in MISSING else case_id
    case["meta"] = _meta(rest)
    return case


def _meta(rest: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that no field is read from, together with the keys of a column `meta`."""
    meta = opened(rest.pop("meta", {}))
    if not isinstance(meta, Mapping):
        meta = {"meta": meta}
    merged = {**rest, **meta}
    for name in sorted(rest.keys() & meta.keys()):
        if name != "group":
            merged[f"{name} (column)"] = rest[name]
        elif meta[name] != rest[name]:
            raise InputError(
                "group is both a column and a key of meta; keep one of them"
            )
    return merged


def without_labels(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a case's row that are no labels."""
    return {name: value for name, value in case.items() if name not in LABEL_FIELDS}


def labels_of(case: Mapping[str, Any], value_type: ValueType | None) -> dict[str, Any]:
    """Return the labels of a case's row, read, without words for a missing cell.

    Raises:
        InputError: The source is no text, or the value is no label, or not one of the judge's value
            type.
    """
    labels: dict[str, Any] = {}
    for name in LABEL_FIELDS:
        label = plain(case.get(name), name)
        if name == "value":
            label = _label(label, value_type)
        elif _is_missing(label):
            continue
        elif name == "source":
            label = _name_of(name, label)
        if label is not None:
            labels[name] = label
    return labels


def _label(value: object, value_type: ValueType | None) -> Value | None:
    """Return the label in a cell, None for a word that means none. Raises InputError."""
    if value_type is not None:
        try:
            return value_type.parse(value)
        except InvalidValue:
            if not _is_missing(value):
                raise
    if _is_missing(value):
        return None
    if isinstance(value, bool | int | float | str):
        return value
    shown = repr(str(value)[:60])
    raise InputError(
        f"value {shown} is not a label; a label is a boolean, a number or a text"
    )


def _is_missing(label: object) -> bool:
    """Return whether a label's cell says nothing."""
    return label is None or (isinstance(label, str) and label.strip() in MISSING)


def _name_of(field: str, value: object) -> str:
    """Return an id or a person as text. Raises InputError.

    Numbered ones are common, and pandas makes 7.0 of a 7.
    """
    value = whole_number(plain(value, field))
    if isinstance(value, float) and abs(value) >= 2**53:
        raise InputError(
            f"{field} {value:.17g} is a fraction that has lost digits; read the column as text"
        )
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        kind = type(value).__name__
        raise InputError(f"{field} must be text, not {kind}")
    text = str(value)
    return text.strip()
