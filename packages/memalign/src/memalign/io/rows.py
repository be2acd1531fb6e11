"""A row with its line; the rows of JSON lines and of a JSON array."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memalign.content.json_values import Fault, decode_json
from memalign.errors import InputError, MemalignError, RowError

__all__ = [
    "Line",
    "Row",
    "array_rows",
    "decoded",
    "file_lines",
    "file_texts",
    "folder_rows",
    "json_rows",
    "never_empty",
    "reading",
]


class Line(int):
    """The running number of a row in a folder, shown as the line of a file there."""

    shown = ""

    @classmethod
    def of(cls, number: int, line: int, file: str) -> Line:
        """Return the `number`-th row of a folder, which is on this line of a file."""
        made = cls(number)
        made.shown = f"{line} of {file}"
        return made

    def __str__(self) -> str:
        return self.shown


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row of a file, a frame or a list.

    Attributes:
        line: 1-based; in a `.json` array, a frame or a list the position.
        fields: As they were written.
        made_id: It came without an id, and has one made of its content.
        review: It is of a sheet that `memalign review` wrote, and may be not filled in yet.
        faults: What its Example or Feedback had to leave out.
    """

    line: int
    fields: Mapping[str, Any]
    made_id: bool = False
    review: bool = False
    faults: tuple[Fault, ...] = ()


@contextmanager
def reading(name: object, kind: str = "") -> Iterator[None]:
    """Turn whatever a library meets in a file or frame into an InputError that names it.

    Args:
        name: The file or frame.
        kind: What it was read as, such as ` as an XLSX file`.
    """
    try:
        yield
    except MemalignError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except Exception as error:  # noqa: BLE001  # of whichever library it is
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise InputError(f"cannot read {name}{kind}: {reason}") from None


def never_empty(name: str, rows: Iterable[Row | RowError]) -> Iterator[Row | RowError]:
    """The same rows. Raises InputError, which calls them `name`, when there is none."""
    row = None
    for row in rows:
        yield row
    if row is None:
        raise InputError(f"{name} has no rows")


def json_rows(lines: Iterable[tuple[int, bytes]]) -> Iterator[Row | RowError]:
    """The rows of numbered JSON lines; empty ones are left out."""
    for line, raw in lines:
        text = decoded(line, raw)
        if isinstance(text, RowError):
            yield text
        elif text.strip():
            try:
                yield _object_row(line, decode_json(text))
            except InputError as error:
                yield RowError(line=line, reason=str(error))


def folder_rows(folder: Path, files: Sequence[Path]) -> Iterator[Row | RowError]:
    """The rows of all files of JSON lines in a folder, numbered through."""
    number = 0
    for path in files:
        name = str(path.relative_to(folder))
        for row in json_rows(file_lines(path)):
            number += 1
            yield replace(row, line=Line.of(number, row.line, name))


def array_rows(path: Path) -> Iterator[Row | RowError]:
    """The rows of a JSON array, which is read whole. Raises InputError for anything else."""
    text = "".join(file_texts(path))
    if not text.strip():
        return
    hint = "if it has one object per line, name it .jsonl"
    try:
        items = decode_json(text)
    except InputError as error:
        raise InputError(f"{path}: {error}; {hint}") from None
    if not isinstance(items, list):
        raise InputError(f"{path}: a .json file holds one array of rows; {hint}")
    for position, item in enumerate(items, 1):
        yield _object_row(position, item)


def _object_row(line: int, value: object) -> Row | RowError:
    if isinstance(value, dict):
        return Row(line=line, fields=value)
    return RowError(line=line, reason=f"a row is a JSON object, not {str(value)[:40]!r}")


def file_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The numbered lines of a text file. Raises InputError."""
    with reading(path), path.open("rb") as file:
        yield from enumerate(file, 1)


def file_texts(path: Path) -> Iterator[str]:
    """The lines of a text file. Raises InputError for the first that is not UTF-8."""
    for line, raw in file_lines(path):
        text = decoded(line, raw)
        if isinstance(text, RowError):
            raise InputError(f"{path}: {text}")
        yield text


def decoded(line: int, raw: bytes) -> str | RowError:
    """A line's text without a byte order mark, or what is wrong with it."""
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        place, byte = error.start + 1, raw[error.start]
        advice = "save the file as UTF-8 (in a spreadsheet: save it as CSV UTF-8)"
        return RowError(line=line, reason=f"byte {place} (0x{byte:02x}) is not UTF-8; {advice}")
