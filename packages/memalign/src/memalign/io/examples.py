"""Examples are read twice: checked first, when only hashes are kept, and then given out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Self

from memalign.errors import InputError, InvalidRows, RowError
from memalign.io.fields import CONTENT_NEEDED, case_fields, case_of, without_labels
from memalign.io.reader import RowReader
from memalign.io.rows import Row
from memalign.io.source import ExampleSource, RowSource
from memalign.types import CONTENT_FIELDS, Example

__all__ = ["Examples", "example_of", "read_examples"]


class Examples:
    """Examples of a file, of a list, or of anything else that can be iterated over, in their order.

    Rows of one id and content, such as several people's feedback, give one example, where its
    content is first; label columns are ignored. An id with two contents is an error, and so is a
    row without id or content.

    `len` and iterating check everything first. Iterating raises InputError if the file has changed
    since. `notes` then say what was left out of fields that the judge does not read.
    """

    def __init__(self, source: RowSource, fields: Collection[str] = ()) -> None:
        self.name = source.name
        self.notes: tuple[str, ...] = ()
        self._source = source
        self._parts = fields
        self._hashes: dict[str, str] | None = None

    @classmethod
    def of(
        cls,
        rows: ExampleSource,
        *,
        columns: Mapping[str, str] | None = None,
        fields: Collection[str] = (),
        name: str = "examples",
    ) -> Self:
        """Return the examples of a path, a frame, a data set, rows of Python, or a RowSource.

        Args:
            rows: Whatever they are read from.
            columns: Columns of other names, read where they are there.
            fields: The content fields, or parts of them, that the judge reads: a file or frame must
                have a column for each, and nothing else is checked.
            name: What errors call rows that are no file.
        """
        return cls(RowSource.of(rows, name=name, remembered=columns), fields)

    @property
    def hashes(self) -> Mapping[str, str]:
        """The content hash of each example by its id, in their order. Raises InvalidRows."""
        self.check()
        return self._hashes or {}

    def check(self) -> None:
        """Read all rows, unless that was done before.

        Raises:
            InvalidRows: A row has no id or no content, or an id has two contents.
            InputError: A file cannot be read.
        """
        for _ in self.checking():
            pass

    def checking(self) -> Iterator[None]:
        """Check likewise, a step for each row, for callers with something to do in between."""
        if self._hashes is not None:
            return
        reader = _ExampleReader(self._parts)
        for item in self._source.rows(distinct=True):
            reader.take(item)
            yield
        reader.check_columns(self._source, reader.needed())
        self.notes = tuple(reader.left_out.values())
        self._hashes = reader.complete(self.name)

    def __len__(self) -> int:
        return len(self.hashes)

    def __iter__(self) -> Iterator[Example]:
        remaining = iter(self.hashes.items())
        yielded = set[str]()
        changed = InputError(
            f"{self.name} was changed while it was being read; run the command again"
        )
        for row in self._source.rows(distinct=True):
            if isinstance(row, RowError):
                raise changed
            example = example_of(row)
            if example is None or example.id in yielded:
                continue
            if (example.id, example.content_hash) != next(remaining, None):
                raise changed
            yielded.add(example.id)
            yield example
        if next(remaining, None) is not None:
            raise changed


def read_examples(
    rows: ExampleSource,
    *,
    name: str = "examples",
    columns: Mapping[str, str] | None = None,
) -> list[Example]:
    """Return all examples of whatever `Examples.of` takes, by the same rules.

    Args:
        rows: Whatever they are read from.
        name: What errors call rows that are no file.
        columns: Field to column of another name, read where it is there.

    Raises:
        InvalidRows: A row has no id or no content, or an id has two contents.
        InputError: A file cannot be read.
    """
    return list(Examples.of(rows, name=name, columns=columns))


def example_of(row: Row) -> Example | None:
    """Return the example of a row, None for one without content. Raises InputError."""
    return _example(case_fields(row), row)


def _example(case: Mapping[str, Any], row: Row) -> Example | None:
    if case.keys().isdisjoint(CONTENT_FIELDS) and not row.faults:
        return None
    return case_of(Example, row, without_labels(case))


class _ExampleReader(RowReader):
    """The first reading: what is wrong, and the hashes of what is right."""

    def __init__(self, parts: Collection[str]) -> None:
        super().__init__(parts)
        self._hashes: dict[str, str] = {}
        self._lines: dict[str, int] = {}  # of each example, the line with its content
        self._without: dict[
            str, Row
        ] = {}  # feedback whose content has not come yet, by id

    def use(self, row: Row) -> None:
        """Keep the hash of the example if its content is new. Raises InputError."""
        case = case_fields(row)
        name = case["id"]
        if not name:
            raise InputError("id is missing or empty")
        example = _example(case, row)
        if example is None:
            self._without.setdefault(name, row)
            return
        self.check(row, example)
        if example.content_hash != self._hashes.setdefault(name, example.content_hash):
            line = self._lines[name]
            raise InputError(
                f"its content differs from {name!r} on line {line}; give it another id"
            )
        self._lines.setdefault(name, row.line)

    def complete(self, name: str) -> dict[str, str]:
        """Return the content hashes of all examples by id. Raises InvalidRows for bad rows."""
        for example_id, row in self._without.items():
            if example_id not in self._hashes:
                self.put(row, f"no content: {CONTENT_NEEDED}")
        if self.bad:
            raise InvalidRows(name, self.faults())
        return self._hashes
