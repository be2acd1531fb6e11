"""Judgments, ledgers, evaluations and other results as a DataFrame: one row a record, one column a field."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from memalign.align import AlignResult
from memalign.errors import ConfigurationError, InputError
from memalign.evaluation import Evaluation, NextCases
from memalign.io import JudgmentFile
from memalign.memory import LedgerEntry
from memalign.types import FeedbackKey, Usage, as_json

__all__ = ["to_frame"]


def to_frame(
    records: Iterable[object] | Evaluation | AlignResult | JudgmentFile | NextCases,
    *,
    library: Literal["pandas", "polars", "pyarrow"] = "pandas",
) -> Any:
    """A DataFrame (an Arrow table with `pyarrow`) of records: their fields are its columns, in their order.

    Records are judgments (`judge_many`, `read_judgments`), a ledger (`judge.memory.ledger()`, `registry.ledger`), the
    cases of an Evaluation, the rows of an AlignResult, next cases, Feedback, Examples, guidelines, or mappings. Usage
    is a column a figure, `seconds` the sum over phases; a key of feedback is its written form beside its `id` and
    `source`; objects, and lists of them, are JSON text.

    Raises ConfigurationError when the library is not installed, InputError for what has no fields.
    """
    if library not in ("pandas", "polars", "pyarrow"):
        raise InputError(f"library {library!r} makes no DataFrames here; use pandas, polars or pyarrow")
    rows = [dict(_fields(record)) for record in _records(records)]
    columns = {name: _column([row.get(name) for row in rows]) for name in dict.fromkeys(n for row in rows for n in row)}
    import narwhals as nw

    try:
        return nw.from_dict(columns, backend=library).to_native()
    except ImportError:
        raise ConfigurationError(f"a DataFrame of {library} needs {library}: pip install {library}") from None


def _column(cells: list[Any]) -> list[Any]:
    """The cells of a column in one type, which some libraries ask for."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if len(kinds) > 1:
        return [
            cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in cells
        ]
    return cells


def _records(records: Any) -> Iterable[object]:
    match records:
        case Evaluation() | NextCases():
            return records.cases
        case AlignResult():
            return records.rows
        case JudgmentFile():
            return [
                msgspec.structs.replace(judgment, id=example_id) for example_id, judgment in records.judgments.items()
            ]
        case _ if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
            raise InputError(f"records are a list of judgments or the like, not {type(records).__name__}")
        case _:
            return records


def _fields(record: object) -> Iterator[tuple[str, Any]]:
    match record:
        case LedgerEntry():
            yield "id", record.key.id
            yield "source", record.key.source
    for name, value in _named(record):
        if isinstance(value, Usage):
            yield from _usage(value)
        else:
            yield name, _cell(value)


def _named(record: object) -> Iterator[tuple[str, Any]]:
    if isinstance(record, msgspec.Struct):
        yield from ((name, getattr(record, name)) for name in record.__struct_fields__)
    elif dataclasses.is_dataclass(record) and not isinstance(record, type):
        yield from ((field.name, getattr(record, field.name)) for field in dataclasses.fields(record))
    elif isinstance(record, Mapping):
        yield from ((str(name), value) for name, value in record.items())
    else:
        raise InputError(f"a record has fields; {type(record).__name__} has none")
    if isinstance(correct := getattr(record, "correct", None), bool):
        yield "correct", correct


def _usage(usage: Usage) -> Iterator[tuple[str, Any]]:
    for name in ("calls", "input_tokens", "cached_tokens", "output_tokens", "cost"):
        yield name, getattr(usage, name)
    yield "seconds", sum(usage.seconds.values())


def _cell(value: object) -> object:
    """What a column holds: text, numbers, lists of text; anything deeper as JSON text."""
    if isinstance(value, FeedbackKey) or value is None or isinstance(value, str | bool | int | float):
        return str(value) if isinstance(value, FeedbackKey) else value
    plain = as_json(value)
    if isinstance(plain, list) and all(isinstance(part, str) for part in plain):
        return plain
    return json.dumps(plain, ensure_ascii=False)
