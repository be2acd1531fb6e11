"""DataFrames, data sets and Parquet files as rows, their values as JSON has them. No library of them is required."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from memalign.errors import ConfigurationError, InputError, RowError
from memalign.io.columns import Columns
from memalign.io.delimited import distinct_names
from memalign.io.rows import Row
from memalign.json_values import plain_text

__all__ = ["Frame", "column_names", "frame_rows", "is_frame", "parquet_rows", "read_frame", "shown_id"]

_PROTOCOLS = ("__narwhals_dataframe__", "__dataframe__", "__arrow_c_stream__")
_BATCH = 256  # rows of a Parquet file that are read at once


class Frame(Protocol):
    """A DataFrame or table of pandas, Polars, Arrow or another library that has Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


def is_frame(value: object) -> bool:
    """Whether it is a DataFrame or a table, by the protocols that such objects have; nothing is imported."""
    if isinstance(value, str | Path | list | tuple | Mapping | Iterator):
        return False
    return any(hasattr(type(value), protocol) for protocol in _PROTOCOLS)


def column_names(value: Any) -> list[str] | None:
    """The names of the columns of a frame or data set, a named index among them; None for anything else."""
    names = getattr(value, "column_names", None)  # of Arrow tables and of Hugging Face's data sets
    if names is None and is_frame(value):
        names = getattr(value, "columns", None)
    if names is None or isinstance(value, Mapping):
        return None
    index = getattr(getattr(value, "index", None), "name", None)
    return [str(name) for name in (*names, *([] if index is None else [index]))]


def frame_rows(frame: Any, columns: Columns) -> Iterator[Row | RowError]:
    """Read the rows of a frame or data set, each with its 1-based position; a named index is a column too.

    Codes of a data set's classes are their names.

    Raises:
        InputError: Narwhals does not read the frame, two of its columns have the name of a field, or its library
            cannot read a row.
    """
    if not is_frame(frame):  # a data set, which gives its rows as mappings
        yield from _of_data_set(frame)
        return
    kind = type(frame).__name__
    names = _class_names(getattr(getattr(frame, "schema", None), "metadata", None))
    table = read_frame(frame, columns)
    try:
        yield from _rows(table.iter_rows(named=True), names)
    except Exception as error:  # noqa: BLE001  # of whichever library it is
        raise InputError(f"cannot read this {kind} as a DataFrame: {_fault(error)}") from None


def read_frame(frame: Any, columns: Columns) -> Any:
    """Return a frame for Narwhals, its index, if it has a name, as a column and every column's name a text of its own.

    Raises:
        InputError: It cannot be read as a frame, or two columns have the name of a field.
    """
    import narwhals as nw

    kind = type(frame).__name__
    try:
        if hasattr(frame, "reset_index"):
            frame = _with_index(frame)
        if hasattr(frame, "rename_columns") or hasattr(frame, "set_axis"):
            frame = _named_once(frame, kind, columns)
        return nw.from_native(_as_table(frame), eager_only=True)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # of whichever library it is
        raise InputError(f"cannot read this {kind} as a DataFrame: {_fault(error)}") from None


def _as_table(frame: Any) -> Any:
    """Return a table for a part of one, such as a batch of Arrow, which Narwhals does not take; all else as it is."""
    if type(frame).__name__ != "RecordBatch":
        return frame
    import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]  # ships no types

    return pa.Table.from_batches([frame])


def _with_index(frame: Any) -> Any:
    """Return a pandas frame with its named index as a column. Raises InputError if a column of its name differs."""
    named = [name for name in frame.index.names if name is not None]
    labels = list(frame.columns)
    for name in named:
        if name in labels and labels.count(name) == 1:
            if list(frame.index.get_level_values(name)) != list(frame[name]):
                raise InputError(f"the DataFrame has an index and a column {name}, which differ; rename one of them")
            frame = frame.droplevel(name) if frame.index.nlevels > 1 else frame.reset_index(drop=True)
    return frame.reset_index() if any(name is not None for name in frame.index.names) else frame


def _named_once(frame: Any, kind: str, columns: Columns) -> Any:
    """Return a frame of Arrow or pandas with names that are texts, each once."""
    of_arrow = hasattr(frame, "rename_columns")
    labels = list(frame.column_names if of_arrow else frame.columns)
    names = distinct_names(f"the {kind}", [_label(label) for label in labels], columns)
    if names == labels:
        return frame
    return frame.rename_columns(names) if of_arrow else frame.set_axis(names, axis=1)


def _label(label: object) -> str:
    """Return a column's name as text; of several levels those that say anything."""
    return ".".join(str(level) for level in label if str(level)) if isinstance(label, tuple) else str(label)


def _fault(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"


def parquet_rows(path: Path) -> Iterator[Row | RowError]:
    """The rows of a Parquet file, or of all files below a folder; folders named `day=2026-01-01` are columns."""
    try:
        import pyarrow.dataset as ds  # type: ignore[import-untyped, import-not-found, unused-ignore]  # ships no types
    except ImportError:
        raise ConfigurationError(f"reading {path} needs pyarrow: pip install pyarrow") from None
    try:
        data = ds.dataset(path, format="parquet", partitioning="hive", exclude_invalid_files=False)
        if not data.files:
            raise InputError(
                f"{path} is a folder without JSON lines or Parquet files; name a file, or a folder with some"
            )
        names = data.schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"{path}: it has the column {', '.join(twice)} twice; give every column its own name")
        batches = data.to_batches(batch_size=_BATCH, batch_readahead=1, fragment_readahead=1, use_threads=False)
        yield from _rows((row for batch in batches for row in batch.to_pylist()), _class_names(data.schema.metadata))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # whatever Arrow meets in a file that is broken or of another kind
        raise InputError(f"cannot read {path} as a Parquet file: {_fault(error)}") from None


def _rows(rows: Iterable[Mapping[str, Any]], names: Mapping[str, Sequence[str]]) -> Iterator[Row]:
    """Return mappings as rows, each with its 1-based position; codes of classes, which have `names`, are names."""
    for position, fields in enumerate(rows, 1):
        read = {plain_text(str(name)): value for name, value in fields.items()}
        for name, classes in names.items():
            if name in read:
                read[name] = _class_of(read[name], classes)
        yield Row(line=position, fields=read)


# -- data sets of Hugging Face -----------------------------------------------------------------------------------------


def _of_data_set(data: Any) -> Iterator[Row]:
    """Read a data set's rows as plain values, pictures and sounds as the files that they are. Raises InputError."""
    try:
        features = getattr(data, "features", None) or {}
        if hasattr(data, "with_format"):
            data = data.with_format(None)
        for name, feature in features.items():
            if getattr(feature, "decode", None) is True:  # a library for pictures is needed only to look at them
                data = data.cast_column(name, type(feature)(decode=False))
        names = {name: feature.names for name, feature in features.items() if hasattr(feature, "names")}
        yield from _rows(data, names)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001  # of whichever library it is
        raise InputError(f"cannot read this {type(data).__name__}: {_fault(error)}") from None


def _class_names(metadata: Any) -> dict[str, Sequence[str]]:
    """Return the names of the classes in each column of an Arrow schema that a data set of Hugging Face wrote."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        return {
            name: feature["names"]
            for name, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature["names"], list)
        }
    except (KeyError, ValueError, TypeError):
        return {}


def _class_of(code: object, names: Sequence[str]) -> object:
    """Return the name of a class by its code, None for -1, which says that there is none."""
    if isinstance(code, float) and code.is_integer():
        code = int(code)
    if not isinstance(code, int) or isinstance(code, bool):
        return code
    if code == -1:
        return None
    return names[code] if 0 <= code < len(names) else code


def shown_id(fields: Mapping[str, Any]) -> str | None:
    """Return the row's id, where it has one as text or as a number."""
    name = fields.get("id")
    if isinstance(name, float) and name.is_integer():
        name = int(name)
    return str(name) if isinstance(name, str | int) and str(name).strip() else None
