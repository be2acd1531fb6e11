"""Examples that are read when their turn comes: a hundred thousand of them never lie in memory together.

They are read twice. The first time every row is checked, so that a bad one is named before anything is spent on the
others, and only fingerprints are kept; the second time they are given out one by one.
"""

from __future__ import annotations

import json
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

from memalign.errors import InputError, InvalidRows, RowError
from memalign.io.cells import shown_id
from memalign.io.fields import content_needed, differing, split
from memalign.io.given import Given
from memalign.io.rows import LABEL_FIELDS, Row
from memalign.types import CONTENT_FIELDS, UNKNOWN_SOURCE, Example, FeedbackKey

__all__ = ["Examples", "Index", "check_examples", "example_of", "read_examples"]

_DIGEST = 32  # bytes of a content hash
_IN_MEMORY = 1 << 20  # bytes of a generator's examples that are kept without a file

Rows = Iterator[Row | RowError]


class Index:
    """The ids of examples in their order, each with its place (from 0) and content hash; some 200 bytes an example."""

    def __init__(self, examples: Iterable[Example] = ()) -> None:
        self._places: dict[str, int] = {}
        self._digests = bytearray()
        for example in examples:
            self.add(example)

    def __len__(self) -> int:
        return len(self._places)

    def add(self, example: Example) -> int:
        """The place of an example whose id is new."""
        place = self._places[example.id] = len(self._places)
        self._digests += bytes.fromhex(example.content_hash)
        return place

    def place(self, example_id: str) -> int | None:
        """Where the example of that id stands, None when there is none."""
        return self._places.get(example_id)

    def ids(self) -> tuple[str, ...]:
        """Every id, in order."""
        return tuple(self._places)

    def content_hash(self, place: int) -> str:
        """The content hash of the example at `place`."""
        return self._digests[place * _DIGEST : (place + 1) * _DIGEST].hex()


class Examples:
    """Examples of a file, of a list, or of anything else that can be iterated over, in their order.

    Several people's feedback on one case gives one example, where its content is first; label columns are ignored. Any
    other id that comes twice is an error, and so is a row without id or content.

    `len` and iterating check everything first (see `check`). What can be read only once, a generator, is put into a
    temporary file meanwhile. Iterating raises InputError when the file has changed since it was checked.
    """

    def __init__(self, read: Callable[[], Rows], *, name: str, once: bool) -> None:
        """`read` gives the rows, again at every call unless they can be read only `once`."""
        self.name = name
        self._read = read
        self._spool: IO[bytes] | None = None
        if once:
            self._spool = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed with these Examples
            weakref.finalize(self, self._spool.close)
        self._index: Index | None = None

    @classmethod
    def of(cls, given: object, *, columns: Mapping[str, str] | None = None, name: str = "examples") -> Self:
        """The examples of a path, a DataFrame, a data set, an iterable of Examples, Feedback or mappings, or a Given.

        `columns` are read where they are there; errors call what is no file `name`. See `Given.of`.
        """
        source = Given.of(given, name=name, remembered=columns)
        return cls(lambda: source.rows(distinct=True), name=source.name, once=source.once)

    @classmethod
    def of_lines(cls, lines: Iterable[bytes], *, name: str) -> Self:
        """The examples of JSON lines that can be read only once, such as those of stdin."""
        return cls.of(Given.of_lines(lines, name=name))

    @property
    def index(self) -> Index:
        """By what the examples are known again. Raises InvalidRows."""
        self.check()
        assert self._index is not None  # `check` has set it
        return self._index

    def check(self) -> None:
        """Read all rows, unless that was done before. Raises InvalidRows with the line and reason of every bad one."""
        for _ in self.checking():
            pass

    def checking(self) -> Iterator[None]:
        """The same, a step for each row: for callers that have something else to do between them."""
        if self._index is not None:
            return
        checked = _Checked()
        for row in self._read():
            example = checked.take(row)
            if example is not None and self._spool is not None:
                self._spool.write(_spooled(row.line, example))
            yield
        checked.end(self.name, self._read if self._spool is None else self._again)
        self._index = checked.index

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[Example]:
        index, expected = self.index, 0
        for row in self._read() if self._spool is None else self._again():
            example = None if isinstance(row, RowError) else example_of(split(row.fields))
            if example is None:
                if isinstance(row, RowError):
                    raise self._changed()
                continue
            place = index.place(example.id)
            if place is None or place > expected or example.content_hash != index.content_hash(place):
                raise self._changed()
            if place == expected:  # else another annotation on a case that was there already
                expected += 1
                yield example
        if expected < len(index):
            raise self._changed()

    def _again(self) -> Rows:
        assert self._spool is not None  # asked by those who have one
        self._spool.seek(0)
        for each in self._spool:
            line, fields = json.loads(each)
            yield Row(line=line, fields=fields)

    def _changed(self) -> InputError:
        return InputError(f"{self.name} has changed since it was checked; start again, with a file that stays as it is")


def read_examples(path: str | Path) -> list[Example]:
    """The examples of a file; see `Examples`.

    Raises InvalidRows with the line and reason of every bad row, InputError when the file cannot be read or is empty.
    """
    return list(Examples.of(path))


def check_examples(items: object, *, name: str = "examples") -> list[Example]:
    """Examples of whatever `Examples.of` takes, by the same rules. Raises InvalidRows."""
    return list(Examples.of(items, name=name))


class _Checked:
    """The first reading: what is wrong, and the index of what is right."""

    def __init__(self) -> None:
        self.index = Index()
        self._lines = array("q")  # of each example, the line with its content
        self._spoken = bytearray()  # of each example, whether its first row was somebody's feedback
        self._annotations: set[FeedbackKey] = set()
        self._without: dict[str, int] = {}  # id and line of feedback whose content has not come yet
        self._bad: list[RowError] = []
        self._differing: list[
            tuple[int, int, Example]
        ] = []  # position in _bad, line of the other, what differs from it

    def take(self, row: Row | RowError) -> Example | None:
        """The example, if the row is the first with its content."""
        if isinstance(row, RowError):
            self._bad.append(row)
            return None
        try:
            return self._example_of(row)
        except InputError as error:
            self._bad.append(RowError(line=row.line, reason=str(error), id=shown_id(row.fields)))
            return None

    def _example_of(self, row: Row) -> Example | None:
        fields = split(row.fields)
        annotation = str(fields.get("source") or UNKNOWN_SOURCE)
        spoken = any(fields.get(name) is not None for name in ("value", "rationale", "source"))
        example = example_of(fields)
        if example is None and not spoken:
            raise InputError(f"no content: {content_needed()}")
        example_id = fields["id"]
        if not example_id:
            raise InputError("id is missing or empty")
        place = self.index.place(example_id)
        if place is not None and example is not None and example.content_hash != self.index.content_hash(place):
            if len(self._differing) < InvalidRows.SHOWN:
                self._differing.append((len(self._bad), self._lines[place], example))
            raise InputError(f"its content differs from that of {example_id!r} on line {self._lines[place]}")
        annotated = FeedbackKey(example_id, annotation)
        earlier = self._without.get(example_id, 0) if place is None else self._lines[place]
        if earlier:
            had = place is None or bool(self._spoken[place])
            if not spoken or not had or annotated in self._annotations:
                raise InputError(f"{example_id!r} is on line {earlier} already; an example is judged once")
        if spoken:
            self._annotations.add(annotated)
        if example is None:
            if place is None:
                self._without.setdefault(example_id, row.line)
            return None
        if place is not None:
            return None
        self._without.pop(example_id, None)
        self.index.add(example)
        self._lines.append(row.line)
        self._spoken.append(spoken)
        return example

    def end(self, name: str, read: Callable[[], Rows]) -> None:
        """Raise InvalidRows if there was a bad row; `read` gives all rows once more, to say what differs from what."""
        self._name_differences(read)
        for example_id, line in self._without.items():
            self._bad.append(RowError(line=line, reason=f"no content: {content_needed()}", id=example_id))
        if self._bad:
            raise InvalidRows(name, sorted(self._bad, key=lambda error: error.line))

    def _name_differences(self, read: Callable[[], Rows]) -> None:
        if not self._differing:
            return
        wanted = {line for _, line, _ in self._differing}
        first = {row.line: row for row in read() if row.line in wanted and isinstance(row, Row)}
        for position, line, example in self._differing:
            if (row := first.get(line)) is not None and (other := example_of(split(row.fields))) is not None:
                reason = f"{differing(other, example)} differ from those of {example.id!r} on line {line}"
                self._bad[position] = RowError(line=self._bad[position].line, reason=reason, id=example.id[:80])


def example_of(fields: dict[str, Any]) -> Example | None:
    """The example of a row's fields, None for one without content."""
    if not any(name in fields for name in CONTENT_FIELDS):
        return None
    return Example(**{name: value for name, value in fields.items() if name not in LABEL_FIELDS})


def _spooled(line: int, example: Example) -> bytes:
    return json.dumps([line, {"id": example.id, **example.content, "meta": example.meta}]).encode() + b"\n"
