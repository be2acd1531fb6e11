"""Tasks of a folder: `tasks.toml` says what each task is, `<task>.jsonl` holds its feedback.

[averitec]
category = "faithfulness"
criterion = "Given only the evidence, is the claim supported?"
values = ["Supported", "Refuted"]          # or "bool", "int:1..5"
split = "row"                              # optional; "order": the file's first cases teach; otherwise by the rows' `group`
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from memalign.errors import InputError, InvalidRows, InvalidValueType
from memalign.io import read_feedback
from memalign.values import ValueType
from memalign_bench.tasks import Task, cases_of

__all__ = ["load_folder"]

FEW_GROUPS = 15
"""Fewer groups than this cannot give 50 cases for teaching without leaving most of the rest out: split by row."""


class _Entry(msgspec.Struct, kw_only=True):
    category: str = "other"
    criterion: str
    values: str | list[str]
    split: Literal["group", "row", "order"] = "group"
    license: str = ""


def load_folder(folder: Path, names: tuple[str, ...] = ()) -> tuple[Task, ...]:
    """The tasks called `names` of the folder, all without names, in that order.

    Raises InputError for a folder without `tasks.toml`, an unknown task and an entry that does not say what is needed;
    InvalidRows for bad rows of a task's file.
    """
    listing = folder / "tasks.toml"
    try:
        entries: dict[str, Any] = tomllib.loads(listing.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"no {listing}: a folder of tasks has a tasks.toml that names them") from None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{listing} is no TOML: {error}") from None
    if not entries:
        raise InputError(f"{listing} names no task: give each a table with its criterion, values and category")
    if unknown := [name for name in names if name not in entries]:
        raise InputError(f"no task {unknown[0]!r} in {listing}; tasks: {', '.join(entries)}")
    return tuple(_load(folder, name, entries[name]) for name in names or entries)


def _load(folder: Path, name: str, raw: Any) -> Task:
    try:
        entry = msgspec.convert(raw, _Entry)
    except msgspec.ValidationError as error:
        raise InputError(f"task {name!r} in {folder / 'tasks.toml'}: {error}") from None
    values = "|".join(entry.values) if isinstance(entry.values, list) else entry.values
    try:
        value_type = ValueType.of(values)
    except InvalidValueType as error:
        raise InputError(f"task {name!r} in {folder / 'tasks.toml'}: {error}") from None
    try:
        rows = read_feedback(folder / f"{name}.jsonl", value_type=value_type).rows
    except InvalidRows as error:  # without the hint for aligning, which could leave rows out
        raise InvalidRows(error.source, error.rows) from None
    cases = cases_of(rows)
    in_order = entry.split == "order"
    return Task(
        name=name,
        category=entry.category,
        criterion=entry.criterion,
        values=value_type.spec,
        cases=cases,
        by_row=not in_order and (entry.split == "row" or len({case.group for case in cases}) < FEW_GROUPS),
        in_order=in_order,
        licence=entry.license,
    )
