"""Judgments as DataFrames: one row a judgment, one column a field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from memalign.errors import InputError
from memalign.io.frames import is_frame
from memalign.types import Judgment, as_json, json_line
from memalign.values import Value

if TYPE_CHECKING:
    import narwhals as nw

__all__ = ["COLUMNS", "JudgmentList", "cells_of", "frame_like"]

ValueT = TypeVar("ValueT", bound=Value)

COLUMNS = ("id", "value", "confidence", "rationale", "error")
"""What a frame of judgments shows unless more is asked for."""


class JudgmentList(list[Judgment[ValueT]]):
    """The judgments of a run, in the order of its items.

    Args:
        judgments: In this order.
        source: What was judged. `to_frame` returns a frame of its library, with the same index in pandas.
    """

    def __init__(self, judgments: Iterable[Judgment[ValueT]], source: object = None) -> None:
        super().__init__(judgments)
        self._frame = source if is_frame(source) else None

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
        fields = list(cells_of(Judgment()))
        names = fields if columns == "all" else list(columns)
        if unknown := [name for name in names if name not in fields]:
            raise InputError(f"a judgment has no field {unknown[0]!r}; it has {', '.join(fields)}")
        return frame_like(self._frame, [cells_of(judgment) for judgment in self], names)


def cells_of(judgment: Judgment) -> dict[str, Any]:
    """The fields of a judgment and of its usage as any frame can hold them: text, numbers, lists of text.

    Findings are JSON text. A model may end its words in half a surrogate pair, which becomes a replacement character.
    """
    cells: dict[str, Any] = msgspec.json.decode(json_line(as_json(judgment)))
    usage: dict[str, Any] = cells.pop("usage")
    cells |= usage | {"seconds": sum(usage["seconds"].values(), 0.0)}
    return cells | {"findings": json_line(cells["findings"]).decode().strip()}


def frame_like(
    source: object, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | nw.Schema, places: Any = slice(None)
) -> Any:
    """A frame of the library of the frame `source`, of pandas where it is none.

    Of pandas it has the index of the `places` in `source` that the rows come from.
    """
    import narwhals as nw

    table = nw.from_native(source, eager_only=True, pass_through=True)
    library = table.implementation if isinstance(table, nw.DataFrame) else nw.Implementation.PANDAS
    cells = {name: [row[name] for row in rows] for name in columns}
    schema = columns if isinstance(columns, nw.Schema) else None
    if not library.is_pandas_like():
        return nw.from_dict(cells, schema, backend=library).to_native()
    frame = nw.from_dict(cells, backend=library).to_native()
    if schema is not None:  # types that have missing values: a boolean of numpy would read None as False
        frame = frame.astype(schema.to_pandas("numpy_nullable"))
    if isinstance(table, nw.DataFrame) and len(index := table.to_native().index[places]) == len(rows):
        frame.index = index.set_names([None] * index.nlevels)
    return frame
