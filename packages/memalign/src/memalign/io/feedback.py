"""Rows become feedback; every bad one is named by its line (in a sheet by row and column) and reason.

Rows are flat: an Example's fields, `value`, `rationale`, `source` and `created_at`; every other column goes to `meta`.
Python objects pass through the same checks as rows of a file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, InvalidRows, InvalidValue, RowError
from memalign.io.cells import shown_id
from memalign.io.fields import content_needed, differing, split
from memalign.io.given import JUDGED, Given
from memalign.io.rows import Row
from memalign.types import Feedback, FeedbackKey
from memalign.values import ValueType

__all__ = ["FeedbackFile", "check_feedback", "read_feedback"]

_SKIP_HINT = "fix them; an align can leave them out: --skip-invalid, skip_invalid=True in Python"


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackFile:
    """The good rows of a file or list, in order, with the line of each (`lines[i]` is that of `rows[i]`), and the bad.

    `invalid` is empty unless bad rows were to be skipped. `notes` say what else became of rows: how many of a sheet are not
    filled in, how many have an id made of their content.
    """

    rows: tuple[Feedback, ...]
    lines: tuple[int, ...]
    invalid: tuple[RowError, ...] = ()
    notes: tuple[str, ...] = ()


def read_feedback(
    path: str | Path,
    *,
    value_type: ValueType | None = None,
    known: Mapping[str, str] | None = None,
    skip_invalid: bool = False,
) -> FeedbackFile:
    """The feedback of a file (see `read_rows` for its kinds), checked by the rules of `check_feedback`."""
    return check_feedback(path, value_type=value_type, known=known, skip_invalid=skip_invalid)


def check_feedback(
    rows: object,
    *,
    value_type: ValueType | None = None,
    known: Mapping[str, str] | None = None,
    skip_invalid: bool = False,
    columns: Mapping[str, str] | None = None,
    name: str = "feedback",
) -> FeedbackFile:
    """The feedback in a path, a DataFrame, a data set, an iterable of Feedback or mappings, or a Given.

    A line of Python objects is their 1-based position. `columns` are read where they are there (see `Given.of`).

    A row needs an id, a value or a rationale, and content. The content may be missing when another row of the same id
    has it (it is filled in) or when `known`, content hashes by id, has the id (the judge has it). Values are parsed by
    `value_type`, or kept as they are without one. A key twice, or an id with other content than in another row or in
    `known`, is an error. null, NaN and empty CSV cells mean "absent". Rows of a sheet for review that are not filled in
    are counted and left out. Raises InvalidRows with the line and reason of every bad row, unless `skip_invalid`; `name`
    is what its message calls the rows of Python. Raises InputError when a file cannot be read or is empty.
    """
    given = Given.of(rows, name=name, remembered=columns)
    return _checked(given, value_type=value_type, known=known or {}, skip_invalid=skip_invalid)


# -- feedback ------------------------------------------------------------------------------------------------------


def _checked(
    given: Given,
    *,
    value_type: ValueType | None,
    known: Mapping[str, str],
    skip_invalid: bool,
) -> FeedbackFile:
    good: dict[int, Feedback] = {}
    bad: list[RowError] = []
    key_lines: dict[FeedbackKey, int] = {}
    contents: dict[str, tuple[int, Feedback]] = {}
    unfilled = made = 0
    for row in given.rows():
        if isinstance(row, RowError):
            bad.append(row)
            continue
        if row.review and not (row.fields.keys() & {"value", "rationale"}):
            unfilled += 1
            continue
        made += row.made_id
        try:
            feedback = _feedback(row.fields, value_type)
            _check_against(feedback, key_lines, contents, known)
            if feedback.content:
                contents.setdefault(feedback.id, (row.line, feedback))
        except InputError as error:
            bad.append(_fault(row, error))
            continue
        key_lines[feedback.key] = row.line
        good[row.line] = feedback
    for line, feedback in list(good.items()):
        if feedback.content:
            continue
        if feedback.id in contents:
            good[line] = msgspec.structs.replace(feedback, **contents[feedback.id][1].content)
        elif feedback.id not in known:
            del good[line]
            bad.append(RowError(line=line, reason=f"no content: {content_needed()}", id=feedback.id))
    bad.sort(key=lambda error: error.line)
    if bad and not skip_invalid:
        raise InvalidRows(given.name, bad, hint=_SKIP_HINT)
    if unfilled and not good and not bad:
        raise InputError(
            f"{given.name}: none of its {unfilled} rows is filled in: write a verdict into the column value, words into "
            "rationale, or both"
        )
    notes = []
    if unfilled:
        notes.append(
            f"{unfilled} of {unfilled + len(good) + len(bad)} rows of {given.name} are not filled in, and were left out"
        )
    if made:
        notes.append(f"no row has an id: {made} have one made of their content")
    return FeedbackFile(rows=tuple(good.values()), lines=tuple(good), invalid=tuple(bad), notes=tuple(notes))


def _fault(row: Row, error: InputError) -> RowError:
    """What is wrong with a row, in a sheet with the column."""
    field = "value" if isinstance(error, InvalidValue) else str(error).partition(" ")[0]
    column = None if not row.letters else f"{row.letters[field]} ({field})" if field in row.letters else ""
    return RowError(line=row.line, reason=str(error), id=shown_id(row.fields), column=column)


def _feedback(fields: Mapping[str, Any], value_type: ValueType | None) -> Feedback:
    if fields.keys() >= JUDGED and fields.get("source") in (None, ""):
        raise InputError(
            "this is a judge's own verdict (a line of memalign judge), not an expert's; who agrees with it writes their "
            "name in source, who does not writes their own value too"
        )
    known = split(fields)
    if "value" in known:
        value = known["value"]
        if value_type is not None:
            known["value"] = value_type.parse(value)
        elif not isinstance(value, bool | int | float | str) or (isinstance(value, float) and math.isinf(value)):
            raise InputError(f"value {value!r} is not a label: a boolean, a number or text")
    return Feedback(**known)


def _check_against(
    feedback: Feedback,
    key_lines: Mapping[FeedbackKey, int],
    contents: Mapping[str, tuple[int, Feedback]],
    known: Mapping[str, str],
) -> None:
    """Check one row against the rows before it and what the judge knows."""
    if feedback.key in key_lines:
        raise InputError(f"{feedback.key} is on line {key_lines[feedback.key]} already; keep one of the two")
    if not feedback.content:
        return
    if feedback.id in contents:
        line, first = contents[feedback.id]
        if first.content_hash != feedback.content_hash:
            raise InputError(f"{differing(first, feedback)} differ from those of {feedback.id!r} on line {line}")
    elif known.get(feedback.id, feedback.content_hash) != feedback.content_hash:
        raise InputError(
            f"the judge knows {feedback.id!r} with other content; give this case an id of its own, or unalign "
            f"{feedback.id!r} first"
        )
