"""A frame of rows in, a frame of verdicts out, of one schema: what every engine that judges at scale calls.

A row is known again by its id and the hash of its content, and its verdict by these and the judge. So any part of the
work may be lost and done again, and what is done is never paid for twice.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memalign.errors import InputError, RowError
from memalign.io import Frame, RowSource
from memalign.io.examples import example_of
from memalign.io.frames import is_frame
from memalign.judge.many import judge_many, signature_of
from memalign.models.calls import Calls
from memalign.types import CONTENT_FIELDS, Example, Judgment, Usage, as_json, json_line

if TYPE_CHECKING:
    import narwhals as nw

    from memalign.judge.judge import Judge

__all__ = ["FrameT", "keys_of", "predict_batch", "verdict_schema"]

FrameT = TypeVar("FrameT", bound=Frame)

_KINDS = {"bool": "Boolean", "int": "Int64", "float": "Float64"}
_NUMBERS = ("input_tokens", "cached_tokens", "output_tokens")


class _Row(NamedTuple):
    """A row: its id where it has one, and either what is judged or why it cannot be."""

    id: str | None
    example: Example | None
    fault: str = ""
    again: bool = False  # an earlier row has the same id and content


async def predict_batch(
    judge: Judge,
    frame: FrameT,
    done: Frame | Collection[tuple[str, str]],
    concurrency: int | None,
    max_cost: float | Calls | None,
) -> FrameT:
    """See `Judge.apredict_batch`."""
    import narwhals as nw

    if not is_frame(frame):
        raise InputError(f"predict_batch takes a DataFrame or a table, not {type(frame).__name__}; see judge_many")
    try:
        table: nw.DataFrame[Any] = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(f"{type(frame).__name__} is no DataFrame that can be read: {error}") from None
    signature = signature_of(judge)
    earlier = keys_of(done, signature)
    rows = [
        (place, row)
        for place, row in enumerate(_rows(judge, table))
        if row.example is None or (row.example.id, row.example.content_hash) not in earlier
    ]
    examples = [row.example for _, row in rows if row.example is not None and not row.again]
    judgments = await judge_many(judge, examples, concurrency, max_cost) if examples else ()
    by_id = {example.id: judgment for example, judgment in zip(examples, judgments, strict=True)}
    cells = [_cells(row, by_id, signature) for _, row in rows]
    made: FrameT = _like(table, cells, verdict_schema(judge), [place for place, _ in rows])
    return made


def verdict_schema(judge: Judge) -> nw.Schema:
    """The columns of what `predict_batch` gives, with their types."""
    import narwhals as nw

    value = getattr(nw, _KINDS.get(judge.value_type.kind, "String"))
    kinds = {"value": value, "probability": nw.Float64, "cost": nw.Float64, **dict.fromkeys(_NUMBERS, nw.Int64)}
    names = ("id", "value", "probability", "findings", "rationale", *_NUMBERS, "cost", "error", "judge", "content_hash")
    return nw.Schema({name: kinds.get(name, nw.String)() for name in names})


def keys_of(done: Frame | Collection[tuple[str, str]], signature: str) -> Collection[tuple[str, str]]:
    """The ids and content hashes that this judge has answered."""
    if not is_frame(done):
        keys = frozenset(done)  # type: ignore[arg-type]  # a collection of keys
        if not all(isinstance(key, tuple) for key in keys):
            raise InputError("done is a frame that predict_batch gave, or pairs of an id and a content hash")
        return keys
    import narwhals as nw

    table: nw.DataFrame[Any] = nw.from_native(done, eager_only=True)
    if missing := [name for name in ("id", "content_hash", "judge", "error") if name not in table.columns]:
        raise InputError(f"done has no column {missing[0]}; it is a frame that predict_batch gave, or some of its rows")
    rows = table.filter((nw.col("judge") == signature) & nw.col("error").is_null())
    return set(zip(rows["id"].to_list(), rows["content_hash"].to_list(), strict=True))


def _rows(judge: Judge, table: nw.DataFrame[Any]) -> Iterator[_Row]:
    """What each row asks, in order."""
    import narwhals as nw

    names = {field: judge.columns.get(field, field) for field in ("id", *CONTENT_FIELDS)}
    native = table.to_native()
    if getattr(getattr(native, "index", None), "name", None) is not None:
        table = nw.from_native(native.reset_index(), eager_only=True)
    columns = {field: name for field, name in names.items() if name in table.columns}
    if not columns.keys() & set(CONTENT_FIELDS):
        wanted = ", ".join(names[field] for field in CONTENT_FIELDS)
        present = ", ".join(map(str, table.columns))[:300]
        hint = "Judge(columns={'outputs': 'answer'}) says which column a field is"
        raise InputError(f"the frame has no column of content: {wanted}; its columns: {present}; {hint}")
    if not len(table):
        return
    ids = table[columns["id"]].to_list() if "id" in columns else [None] * len(table)
    content = table.select(list(columns.values())).to_native()
    source = RowSource.of(content, name="the frame", remembered=judge.columns)
    first: dict[str, tuple[int, str]] = {}
    for position, (name, fields) in enumerate(zip(ids, source.rows(), strict=True), 1):
        row = _row(name, fields)
        if (example := row.example) is not None:
            place, seen = first.setdefault(example.id, (position, example.content_hash))
            row = row._replace(again=place < position)
            if seen != example.content_hash:
                row = _Row(row.id, None, f"its content differs from that of row {place}, which has the same id")
        yield row


def _row(name: object, row: Any) -> _Row:
    """A row as an example; where it is none, by the `name` in its column of ids."""
    own = str(name).strip() or None if isinstance(name, str | int) and not isinstance(name, bool) else None
    if isinstance(row, RowError):
        return _Row(own, None, row.reason)
    try:
        if (example := example_of(row.fields)) is None:
            return _Row(own, None, f"no content: one of {', '.join(CONTENT_FIELDS)} is required")
        _ = example.content_hash  # raises InputError for what is no JSON value
    except InputError as error:
        return _Row(own, None, str(error))
    return _Row(example.id, example)


def _cells(row: _Row, judgments: Mapping[str, Judgment], signature: str) -> dict[str, Any]:
    """The cells of one row by their columns."""
    judgment = Judgment(error=f"InputError: {row.fault}") if row.example is None else judgments[row.example.id]
    usage = Usage() if row.again else judgment.usage
    return {
        "id": _text(row.id),
        "value": _text(judgment.value) if isinstance(judgment.value, str) else judgment.value,
        "probability": judgment.confidence,
        "findings": None if judgment.error else json_line(as_json(judgment.findings)).decode().strip(),
        "rationale": _text(judgment.rationale),
        **{name: getattr(usage, name) for name in _NUMBERS},
        "cost": usage.cost,
        "error": _text(judgment.error),
        "judge": signature,
        "content_hash": None if row.example is None else row.example.content_hash,
    }


def _text(text: str | None) -> str | None:
    """Text that a frame can hold: a model may end its words in half a surrogate pair."""
    return text if text is None else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _like(table: nw.DataFrame[Any], cells: list[dict[str, Any]], schema: nw.Schema, places: list[int]) -> Any:
    """A frame of the library of `table`, and of pandas with the index of the rows that are left."""
    import narwhals as nw

    library, columns = table.implementation, {name: [row[name] for row in cells] for name in schema}
    if not library.is_pandas_like():
        return nw.from_dict(columns, schema, backend=library).to_native()
    # Types of pandas' own that have missing values: a boolean of numpy would read None as False.
    made = nw.from_dict(columns, backend=library).to_native().astype(schema.to_pandas("numpy_nullable"))
    index = table.to_native().index[places]
    made.index = index.set_names([None] * index.nlevels)
    return made
