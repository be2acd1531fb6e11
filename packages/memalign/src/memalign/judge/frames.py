"""Judgments as frames, and `predict_batch`: a frame of rows in, a frame of verdicts out, of one schema.

A row is known again by its id and the hash of its content, and its verdict by these and the judge. So any part of the
work may be lost and done again, and what is done is never paid for twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from memalign.content import check_fields
from memalign.errors import InputError, RowError
from memalign.io import Frame, RowSource
from memalign.io.columns import Columns, unmapped
from memalign.io.examples import example_of
from memalign.io.frames import is_frame, read_frame, shown_id
from memalign.io.rows import Row
from memalign.judge.many import signature_of
from memalign.judge.spec import named_parts
from memalign.models.calls import Calls
from memalign.notebook import html_view
from memalign.types import CONTENT_FIELDS, Example, Judgment, Usage, as_json, json_line
from memalign.values import Value, dollars, value_text

if TYPE_CHECKING:
    import narwhals as nw

    from memalign.judge.judge import Judge

__all__ = [
    "COLUMNS",
    "FrameT",
    "JudgmentList",
    "content_hashes",
    "keys_of",
    "predict_batch",
    "verdict_schema",
]

FrameT = TypeVar("FrameT", bound=Frame)
ValueT = TypeVar("ValueT", bound=Value)

_KINDS = {"bool": "Boolean", "int": "Int64", "float": "Float64"}
_NUMBERS = ("input_tokens", "cached_tokens", "output_tokens")

COLUMNS = ("id", "value", "confidence", "rationale", "error")
"""What a frame of judgments shows unless more is asked for."""

_SHOWN = 10  # judgments in a terminal or a notebook
_KINDS_NAMED = 6  # different verdicts


class JudgmentList(list[Judgment[ValueT]]):
    """The judgments of a run, in the order of its items.

    Args:
        judgments: In this order.
        source: What was judged. `to_frame` returns a frame of its library, with the same index in pandas.
    """

    def __init__(self, judgments: Iterable[Judgment[ValueT]], source: object = None) -> None:
        super().__init__(judgments)
        self._frame = source if is_frame(source) else None
        self._index = getattr(
            self._frame, "index", None
        )  # as it was judged: a frame may be sorted in place

    @property
    def usage(self) -> Usage:
        """The calls, tokens and cost of all judgments together."""
        return sum((judgment.usage for judgment in self), Usage())

    def __repr__(self) -> str:
        """The verdicts counted, and the first judgments one below the other."""
        return "\n".join([self._summary(), *map(repr, self[:_SHOWN]), *self._rest()])

    def _repr_html_(self) -> str:
        rows = [(one.id, one.error or one.value, one.rationale) for one in self[:_SHOWN]]
        return html_view([self._summary(), *self._rest()], ("id", "value", "rationale"), rows)

    def _summary(self) -> str:
        counts = Counter(
            "without a verdict" if one.value is None else value_text(one.value) for one in self
        )
        named = [f"{count:,} {value}" for value, count in counts.most_common()]
        if len(named) > _KINDS_NAMED:
            named = [f"{len(named):,} different verdicts"]
        usage = self.usage
        cost = "cost unknown" if usage.cost is None else dollars(usage.cost)
        return f"{len(self):,} judgments: {', '.join([*named, f'{usage.calls:,} calls', cost])}"

    def _rest(self) -> list[str]:
        more = len(self) - _SHOWN
        return [f"… and {more:,} more"] if more > 0 else []

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
        fields = list(_cells_of(Judgment()))
        names = fields if columns == "all" else list(columns)
        if unknown := [name for name in names if name not in fields]:
            raise InputError(f"a judgment has no field {unknown[0]!r}; it has {', '.join(fields)}")
        return _frame_like(
            self._frame, [_cells_of(judgment) for judgment in self], names, self._index
        )


async def predict_batch(
    judge: Judge,
    frame: FrameT,
    done: Frame | Collection[tuple[str, str]],
    concurrency: int | None,
    max_cost: float | Calls | None,
) -> FrameT:
    """See `Judge.apredict_batch`."""
    import narwhals as nw

    try:
        table: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        what = f"a DataFrame or a table, not {type(frame).__name__}"
        raise InputError(
            f"predict_batch takes {what} ({error}); for other rows see judge_many"
        ) from None
    signature = signature_of(judge)
    earlier = keys_of(done, signature)
    items = {
        place: item
        for place, item in enumerate(_items(judge, frame))
        if isinstance(item, Judgment) or (item.id, item.content_hash) not in earlier
    }
    examples = {item.id: item for item in items.values() if isinstance(item, Example)}
    judgments = await judge.ajudge_many(
        [*examples.values()], concurrency=concurrency, max_cost=max_cost
    )
    judged = {judgment.id: judgment for judgment in judgments}
    rows = []
    for item in items.values():
        judgment = item if isinstance(item, Judgment) else judged[item.id]
        cells = _cells_of(judgment)
        cells |= {"id": cells["id"] or None, "probability": cells["confidence"]}
        cells |= {"judge": signature, "content_hash": None}
        if isinstance(item, Example):
            cells["content_hash"] = item.content_hash
            judged[item.id] = msgspec.structs.replace(
                judgment, usage=Usage()
            )  # a copy of the row costs nothing
        rows.append(cells)
    index = getattr(table.to_native(), "index", None)
    made: FrameT = _frame_like(
        frame, rows, verdict_schema(judge), None if index is None else index[[*items]]
    )
    return made


def verdict_schema(judge: Judge) -> nw.Schema:
    """The columns of what `predict_batch` gives, with their types."""
    import narwhals as nw

    value = getattr(nw, _KINDS.get(judge.value_type.kind, "String"))
    kinds = {
        "value": value,
        "probability": nw.Float64,
        "cost": nw.Float64,
        **dict.fromkeys(_NUMBERS, nw.Int64),
    }
    names = ["id", "value", "probability", "findings", "rationale", *_NUMBERS, "cost", "error"]
    names += ["answered_by", "judge", "content_hash"]
    return nw.Schema({name: kinds.get(name, nw.String)() for name in names})


def keys_of(
    done: Frame | Collection[tuple[str, str]], signature: str
) -> Collection[tuple[str, str]]:
    """The ids and content hashes that this judge has answered."""
    if not is_frame(done):
        keys = frozenset(done)  # type: ignore[arg-type]  # a collection of keys
        if not all(isinstance(key, tuple) for key in keys):
            raise InputError(
                "done is a frame that predict_batch gave, or pairs of an id and a content hash"
            )
        return keys
    import narwhals as nw

    table: nw.DataFrame[Any] = nw.from_native(done, eager_only=True)
    if missing := [
        name for name in ("id", "content_hash", "judge", "error") if name not in table.columns
    ]:
        raise InputError(
            f"done has no column {missing[0]}; it is a frame that predict_batch gave, or some of its rows"
        )
    rows = table.filter((nw.col("judge") == signature) & nw.col("error").is_null())
    return set(zip(rows["id"].to_list(), rows["content_hash"].to_list(), strict=True))


def content_hashes(judge: Judge, frame: Frame) -> list[str | None]:
    """Return the hash of what each row of a frame holds, as verdicts have it; None for a row that cannot be read."""
    return [
        item.content_hash if isinstance(item, Example) else None for item in _items(judge, frame)
    ]


def _items(judge: Judge, frame: Any) -> Iterator[Example | Judgment]:
    """Return what is judged of each row, in order, or the judgment that says why nothing is."""
    import narwhals as nw

    table = read_frame(frame, Columns(judge.columns))
    names = {field: judge.columns.get(field, field) for field in ("id", *CONTENT_FIELDS)}
    columns = {field: name for field, name in names.items() if name in table.columns}
    if not columns.keys() & set(CONTENT_FIELDS):
        raise unmapped(
            "the frame", ("inputs", "outputs"), [*map(str, table.columns)], judge.columns
        )
    content = table.select(nw.col(name).alias(field) for field, name in columns.items()).to_native()
    first: dict[str, tuple[int, str]] = {}
    parts = named_parts(judge.instructions)
    for position, row in enumerate(
        RowSource.of(content, name="the frame").rows() if len(table) else (), 1
    ):
        try:
            example = _example(row, position, first)
            check_fields(example, parts)
            yield example
        except InputError as error:
            name = row.id if isinstance(row, RowError) else shown_id(row.fields)
            yield Judgment(id=(name or "").strip(), error=f"InputError: {error}")


def _example(row: Row | RowError, position: int, first: dict[str, tuple[int, str]]) -> Example:
    """Return a row as an example; `first` has the row and the content of each id so far. Raises InputError."""
    if isinstance(row, RowError):
        raise InputError(row.reason)
    if (example := example_of(row)) is None:
        raise InputError(f"no content: one of {', '.join(CONTENT_FIELDS)} is required")
    place, content_hash = first.setdefault(example.id, (position, example.content_hash))
    if content_hash != example.content_hash:
        raise InputError(f"its content differs from that of row {place}, which has the same id")
    return example


def _cells_of(judgment: Judgment) -> dict[str, Any]:
    """The fields of a judgment and of its usage as any frame can hold them: text, numbers, lists of text.

    Findings are JSON text. A model may end its words in half a surrogate pair, which becomes a replacement character.
    """
    cells: dict[str, Any] = as_json(msgspec.json.decode(json_line(judgment), type=Judgment))
    usage: dict[str, Any] = cells.pop("usage")
    cells |= usage | {"seconds": sum(usage["seconds"].values(), 0.0)}
    return cells | {"findings": json_line(cells["findings"]).decode().strip()}


def _frame_like(
    source: object,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | nw.Schema,
    index: Any,
) -> Any:
    """A frame of the library of `source`, else of pandas; of pandas with this `index`, if it has one for each row."""
    import narwhals as nw

    table = nw.from_native(source, eager_only=True, pass_through=True)
    library = table.implementation if isinstance(table, nw.DataFrame) else nw.Implementation.PANDAS
    cells = {name: [row[name] for row in rows] for name in columns}
    schema = columns if isinstance(columns, nw.Schema) else None
    if not library.is_pandas_like():
        return nw.from_dict(cells, schema, backend=library).to_native()
    frame = nw.from_dict(cells, backend=library).to_native()
    if (
        schema is not None
    ):  # types that have missing values: a boolean of numpy would read None as False
        frame = frame.astype(schema.to_pandas("numpy_nullable"))
    if index is not None and len(index) == len(rows):
        frame.index = index.set_names([None] * index.nlevels)
    return frame
