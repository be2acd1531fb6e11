"""What somebody gave to be read: a file, a DataFrame, a data set or Python objects, under its own column names.

Every place that takes feedback or examples takes this, so that all of them read the same things by the same rules.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol

from memalign.errors import InputError, RowError
from memalign.io.cells import is_absent
from memalign.io.column_map import Columns
from memalign.io.fields import given_rows, split
from memalign.io.frames import column_names, frame_rows, is_frame, is_lazy, plain_rows
from memalign.io.locations import shown_location
from memalign.io.review_rows import is_review, restored
from memalign.io.rows import Row, json_rows, never_empty, read_rows
from memalign.types import CONTENT_FIELDS, Example, Feedback, canonical_json

__all__ = ["JUDGED", "ExampleSource", "FeedbackSource", "Frame", "Given"]


class Frame(Protocol):
    """A DataFrame or table of pandas, Polars, Arrow or another library that speaks Arrow's protocol."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> object: ...


JUDGED = frozenset({"judge", "content_hash", "value"})
"""What every line of a judgment file has."""

_ID_DIGITS = 12
_FIRST = 100  # rows


@dataclass(frozen=True, kw_only=True)
class Given:
    """Rows that are read when they are asked for: `items` is a path, a frame, or an iterable of rows.

    `name` is what errors call them. `columns` says which column each field is read from. `source` is whose feedback
    a row is that does not say so itself.
    """

    items: Any
    name: str
    columns: Columns
    source: str | None = None

    @classmethod
    def of(
        cls,
        items: object,
        *,
        name: str = "feedback",
        columns: Mapping[str, str] | None = None,
        remembered: Mapping[str, str] | None = None,
        source: str | None = None,
    ) -> Given:
        """A path, a frame, a data set, or an iterable of Examples, Feedback or mappings; another Given is kept.

        `columns` were named for these rows, and each must be there; without any, the `remembered` ones are read where they
        are there. Raises InputError for what is none of these.
        """
        known = Columns(remembered) if columns is None else Columns(columns, asked=True)
        if isinstance(items, Given):
            return items if items.columns.asked or items.columns.names else replace(items, columns=known)
        if isinstance(items, str | Path):
            name = shown_location(items)
        elif is_lazy(items):
            raise InputError(f"{name} is a frame that is not computed yet: give frame.collect()")
        elif isinstance(items, Mapping):
            raise InputError(
                f"{name}: one {type(items).__name__} is no list of rows; give a list of them, or of a DatasetDict one split "
                f"({', '.join(map(str, items))[:80]})"
            )
        elif not is_frame(items) and not isinstance(items, Iterable):
            raise InputError(f"{name} is a path, a DataFrame or an iterable of rows, not {type(items).__name__}")
        return cls(items=items, name=name, columns=known, source=source)

    @classmethod
    def of_lines(
        cls,
        lines: Iterable[bytes],
        *,
        name: str,
        columns: Mapping[str, str] | None = None,
        remembered: Mapping[str, str] | None = None,
        source: str | None = None,
    ) -> Given:
        """The rows of JSON lines that can be read only once, such as those of stdin."""
        found = never_empty(name, json_rows(enumerate(lines, 1)))
        return cls.of(found, name=name, columns=columns, remembered=remembered, source=source)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """The rows by their fields; raises InputError for one that cannot be read."""
        for row in self.rows():
            if isinstance(row, RowError):
                raise InputError(f"{self.name}: {row}")
            yield row.fields

    @property
    def once(self) -> bool:
        """Whether the rows can be read only once."""
        return isinstance(self.items, Iterator)

    @property
    def nothing(self) -> bool:
        """Whether it is an empty list, which stands for no feedback at all."""
        return isinstance(self.items, list | tuple | set | frozenset) and not self.items

    def kept(self) -> Given:
        """The same, to be read as often as one likes."""
        return replace(self, items=tuple(self.items)) if self.once else self

    def rows(self, *, distinct: bool = False) -> Iterator[Row | RowError]:
        """The rows by their fields, in order; a RowError stands where a row cannot be read.

        Rows none of which has an id get ids made of their content: the same content has the same id, unless ids must be
        `distinct`. Of a file the first hundred rows say whether there are ids, of a stream the first one. Raises InputError
        when a column that was asked for is in no row.
        """
        seen: dict[str, None] = {}
        rows = iter(self._read())
        first = list(islice(rows, 1)) if self.once else []
        ids = _Ids(distinct=distinct) if self._without_ids(first) else None
        for row in chain(first, rows):
            if isinstance(row, RowError):
                yield row
                continue
            if self.columns.asked:
                seen |= dict.fromkeys(row.fields)
            found = self._named(row)
            yield ids.with_id(found) if ids is not None and isinstance(found, Row) else found
        if (fault := self.columns.missing(self.name, seen)) is not None:
            raise fault

    def _read(self) -> Iterator[Row | RowError]:
        if isinstance(self.items, str | Path):
            return read_rows(self.items, self.columns)
        if is_frame(self.items):
            return never_empty(self.name, frame_rows(self.items))
        if column_names(self.items) is not None:  # a data set of Hugging Face's
            return never_empty(self.name, plain_rows(self.items))
        return given_rows(self.items)

    def _named(self, row: Row) -> Row | RowError:
        """A row by its fields, with the content that a sheet for review hides, and with the source of all."""
        if self.columns.names:
            letters = {self.columns.field_of(column): letter for column, letter in row.letters.items()}
            row = replace(row, fields=self.columns.applied(row.fields), letters=letters)
        if is_review(row.fields):
            found = restored(row)
            if isinstance(found, RowError):
                return found
            row = found
        named = row.fields.get("source")
        if self.source is not None and (not named or is_absent(named)) and not row.fields.keys() >= JUDGED:
            row = replace(row, fields={**row.fields, "source": self.source})
        return row

    def _without_ids(self, first: Sequence[Row | RowError]) -> bool:
        if self.once or isinstance(self.items, str | Path):
            rows = first if self.once else islice(self._read(), _FIRST)
            without = False
            for row in rows:
                if isinstance(row, Row) and self.columns.ids & row.fields.keys():
                    return False
                without = without or isinstance(row, Row)
            return without
        names = column_names(self.items)
        if names is not None:
            return not self.columns.ids & set(names)
        return not any(
            isinstance(item, Example | Feedback | Row | RowError)
            or (isinstance(item, Mapping) and self.columns.ids & item.keys())
            for item in self.items
        )


FeedbackSource = str | Path | Frame | Given | Iterable[Feedback | Mapping[str, Any]]
"""Whatever feedback is read from."""

ExampleSource = str | Path | Frame | Given | Iterable[Example | Feedback | Mapping[str, Any]]
"""Whatever examples are read from."""


class _Ids:
    """Ids made of content: `c-` and the beginning of its hash."""

    def __init__(self, *, distinct: bool) -> None:
        self._distinct = distinct
        self._met: Counter[str] = Counter()

    def with_id(self, row: Row) -> Row:
        try:
            content = {name: value for name, value in split(row.fields).items() if name in CONTENT_FIELDS}
            text = canonical_json(content)
        except InputError:
            return row  # what is wrong with it is said where rows are checked
        if not content:  # which is said of the row by this name
            return replace(row, fields={**row.fields, "id": f"row-{row.line}"})
        made = f"c-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:_ID_DIGITS]}"
        self._met[made] += 1
        if self._distinct and self._met[made] > 1:
            made = f"{made}-{self._met[made]}"
        return replace(row, fields={**row.fields, "id": made}, made_id=True)
