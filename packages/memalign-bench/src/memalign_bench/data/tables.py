"""Rows of published files (JSON lines, a JSON array, Parquet), and tasks made of them.

A column that is not there, or holds something else than text, is an InputError that names the file, the row, the
column and what was found instead.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, InvalidValue
from memalign.types import Feedback
from memalign.values import Value, ValueType
from memalign_bench.data.folder import FEW_GROUPS
from memalign_bench.tasks import Task, cases_of

__all__ = ["Record", "digest", "make_task", "read_table"]

_CHUNK = 1 << 20
_LONGEST_ROW = 64 * _CHUNK
_BETWEEN = frozenset(" \t\r\n,")


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One row of a published file: its 1-based number, its fields, and the columns that the file has."""

    path: Path
    number: int
    fields: dict[str, Any]
    found: tuple[str, ...]

    def text(self, *columns: str, blank: bool = False) -> str:
        """The text in the first of `columns` that is there; a number counts as its text, null as blank."""
        value = self.value(*columns)
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)
        if value is None and blank:
            return ""
        if not isinstance(value, str) or not (value.strip() or blank):
            shown = "nothing" if value is None or value == "" else f"{value!r:.60}"
            raise self.wrong(f"column {columns[0]!r} should hold text, found {shown}")
        return value

    def value(self, *columns: str) -> Any:
        """Whatever the first of `columns` that is there holds."""
        for column in columns:
            if column in self.fields:
                return self.fields[column]
        names = " or ".join(repr(column) for column in columns)
        raise self.wrong(f"no column {names}; found: {', '.join(self.found) or 'none'}")

    def label(self, column: str, value_type: ValueType) -> Value:
        """The label in `column`."""
        try:
            return value_type.parse(self.value(column))
        except InvalidValue as error:
            raise self.wrong(f"column {column!r}: {error}") from None

    def wrong(self, reason: str) -> InputError:
        """The error that says what is wrong with this row."""
        return InputError(f"{self.path}, row {self.number}: {reason}")


def read_table(path: Path, columns: Sequence[str] = ()) -> Iterator[Record]:
    """The rows of a published file, in order; of Parquet only `columns` are read, where they are given.

    What kind of file it is, is told from its first bytes. Raises InputError for one that is none of them or empty.
    """
    try:
        with path.open("rb") as file:
            head = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if head.startswith(b"PAR1"):
        rows = _parquet(path, columns)
    elif head.startswith(b"["):
        rows = _array(path)
    elif head.startswith(b"{"):
        rows = _lines(path)
    elif head.startswith(b"version https://git-lfs"):
        raise InputError(f"{path} is a Git LFS pointer, not the file itself; run `git lfs pull` there")
    else:
        raise InputError(f"{path} is neither JSON lines, a JSON array nor Parquet{'' if head else ': it is empty'}")
    return _never_empty(path, rows)


def _never_empty(path: Path, rows: Iterator[Record]) -> Iterator[Record]:
    empty = True
    for row in rows:
        empty = False
        yield row
    if empty:
        raise InputError(f"{path} has no row")


def _record(path: Path, number: int, fields: Any) -> Record:
    if not isinstance(fields, dict):
        raise InputError(f"{path}, row {number}: expected an object with named columns, found {fields!r:.60}")
    return Record(path=path, number=number, fields=fields, found=tuple(fields))


def _lines(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if text := line.removeprefix(b"\xef\xbb\xbf").strip():
                try:
                    fields = msgspec.json.decode(text)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    raise InputError(f"{path}, row {number}: broken JSON: {error}") from None
                yield _record(path, number, fields)


def _array(path: Path) -> Iterator[Record]:
    """An array's objects, one after another: the largest of these files has a gigabyte, and is never in memory whole."""
    decoder, number, at = json.JSONDecoder(), 0, 0
    with path.open(encoding="utf-8-sig") as file:
        try:
            buffer = file.read(_CHUNK).lstrip().removeprefix("[")
            while True:
                while buffer[at : at + 1] in _BETWEEN:
                    at += 1
                if buffer[at : at + 1] == "]":
                    return
                try:
                    fields, end = decoder.raw_decode(buffer, at)
                except json.JSONDecodeError as error:
                    # Only here what was read is cut off: doing it at every row would copy the chunk as often.
                    more = file.read(_CHUNK) if len(buffer) - at < _LONGEST_ROW else ""
                    if not more:
                        raise InputError(f"{path}, row {number + 1}: broken or cut off JSON: {error.msg}") from None
                    buffer, at = buffer[at:] + more, 0
                    continue
                number, at = number + 1, end
                yield _record(path, number, fields)
        except UnicodeDecodeError as error:
            raise InputError(f"{path}, after row {number}: not UTF-8 ({error.reason})") from None


def _parquet(path: Path, columns: Sequence[str]) -> Iterator[Record]:
    import pyarrow as pa  # type: ignore[import-untyped, import-not-found, unused-ignore]  # ships no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped, import-not-found, unused-ignore]

    try:
        with pq.ParquetFile(path) as file:
            found = tuple(file.schema_arrow.names)
            wanted = [name for name in columns if name in found] if columns else list(found)
            number = 0
            for batch in file.iter_batches(batch_size=1000, columns=wanted):
                for fields in batch.to_pylist():
                    number += 1
                    yield Record(path=path, number=number, fields=fields, found=found)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} is no readable Parquet file: {error}") from None


def digest(*texts: str) -> str:
    """Twelve hex digits that stand for the texts: ids and groups that do not depend on a file's order."""
    joined = "\x1f".join(texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def make_task(
    name: str, rows: Iterable[Feedback], *, path: Path, category: str, criterion: str, values: str, licence: str
) -> Task:
    """The task of published rows, one label a case; a repeated id gets `-2`, `-3`, … in the file's order.

    Raises InputError when no row is left.
    """
    seen: Counter[str] = Counter()
    kept = []
    for row in rows:
        seen[row.id] += 1
        again = seen[row.id]
        kept.append(row if again == 1 else msgspec.structs.replace(row, id=f"{row.id}-{again}"))
    cases = cases_of(kept)
    if not cases:
        raise InputError(f"{path} has no labelled row for task {name!r}")
    return Task(
        name=name,
        category=category,
        criterion=criterion,
        values=ValueType.of(values).spec,
        cases=cases,
        by_row=len({case.group for case in cases}) < FEW_GROUPS,
        licence=licence,
    )
