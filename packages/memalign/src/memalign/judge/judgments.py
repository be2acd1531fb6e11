"""Judgments as DataFrames: one row a judgment, one column a field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Generic, Literal, overload

from memalign.errors import InputError
from memalign.types import Judgment, as_json
from memalign.values import ValueT_co

__all__ = ["COLUMNS", "JudgmentList"]

COLUMNS = ("id", "value", "confidence", "rationale", "error")
"""What a frame of judgments shows unless more is asked for."""


class JudgmentList(Sequence[Judgment[ValueT_co]], Generic[ValueT_co]):
    """The judgments of a run, in the order of its items.

    Args:
        judgments: In this order.
        source: What was judged. `to_frame` returns a frame of its library, with the same index in pandas.
    """

    def __init__(self, judgments: Sequence[Judgment[ValueT_co]], source: object = None) -> None:
        package = type(source).__module__.partition(".")[0]
        self._judgments = judgments
        self._library: Any = package if package in ("polars", "pyarrow") else "pandas"
        self._index: Any = getattr(source, "index", None) if package == "pandas" else None

    def to_frame(self, columns: Sequence[str] | Literal["all"] = COLUMNS) -> Any:
        """Return the judgments as a DataFrame of pandas, or of the library of the frame that was judged.

        Args:
            columns: Fields of a judgment, and of its usage (`calls`, `input_tokens`, `cached_tokens`, `output_tokens`,
                `cost`, `seconds`), or "all".

        Returns:
            A DataFrame, or an Arrow table. Findings are JSON text, ids and notes lists of text.

        Raises:
            InputError: When a column is no field of a judgment.
        """
        import narwhals as nw

        fields = list(_cells(Judgment()))
        names = fields if columns == "all" else list(columns)
        if unknown := [name for name in names if name not in fields]:
            raise InputError(f"a judgment has no field {unknown[0]!r}; it has {', '.join(fields)}")
        rows = [_cells(judgment) for judgment in self]
        cells = {name: _alike([row[name] for row in rows]) for name in names}
        frame = nw.from_dict(cells, backend=self._library).to_native()
        if self._index is not None:
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of a list


def _cells(judgment: Judgment) -> dict[str, Any]:
    """The fields of a judgment and of its usage: text, numbers and lists of text; anything deeper is JSON text."""
    fields: dict[str, Any] = as_json(judgment)
    usage = fields.pop("usage")
    fields |= usage | {"seconds": sum(usage["seconds"].values())}
    return fields | {"findings": json.dumps(fields["findings"], ensure_ascii=False)}


def _alike(cells: list[Any]) -> list[Any]:
    """The cells of a column in one type, which some libraries ask for."""
    if {type(cell) for cell in cells if cell is not None} == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    return cells
