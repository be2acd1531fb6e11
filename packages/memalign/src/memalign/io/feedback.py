"""Rows become feedback; every bad one is named by its line and reason.

Rows are flat: an Example's fields, `value`, `rationale`, `source` and `created_at`; every other column goes to `meta`.
Python objects pass through the same checks as rows of a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, InvalidRows, RowError
from memalign.io.fields import content_needed, differing, given_rows, shown_id, split
from memalign.io.rows import Row, read_rows
from memalign.types import Feedback, FeedbackKey
from memalign.values import ValueType

__all__ = ["FeedbackFile", "check_feedback", "read_feedback"]

_SKIP_HINT = "fix them, or leave them out: --skip-invalid, skip_invalid=True in Python"


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedbackFile:
    """The good rows of a file or list, in order, with the line of each (`lines[i]` is that of `rows[i]`), and the bad.

    `invalid` is empty unless bad rows were to be skipped.
    """

    rows: tuple[Feedback, ...]
    lines: tuple[int, ...]
    invalid: tuple[RowError, ...] = ()


def read_feedback(
    path: str | Path,
    *,
    value_type: ValueType | None = None,
    known: Mapping[str, str] | None = None,
    skip_invalid: bool = False,
) -> FeedbackFile:
    """The feedback of a JSONL, CSV, JSON or Parquet file, checked by the rules of `check_feedback`.

    Raises InvalidRows with the line and reason of every bad row, unless `skip_invalid`; InputError when the file cannot
    be read or is empty.
    """
    return _checked(read_rows(path), str(path), value_type=value_type, known=known or {}, skip_invalid=skip_invalid)


def check_feedback(
    rows: Iterable[Feedback | Mapping[str, Any]],
    *,
    value_type: ValueType | None = None,
    known: Mapping[str, str] | None = None,
    skip_invalid: bool = False,
    name: str = "feedback",
) -> FeedbackFile:
    """The same checks for Python objects; a line is then the 1-based position.

    A row needs an id, a value or a rationale, and content. The content may be missing when another row of the same id
    has it (it is filled in) or when `known`, content hashes by id, has the id (the judge has it). Values are parsed by
    `value_type`, or kept as they are without one. A key twice, or an id with other content than in another row or in
    `known`, is an error. null, NaN and empty CSV cells mean "absent". Raises InvalidRows unless `skip_invalid`; `name`
    is what its message calls the rows.
    """
    return _checked(given_rows(rows), name, value_type=value_type, known=known or {}, skip_invalid=skip_invalid)


# -- feedback ------------------------------------------------------------------------------------------------------


def _checked(
    rows: Iterable[Row | RowError],
    name: str,
    *,
    value_type: ValueType | None,
    known: Mapping[str, str],
    skip_invalid: bool,
) -> FeedbackFile:
    good: dict[int, Feedback] = {}
    bad: list[RowError] = []
    key_lines: dict[FeedbackKey, int] = {}
    contents: dict[str, tuple[int, Feedback]] = {}
    for row in rows:
        if isinstance(row, RowError):
            bad.append(row)
            continue
        try:
            feedback = _feedback(row.fields, value_type)
            _check_against(feedback, key_lines, contents, known)
            if feedback.content:
                contents.setdefault(feedback.id, (row.line, feedback))
        except InputError as error:
            bad.append(RowError(line=row.line, reason=str(error), id=shown_id(row.fields)))
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
        raise InvalidRows(name, bad, hint=_SKIP_HINT)
    return FeedbackFile(rows=tuple(good.values()), lines=tuple(good), invalid=tuple(bad))


JUDGED = {"judge", "content_hash", "value"}
"""What every line of a judgment file has."""


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
