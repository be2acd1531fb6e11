"""DataFrames, data sets and Parquet files as rows. No library of them is required."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Protocol

from memalign.content.json_values import whole_number
from memalign.content.normal import whole_text
from memalign.errors import ConfigurationError, InputError
from memalign.io.columns import Columns
from memalign.io.delimited import distinct_names
from memalign.io.rows import ReadRows, Row, reading

__all__ = [
    "Frame",
    "frame_rows",
    "is_frame",
    "is_table",
    "parquet_rows",
    "read_frame",
    "shown_id",
]

_PROTOCOLS = ("__narwhals_dataframe__", "__dataframe__", "__arrow_c_stream__")
_BATCH = 256  # rows of a Parquet file that are read at once


class Frame(Protocol):
    """A DataFrame or table of pandas, Polars, Arrow or another library with Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


def is_frame(value: object) -> bool:
    """Return whether it is a DataFrame or a table, by its protocols; nothing is imported."""
    if isinstance(value, str | Path | list | tuple | Mapping | Iterator):
        return False
    return any(hasattr(type(value), protocol) for protocol in _PROTOCOLS)


def is_table(value: object) -> bool:
    """Return whether it has columns: a frame, or a data set of Hugging Face."""
    if isinstance(value, Mapping):
        return False
    return is_frame(value) or getattr(value, "column_names", None) is not None


def frame_rows(frame: Any, columns: Columns) -> ReadRows:
    """Read the rows of a frame or data set, each with its position; a named index is a column too.

    Codes of a data set's classes are their names.

    Raises:
        InputError: Narwhals does not read the frame, two of its columns have the name of a field,
            or its library cannot read a row.
    """
    if not is_frame(frame):  # a data set, which gives its rows as mappings
        yield from _of_data_set(frame)
        return
    names = _class_names(getattr(getattr(frame, "schema", None), "metadata", None))
    table = read_frame(frame, columns)
    with _reading(frame):
        yield from _rows(table.iter_rows(named=True), names)


def read_frame(frame: Any, columns: Columns) -> Any:
    """Return a frame for Narwhals, with a named index as a column and distinct names of columns.

    Raises:
        InputError: It cannot be read as a frame, or two columns have the name of a field.
    """
    import narwhals as nw

    with _reading(frame):
        kind = type(frame).__name__
        if kind == "RecordBatch":
            import pyarrow as pa  # type: ignore[import, unused-ignore]

            frame = pa.Table.from_batches([frame])  # Narwhals takes whole tables
        if hasattr(frame, "reset_index"):
            frame = _with_index(frame)
        if hasattr(frame, "rename_columns") or hasattr(frame, "set_axis"):
            frame = _named_once(frame, kind, columns)
        return nw.from_native(frame, eager_only=True)


def _reading(frame: object) -> AbstractContextManager[None]:
    return reading(f"this {type(frame).__name__}", " as a DataFrame")


def _with_index(frame: Any) -> Any:
    """Return a pandas frame with its named index as a column.

    Raises:
        InputError: A column has the name of the index and differs from it.
    """
    named = [name for name in frame.index.names if name is not None]
    labels = list(frame.columns)
    for name in named:
        if name in labels and labels.count(name) == 1:
            if list(frame.index.get_level_values(name)) != list(frame[name]):
                raise InputError(
                    f"the DataFrame has an index and a column {name}, which differ; "
                    "rename one of them"
                )
            frame = frame.reset_index(name, drop=True)
    if all(name is None for name in frame.index.names):
        return frame
    return frame.reset_index()


def _named_once(frame: Any, kind: str, columns: Columns) -> Any:
    """Return a frame of Arrow or pandas with names that are texts, each once."""
    of_arrow = hasattr(frame, "rename_columns")
    labels = list(frame.column_names if of_arrow else frame.columns)
    written = [_label(label) for label in labels]
    names = distinct_names(f"the {kind}", written, columns)
    if names == labels:
        return frame
    if of_arrow:
        return frame.rename_columns(names)
    return frame.set_axis(names, axis=1)


def _label(label: object) -> str:
    """Return a column's name as text; of several levels those that say anything."""
    if isinstance(label, tuple):
        return ".".join(filter(None, map(str, label)))
    return str(label)


def parquet_rows(path: Path) -> ReadRows:
    """Read the rows of Parquet files; folders named `day=2026-01-01` are columns."""
    try:
        import pyarrow.dataset as ds  # type: ignore[import, unused-ignore]
    except ImportError:
        raise ConfigurationError(
            f"reading {path} needs pyarrow: pip install pyarrow"
        ) from None
    with reading(path, " as a Parquet file"):
        data = ds.dataset(
            path, format="parquet", partitioning="hive", exclude_invalid_files=False
        )
        names = data.schema.names
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            listed = ", ".join(twice)
            raise InputError(
                f"{path}: it has the column {listed} twice; give every column its own name"
            )
        batches = data.to_batches(
            batch_size=_BATCH,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )
        rows = (row for batch in batches for row in batch.to_pylist())
        yield from _rows(rows, _class_names(data.schema.metadata))


def _rows(
    rows: Iterable[Mapping[str, Any]], names: Mapping[str, Sequence[str]]
) -> Iterator[Row]:
    """Return mappings as rows, each with its position; codes of classes become their `names`."""
    no_class = {-1: None}
    codes: dict[str, dict[Any, str | None]] = {}
    for name, listed in names.items():
        codes[name] = no_class | dict(enumerate(listed))
    for position, written in enumerate(rows, 1):
        fields: dict[str, Any] = {}
        for column, value in written.items():
            name = whole_text(str(column))
            fields[name] = value
            classes = codes.get(name)
            if classes is not None:
                code = whole_number(value)
                fields[name] = classes.get(code, value)
        yield Row(line=position, fields=fields)


# -- data sets of Hugging Face ---------------------------------------------------------------------


def _of_data_set(data: Any) -> Iterator[Row]:
    """Read a data set's rows as plain values, pictures and sounds as the files that they are."""
    with reading(f"this {type(data).__name__}"):
        features = getattr(data, "features", None) or {}
        if hasattr(data, "with_format"):
            data = data.with_format(None)
        classes: dict[str, Sequence[str]] = {}
        for name, feature in features.items():
            if getattr(feature, "decode", None) is True:
                # A library for pictures is needed only to look at them.
                kind = type(feature)
                data = data.cast_column(name, kind(decode=False))
            names = getattr(feature, "names", None)
            if names:
                classes[name] = names
        yield from _rows(data, classes)


def _class_names(metadata: Any) -> dict[str, Sequence[str]]:
    """Return the names of classes by column, from an Arrow schema of Hugging Face."""
    found: dict[str, Sequence[str]] = {}
    with suppress(KeyError, ValueError, TypeError, AttributeError):
        schema = json.loads(metadata[b"huggingface"])
        features = schema["info"]["features"]
        for name, feature in features.items():
            if feature.get("_type") == "ClassLabel":
                found[name] = feature["names"]
    return found


def shown_id(fields: Mapping[str, Any]) -> str | None:
    """Return the row's id, where it has one as text or as a number."""
    name = whole_number(fields.get("id"))
    if not isinstance(name, str | int):
        return None
    return str(name).strip() or None
