"""Judgments and other results as DataFrames: one row a record, one column a field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, overload

from memalign.errors import ConfigurationError, InputError
from memalign.types import FeedbackKey, Judgment, Usage, as_json
from memalign.values import ValueT_co

__all__ = ["COLUMNS", "JudgmentList", "Library", "to_frame"]

Library = Literal["pandas", "polars", "pyarrow"]

COLUMNS = ("id", "value", "confidence", "rationale", "error")
"""What a frame of judgments shows unless more is asked for."""
_LIBRARIES: tuple[Library, ...] = ("pandas", "polars", "pyarrow")


class JudgmentList(Sequence[Judgment[ValueT_co]], Generic[ValueT_co]):
    """The judgments of a run, in the order of its items.

    Args:
        judgments: A list, or what reads each from a file when it is asked for.
        source: What was judged. If it is a frame, so is what `to_frame` returns, with the same index in pandas.
    """

    def __init__(self, judgments: Sequence[Judgment[ValueT_co]], source: object = None) -> None:
        package = type(source).__module__.partition(".")[0]
        self._judgments = judgments
        self._library: Library = next((library for library in _LIBRARIES if library == package), "pandas")
        self._index: Any = getattr(source, "index", None) if package == "pandas" else None

    def to_frame(self, columns: Sequence[str] | Literal["all"] = COLUMNS, *, library: Library | None = None) -> Any:
        """Return the judgments as a DataFrame, in the order of the items.

        Args:
            columns: Fields of a judgment, and of its usage (`calls`, `input_tokens`, `cached_tokens`, `output_tokens`,
                `cost`, `seconds`), or "all".
            library: "pandas", "polars" or "pyarrow". None: the library of the frame that was judged, else pandas.

        Returns:
            A DataFrame, or an Arrow table. Findings are JSON text, ids and notes lists of text.

        Raises:
            InputError: When a column is no field of a judgment.
            ConfigurationError: When the library is not installed.
        """
        fields = list(_cells(Judgment()))
        names = fields if columns == "all" else list(columns)
        if unknown := [name for name in names if name not in fields]:
            raise InputError(f"a judgment has no field {unknown[0]!r}; it has {', '.join(fields)}")
        frame = _frame([_cells(judgment) for judgment in self], library or self._library, names)
        if self._index is not None and library in (None, "pandas"):
            frame.index = self._index.set_names([None] * self._index.nlevels)
        return frame

    @overload
    def __getitem__(self, index: int) -> Judgment[ValueT_co]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Judgment[ValueT_co]]: ...
    def __getitem__(self, index: int | slice) -> Judgment[ValueT_co] | Sequence[Judgment[ValueT_co]]:
        return self._judgments[index]

    def __len__(self) -> int:
        return len(self._judgments)

    def __iter__(self) -> Iterator[Judgment[ValueT_co]]:
        return iter(self._judgments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list


def to_frame(records: Any, *, library: Library = "pandas") -> Any:
    """Return records as a DataFrame: their fields are its columns, in their order.

    Args:
        records: Judgments, a ledger (`judge.memory.ledger()`), an Evaluation or next cases (their cases), an
            AlignResult (its rows), Feedback, Examples, guidelines, or mappings.
        library: "pandas", "polars" or "pyarrow".

    Returns:
        A DataFrame, or an Arrow table. Usage is one column a figure, `seconds` the sum over phases; a key of feedback
        is its written form beside its `id` and `source`; objects, and lists of them, are JSON text.

    Raises:
        ConfigurationError: When the library is not installed.
        InputError: When something has no fields.
    """
    rows = getattr(records, "cases", getattr(records, "rows", records))
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise InputError(f"records are a list of judgments or the like, not {type(rows).__name__}")
    return _frame([_cells(record) for record in rows], library)


def _cells(record: object) -> dict[str, Any]:
    """A record's fields as `to_frame` has them."""
    fields = as_json(record)
    if not isinstance(fields, dict):
        raise InputError(f"a record has fields; {type(record).__name__} has none")
    key = getattr(record, "key", None)
    cells: dict[str, Any] = {"id": key.id, "source": key.source} if isinstance(key, FeedbackKey) else {}
    for name, value in fields.items():
        if isinstance(getattr(record, name, None), Usage):
            cells |= value | {"seconds": sum(value["seconds"].values())}
        elif isinstance(value, dict) or (isinstance(value, list) and not all(isinstance(part, str) for part in value)):
            cells[str(name)] = json.dumps(value, ensure_ascii=False)
        else:
            cells[str(name)] = value
    if isinstance(correct := getattr(record, "correct", None), bool):
        cells["correct"] = correct
    return cells


def _frame(rows: Sequence[dict[str, Any]], library: Library, columns: Sequence[str] = ()) -> Any:
    """Rows as a frame of a library, with all of their columns unless some are named."""
    if library not in _LIBRARIES:
        raise InputError(f"library {library!r} makes no DataFrames here; use pandas, polars or pyarrow")
    import narwhals as nw

    names = columns or list(dict.fromkeys(name for row in rows for name in row))
    try:
        cells = {name: _alike([row.get(name) for row in rows]) for name in names}
        return nw.from_dict(cells, backend=library).to_native()
    except ImportError:
        raise ConfigurationError(f"a DataFrame of {library} needs {library}: pip install {library}") from None


def _alike(cells: list[Any]) -> list[Any]:
    """The cells of a column in one type, which some libraries ask for."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if len(kinds) < 2:
        return cells
    return [cell if cell is None or isinstance(cell, str) else json.dumps(cell, ensure_ascii=False) for cell in cells]
