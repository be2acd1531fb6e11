"""Judgments as frames, and a frame of rows in, a frame of verdicts out, of one schema.

A row is known again by its id and the hash of its content, and its verdict by these and the judge.
So any part of the work may be lost and done again, and what is done is never paid for twice.
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
from memalign.judge.many import judge_examples
from memalign.judge.task import Task
from memalign.memory import Memory
from memalign.models.calls import Calls
from memalign.notebook import html_view
from memalign.types import CONTENT_FIELDS, Example, Judgment, Usage, as_json, json_line
from memalign.values import Value, ValueType, dollars, value_text

if TYPE_CHECKING:
    import narwhals as nw

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

COLUMNS = ("id", "value", "confidence", "rationale", "error")
"""What a frame of judgments shows unless more is asked for."""

_VERDICT = (
    "id",
    "value",
    "probability",
    "findings",
    "rationale",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "cost",
    "error",
    "answered_by",
    "judge",
    "content_hash",
)
"""The columns of what `predict_batch` gives."""

_SHOWN = 10
"""Judgments in a terminal or a notebook."""
_COUNTED = 6
"""Different verdicts that are counted one by one."""


class JudgmentList(list[Judgment[ValueT]]):
    """The judgments of a run, in the order of its items.

    Args:
        judgments: In this order.
        source: What was judged. `to_frame` returns a frame of its library, in pandas with the same
            index.
    """

    def __init__(
        self, judgments: Iterable[Judgment[ValueT]], source: object = None
    ) -> None:
        super().__init__(judgments)
        self._frame = source if is_frame(source) else None
        # As it was judged: a frame may be sorted in place.
        self._index = getattr(self._frame, "index", None)

    def to_frame(self, columns: Sequence[str] | Literal["all"] = COLUMNS) -> Any:
        """Return the judgments as a DataFrame of pandas, or of the library of the judged frame.

        Args:
            columns: Fields of a judgment, and of its usage (`calls`, `input_tokens`,
                `cached_tokens`, `output_tokens`, `cost`, `seconds`), or "all".

        Returns:
            A DataFrame, or an Arrow table. Findings are JSON text, ids and notes lists of text.

        Raises:
            InputError: A column is no field of a judgment.
        """
        fields = list(_cells_of(Judgment()))
        names = fields if columns == "all" else list(columns)
        for name in names:
            if name not in fields:
                raise InputError(
                    f"a judgment has no field {name!r}; it has {', '.join(fields)}"
                )
        rows = [_cells_of(judgment) for judgment in self]
        return _frame_like(self._frame, rows, names, self._index)

    @property
    def usage(self) -> Usage:
        """The calls, tokens and cost of all judgments together."""
        return sum((judgment.usage for judgment in self), Usage())

    def __repr__(self) -> str:
        """Count the verdicts, and show the first judgments one below the other."""
        return "\n".join([self._summary(), *map(repr, self[:_SHOWN]), *self._rest()])

    def _repr_html_(self) -> str:
        rows = [
            (one.id, one.error or one.value, one.rationale) for one in self[:_SHOWN]
        ]
        return html_view(
            [self._summary(), *self._rest()], ("id", "value", "rationale"), rows
        )

    def _summary(self) -> str:
        verdicts = (
            "without a verdict" if one.value is None else value_text(one.value)
            for one in self
        )
        counts = Counter(verdicts).most_common()
        parts = [f"{count:,} {value}" for value, count in counts]
        if len(counts) > _COUNTED:
            parts = [f"{len(counts):,} different verdicts"]
        usage = self.usage
        parts.append(f"{usage.calls:,} calls")
        parts.append("cost unknown" if usage.cost is None else dollars(usage.cost))
        return f"{len(self):,} judgments: {', '.join(parts)}"

    def _rest(self) -> list[str]:
        more = len(self) - _SHOWN
        return [f"… and {more:,} more"] if more > 0 else []


# -- rows in, verdicts out -----------------------------------------------------------------------


async def predict_batch(
    task: Task,
    memory: Memory,
    frame: FrameT,
    *,
    columns: Mapping[str, str],
    done: Frame | Collection[tuple[str, str]],
    concurrency: int | None,
    max_cost: float | Calls | None,
) -> FrameT:
    """Return the verdict on every row of a frame; see `Judge.apredict_batch`."""
    if not is_frame(frame):
        given = f"not {type(frame).__name__}"
        raise InputError(
            f"predict_batch takes a DataFrame or a table, {given}; for other rows see judge_many"
        )
    signature = task.signature(memory)
    earlier = keys_of(done, signature)
    places: list[int] = []
    items: list[Example | Judgment] = []
    for place, item in enumerate(_items(task, frame, columns)):
        if isinstance(item, Judgment) or (item.id, item.content_hash) not in earlier:
            places.append(place)
            items.append(item)
    examples = {item.id: item for item in items if isinstance(item, Example)}
    judgments = await judge_examples(
        task,
        memory,
        list(examples.values()),
        columns=columns,
        concurrency=concurrency,
        max_cost=max_cost,
    )
    judged = {judgment.id: judgment for judgment in judgments}
    rows = []
    for item in items:
        judgment = judged[item.id] if isinstance(item, Example) else item
        row = _cells_of(judgment)
        row["id"] = row["id"] or None
        row["probability"] = row["confidence"]
        row["judge"] = signature
        row["content_hash"] = None
        if isinstance(item, Example):
            row["content_hash"] = item.content_hash
            # A copy of the row costs nothing.
            judged[item.id] = msgspec.structs.replace(judgment, usage=Usage())
        rows.append(row)
    schema = verdict_schema(task.value_type)
    index = getattr(frame, "index", None)
    verdicts: FrameT = _frame_like(
        frame, rows, schema, None if index is None else index[places]
    )
    return verdicts


def verdict_schema(value_type: ValueType) -> nw.Schema:
    """Return the columns of what `predict_batch` gives, with their types."""
    import narwhals as nw

    kinds = {"bool": nw.Boolean, "int": nw.Int64, "float": nw.Float64}
    schema: dict[str, Any] = {name: nw.String() for name in _VERDICT}
    schema["value"] = kinds.get(value_type.kind, nw.String)()
    for name in ("probability", "cost"):
        schema[name] = nw.Float64()
    for name in ("input_tokens", "cached_tokens", "output_tokens"):
        schema[name] = nw.Int64()
    return nw.Schema(schema)


def keys_of(
    done: Frame | Collection[tuple[str, str]], signature: str
) -> Collection[tuple[str, str]]:
    """Return the ids and content hashes that a judge has answered.

    Args:
        done: A frame that `predict_batch` gave, some of its rows, or the pairs themselves.
        signature: Whose verdicts of a frame count.

    Raises:
        InputError: It is neither.
    """
    if not is_frame(done):
        keys = frozenset(done)  # type: ignore[arg-type]  # a collection of keys
        if not all(isinstance(key, tuple) for key in keys):
            fault = "done is a frame that predict_batch gave, or pairs of an id and a content hash"
            raise InputError(fault)
        return keys
    import narwhals as nw

    table: nw.DataFrame[Any] = nw.from_native(done, eager_only=True)
    for name in ("id", "content_hash", "judge", "error"):
        if name not in table.columns:
            form = "it is a frame that predict_batch gave, or some of its rows"
            raise InputError(f"done has no column {name}; {form}")
    own = nw.col("judge") == signature
    answered = nw.col("error").is_null()
    rows = table.filter(own & answered)
    return set(rows.select("id", "content_hash").rows())


def content_hashes(
    task: Task, frame: Frame, *, columns: Mapping[str, str]
) -> list[str | None]:
    """Return the hash of each row's content, as verdicts have it, or None for an unreadable row.

    Args:
        task: What is read of a row.
        frame: The rows.
        columns: Which column a field is read from if it has another name.
    """
    items = _items(task, frame, columns)
    return [item.content_hash if isinstance(item, Example) else None for item in items]


def _items(
    task: Task, frame: Any, renamed: Mapping[str, str]
) -> Iterator[Example | Judgment]:
    """Yield what is judged of each row, in order, or the judgment that says why nothing is."""
    seen: dict[str, tuple[int, str]] = {}
    for position, row in enumerate(_rows(frame, renamed), 1):
        try:
            example = _example(row, position, seen)
            check_fields(example, task.parts)
            yield example
        except InputError as error:
            name = row.id if isinstance(row, RowError) else shown_id(row.fields)
            yield Judgment(id=(name or "").strip(), error=f"InputError: {error}")


def _rows(frame: Any, renamed: Mapping[str, str]) -> Iterable[Row | RowError]:
    """Return the rows of a frame with nothing but an id and fields of content."""
    import narwhals as nw

    known = Columns(renamed)
    table = read_frame(frame, known)
    named = known.renamed(known.spelled({name: name for name in table.columns}))
    wanted = ("id", *CONTENT_FIELDS)
    columns = {field: named[field] for field in wanted if field in named}
    if not columns.keys() & set(CONTENT_FIELDS):
        names = list(map(str, table.columns))
        raise unmapped("the frame", ("inputs", "outputs"), names, renamed)
    if len(table) == 0:
        return ()
    content = table.select(nw.col(name).alias(field) for field, name in columns.items())
    return RowSource.of(content.to_native(), name="the frame").rows()


def _example(
    row: Row | RowError, position: int, seen: dict[str, tuple[int, str]]
) -> Example:
    """Return a row as an example.

    Args:
        row: The row.
        position: Its number.
        seen: The row and the content of each id so far, which this one is added to.

    Raises:
        InputError: It cannot be read, or has another content than an earlier row of its id.
    """
    if isinstance(row, RowError):
        raise InputError(row.reason)
    example = example_of(row)
    if example is None:
        raise InputError(f"no content: one of {', '.join(CONTENT_FIELDS)} is required")
    place, content_hash = seen.setdefault(example.id, (position, example.content_hash))
    if content_hash != example.content_hash:
        raise InputError(
            f"its content differs from that of row {place}, which has the same id"
        )
    return example


# -- cells ---------------------------------------------------------------------------------------


def _cells_of(judgment: Judgment) -> dict[str, Any]:
    """Return the fields of a judgment and of its usage as any frame can hold them.

    These are text, numbers and lists of text; findings are JSON text. A model may end its words in
    half a surrogate pair, which becomes a replacement character.
    """
    cells: dict[str, Any] = as_json(
        msgspec.json.decode(json_line(judgment), type=Judgment)
    )
    usage: dict[str, Any] = cells.pop("usage")
    cells |= usage
    cells["seconds"] = sum(usage["seconds"].values(), 0.0)
    cells["findings"] = json_line(cells["findings"]).decode().strip()
    return cells


def _frame_like(
    source: object,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | nw.Schema,
    index: Any,
) -> Any:
    """Make a frame of the library of another frame, or of pandas.

    Args:
        source: The other frame.
        rows: The cells of each row, by column.
        columns: Which columns, or their types.
        index: What a pandas frame gets as its index, if it has one entry for each row.
    """
    import narwhals as nw

    table = nw.from_native(source, eager_only=True, pass_through=True)
    library = (
        table.implementation
        if isinstance(table, nw.DataFrame)
        else nw.Implementation.PANDAS
    )
    cells = {name: [row[name] for row in rows] for name in columns}
    schema = columns if isinstance(columns, nw.Schema) else None
    if not library.is_pandas_like():
        return nw.from_dict(cells, schema, backend=library).to_native()
    frame = nw.from_dict(cells, backend=library).to_native()
    if schema is not None:
        # Types that have missing values: a boolean of numpy would read None as False.
        frame = frame.astype(schema.to_pandas("numpy_nullable"))
    if index is not None and len(index) == len(rows):
        frame.index = index.set_names([None] * index.nlevels)
    return frame
