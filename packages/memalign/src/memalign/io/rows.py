"""A row with its line; the rows of JSON, an object a line or however it is laid out."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import StringIO, TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any

from memalign.content.json_values import Fault, decode_json
from memalign.errors import InputError, MemalignError, RowError

__all__ = [
    "Line",
    "ReadRow",
    "ReadRows",
    "Row",
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
        line: 1-based; in a JSON array, a frame or a list the position.
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


ReadRow = Row | RowError
"""A row, or what is wrong with it."""

ReadRows = Iterator[ReadRow]
"""The rows of a file, a frame or a list, in order."""


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


def never_empty(name: str, rows: Iterable[ReadRow]) -> ReadRows:
    """Yield the rows. Raises InputError, which calls them `name`, if there is none."""
    row = None
    for row in rows:
        yield row
    if row is None:
        raise InputError(f"{name} has no rows")


def json_rows(lines: Iterable[tuple[int, bytes]]) -> ReadRows:
    """Read the rows of numbered lines of JSON; empty lines are left out.

    Objects in an array, or on several lines each, are read too: they are then held in memory, and a
    row's line is its position.
    """
    lines = iter(lines)
    first: list[tuple[int, bytes]] = []
    for line, raw in lines:
        first.append((line, raw))
        if raw.removeprefix(BOM_UTF8).strip():
            break
    rows: Iterable[ReadRow] | None = None
    if first and _goes_on(first[-1][1]):
        first += lines
        rows = _document_rows(first)
    if rows is None:
        rows = _line_rows(chain(first, lines))
    yield from rows


def _goes_on(raw: bytes) -> bool:
    """Return whether a line begins JSON that goes on below it, or holds rows in an array."""
    text = raw.decode("utf-8-sig", "replace").strip()
    if not text.startswith(("[", "{")):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return True
    if not isinstance(value, list):
        return False
    # The other entries of a list with an object in it are bad rows.
    return not value or any(isinstance(part, dict) for part in value)


def _line_rows(lines: Iterable[tuple[int, bytes]]) -> ReadRows:
    for line, raw in lines:
        text = decoded(line, raw)
        if isinstance(text, RowError):
            yield text
        elif text.strip():
            yield _row_of(line, text.rstrip().removesuffix(","))


def _row_of(line: int, text: str) -> ReadRow:
    """Return the row of a JSON value's text."""
    try:
        value = decode_json(text)
    except InputError as error:
        return RowError(line=line, reason=str(error))
    return _row(line, value)


def _row(line: int, value: object) -> ReadRow:
    if isinstance(value, dict):
        return Row(line=line, fields=value)
    shown = "null" if value is None else str(value)[:40]
    reason = f"a row is a JSON object, not {shown!r}; mend it or take it out"
    return RowError(line=line, reason=reason)


_GAP = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


def _document_rows(lines: Sequence[tuple[int, bytes]]) -> list[ReadRow] | None:
    """Return the rows of a document of JSON objects; None if its first object is broken."""
    try:
        raw = b"".join(raw for _, raw in lines)
        text = raw.decode("utf-8-sig").rstrip()
    except UnicodeDecodeError:
        return None
    rows: list[ReadRow] = []
    in_array = False
    place = _after_gap(text, 0)
    while place < len(text):
        # An array in an array is a bad row.
        bracket = "]" if in_array else "["
        if text[place] == bracket:
            in_array = not in_array
            place = _after_gap(text, place + 1)
            continue
        try:
            _, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            broken = getattr(error, "pos", place)
            line = text.count("\n", 0, broken) + 1
            if not rows:
                return None
            return [*rows, _cut(rows, f"broken JSON on line {line} of the file")]
        row = _row_of(len(rows) + 1, text[place:end])
        rows.append(row)
        place = _after_gap(text, end)
    if in_array:
        rows.append(_cut(rows, "the array is not closed"))
    return rows


def _after_gap(text: str, place: int) -> int:
    """Return where the next value begins, after blanks and commas."""
    gap = _GAP.match(text, place)
    if gap is None:
        return place
    return gap.end()


def _cut(rows: Sequence[ReadRow], reason: str) -> RowError:
    reason = f"{reason}; what follows it was not read"
    return RowError(line=len(rows) + 1, reason=reason)


def folder_rows(folder: Path, files: Sequence[Path]) -> ReadRows:
    """Read the rows of all files of JSON lines in a folder, numbered through."""
    number = 0
    for path in files:
        name = str(path.relative_to(folder))
        for row in json_rows(file_lines(path)):
            number += 1
            yield replace(row, line=Line.of(number, row.line, name))


def file_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a text file in UTF-8, or in UTF-16 with a byte order mark.

    Raises:
        InputError: It cannot be read.
    """
    with reading(path), path.open("rb") as file:
        lines: Iterable[bytes] = file
        if file.peek(2).startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            texts = TextIOWrapper(file, "utf-16", newline="\n")
            lines = map(str.encode, texts)
        yield from enumerate(lines, 1)


def file_texts(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, whichever sign ends them.

    Raises:
        InputError: A line is not UTF-8.
    """
    for line, raw in file_lines(path):
        text = decoded(line, raw)
        if isinstance(text, RowError):
            raise InputError(f"{path}: {text}")
        yield from StringIO(text, newline="")


def decoded(line: int, raw: bytes) -> str | RowError:
    """Return a line's text without a byte order mark, or what is wrong with it."""
    try:
        return raw.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        place = error.start + 1
        byte = raw[error.start]
        reason = (
            f"byte {place} (0x{byte:02x}) is not UTF-8; save the file as UTF-8 "
            "(in a spreadsheet: save it as CSV UTF-8)"
        )
        return RowError(line=line, reason=reason)
