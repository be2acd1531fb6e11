"""Rows become feedback; every bad one is named by its line and reason."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from memalign.content.json_values import is_absent
from memalign.errors import InputError, InvalidRows, RowError
from memalign.io.columns import unused
from memalign.io.fields import (
    CONTENT_NEEDED,
    JUDGED,
    case_fields,
    case_of,
    labels_of,
    without_labels,
)
from memalign.io.reader import RowReader
from memalign.io.rows import Row
from memalign.io.source import FeedbackSource, RowSource
from memalign.types import CONTENT_FIELDS, NOTHING_SAID, Feedback, FeedbackKey
from memalign.values import Value, ValueType, value_text

__all__ = ["SKIP_HINT", "FeedbackFile", "label_notes", "read_feedback"]

SKIP_HINT = (
    "Fix these rows, or let align leave them out: --skip-invalid "
    "(in Python: skip_invalid=True)"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackFile:
    """Feedback as it was read.

    Attributes:
        rows: The good rows, in order.
        lines: The line of each.
        invalid: The bad ones, empty unless they were to be skipped.
        notes: What else became of rows: how many of a sheet are not filled in, how many have a made
            id.
    """

    rows: tuple[Feedback, ...]
    lines: tuple[int, ...]
    invalid: tuple[RowError, ...] = ()
    notes: tuple[str, ...] = ()


def read_feedback(
    rows: FeedbackSource,
    *,
    value_type: ValueType | None = None,
    hashes: Mapping[str, str] | None = None,
    skip_invalid: bool = False,
    columns: Mapping[str, str] | None = None,
    fields: Collection[str] = (),
    name: str = "feedback",
) -> FeedbackFile:
    """Read feedback from a path, a DataFrame, a data set, Feedback, mappings, or a RowSource.

    A row needs an id, a value or a rationale, and content. Content that only another row of the
    same id has is filled in. A key twice, or an id with other content than in another row, is an
    error. null, NaN and empty CSV cells mean "absent". Rows of a sheet for review that are not
    filled in are counted and left out.

    Args:
        rows: Whatever it is read from. A line of Python objects is their 1-based position.
        value_type: How values are parsed; without it they are kept as they are.
        hashes: Of the content of cases that the judge has, by id: their content may be missing too.
        skip_invalid: Leave bad rows out.
        columns: Columns of other names, read where they are there (see `RowSource.of`).
        fields: The content fields, or parts of them, that the judge reads; no other content is
            checked.
        name: What errors call rows of Python.

    Raises:
        InvalidRows: With the line and reason of every bad row, unless `skip_invalid`.
        InputError: A file cannot be read or is empty, or no column gives a field that is needed.
    """
    source = RowSource.of(rows, name=name, remembered=columns)
    reader = _FeedbackReader(value_type, hashes or {}, fields)
    for item in source.rows():
        reader.take(item)
    reader.complete()
    if reader.filled_in:
        reader.check_columns(source, reader.fields_needed())
    bad = reader.faults()
    good = reader.good
    if bad and not skip_invalid:
        raise InvalidRows(source.name, bad, hint=SKIP_HINT)
    if reader.unfilled and not good and not bad:
        raise InputError(
            f"{source.name}: none of its {reader.unfilled} rows is filled in; write a verdict "
            "in the column value, a reason in rationale, or both"
        )
    return FeedbackFile(
        rows=tuple(good.values()),
        lines=tuple(good),
        invalid=tuple(bad),
        notes=tuple(reader.notes(source.name)),
    )


_HINTS = 20  # bad rows whose columns are compared with the names of fields
_FEW = 3  # rows of which nobody expects both labels


def label_notes(
    rows: Sequence[Feedback], value_type: ValueType | None, known: Iterable[Value] = ()
) -> list[str]:
    """Return what feedback lacks for a judge to learn from: the other labels, or any words.

    Args:
        rows: The feedback.
        value_type: The judge's; none of its labels is missing where it is free text.
        known: Labels that the judge has learned already.
    """
    notes: list[str] = []
    labels = [value_text(row.value) for row in rows if row.value is not None]
    closed = value_type is None or value_type.closed
    every = {*labels, *map(value_text, known)}
    if len(labels) >= _FEW and closed and len(every) == 1:
        notes.append(
            f"all {len(labels)} labels are {labels[0]}; a judge that sees one label alone learns "
            "to give it, so add cases with another"
        )
    if len(rows) >= _FEW and not any(row.rationale for row in rows):
        notes.append(
            f"none of the {len(rows)} rows has a rationale; a label alone teaches no rule, "
            "so write why"
        )
    return notes


class _FeedbackReader(RowReader):
    """The feedback of the rows so far."""

    def __init__(
        self,
        value_type: ValueType | None,
        hashes: Mapping[str, str],
        parts: Collection[str],
    ) -> None:
        super().__init__(parts)
        self._value_type = value_type
        self._hashes = hashes
        self._lines: dict[FeedbackKey, int] = {}
        self._contents: dict[str, tuple[int, Feedback]] = {}
        self.good: dict[int, Feedback] = {}
        self.filled_in = 0
        self.unfilled = 0
        self.made_ids = 0
        self._needs_content = False

    def use(self, row: Row) -> None:
        """Keep the row's feedback. Raises InputError."""
        fields = row.fields
        if (
            row.review
            and is_absent(fields.get("value"))
            and is_absent(fields.get("rationale"))
        ):
            self.unfilled += 1
            return
        self.filled_in += 1
        self.made_ids += row.made_id
        # A case that the judge knows need not be repeated.
        known = str(fields.get("id")).strip() in self._hashes
        repeats_nothing = known and fields.keys().isdisjoint(CONTENT_FIELDS)
        if not (repeats_nothing or fields.keys() >= JUDGED):
            self._needs_content = True
        feedback = self._feedback(row)
        self.check(row, feedback)
        self._check_against_others(feedback)
        if feedback.content:
            self._contents.setdefault(feedback.id, (row.line, feedback))
        self._lines[feedback.key] = row.line
        self.good[row.line] = feedback

    def _feedback(self, row: Row) -> Feedback:
        """Return the feedback of a row. Raises InputError, with its columns if it says nothing."""
        if row.fields.keys() >= JUDGED and row.fields.get("source") in (None, ""):
            raise InputError(
                "this is the verdict of a judge (a line that memalign judge wrote), not an "
                "expert's; to make it feedback, write the expert's name in source and their own "
                "verdict in value"
            )
        case = case_fields(row)
        labels = labels_of(case, self._value_type)
        if labels.keys().isdisjoint(("value", "rationale")):
            hints = unused(row.fields) if len(self.bad) < _HINTS else ()
            raise InputError("; ".join((NOTHING_SAID, *hints)))
        return case_of(Feedback, row, without_labels(case) | labels)

    def _check_against_others(self, feedback: Feedback) -> None:
        """Check one row against the rows before it and what the judge knows. Raises InputError."""
        name = feedback.id
        line = self._lines.get(feedback.key)
        if line is not None:
            raise InputError(
                f"{feedback.key} is also on line {line}; keep one of the two rows"
            )
        if not feedback.content:
            return
        own_hash = feedback.content_hash
        if name in self._contents:
            line, first = self._contents[name]
            if first.content_hash != own_hash:
                differing = ", ".join(_differing(first, feedback))
                raise InputError(
                    f"{differing} differ from {name!r} on line {line}; give it another id"
                )
        elif self._hashes.get(name, own_hash) != own_hash:
            raise InputError(
                f"the judge has a case {name!r} with other content; give it another id, or "
                f"unalign {name!r} first"
            )

    def complete(self) -> None:
        """Give rows without content that of another row of their id."""
        for line, feedback in list(self.good.items()):
            if feedback.content:
                continue
            if feedback.id in self._contents:
                content = self._contents[feedback.id][1].content
                self.good[line] = msgspec.structs.replace(feedback, **content)
            elif feedback.id not in self._hashes:
                del self.good[line]
                reason = f"no content: {CONTENT_NEEDED}"
                self.bad.append(RowError(line=line, reason=reason, id=feedback.id))

    def fields_needed(self) -> list[str]:
        """Return the fields for which a file must have a column."""
        fields: list[str] = []
        if self._needs_content:
            fields += self.needed()
        if "rationale" not in self.columns:
            fields.append("value")
        return fields

    def notes(self, source: str) -> list[str]:
        """Return what else became of the rows, and which of their columns are not used."""
        notes: list[str] = []
        if self.unfilled:
            total = self.unfilled + len(self.good) + len(self.bad)
            notes.append(
                f"{self.unfilled} of {total} rows of {source} are not filled in and were left out"
            )
        if self.made_ids:
            notes.append(
                f"the rows have no id, so {self.made_ids} got one made from their content"
            )
        return [*notes, *self.left_out.values(), *unused(self.columns)]


def _differing(one: Feedback, other: Feedback) -> list[str]:
    differing: list[str] = []
    for name in CONTENT_FIELDS:
        if one.content.get(name) != other.content.get(name):
            differing.append(name)
    return differing
