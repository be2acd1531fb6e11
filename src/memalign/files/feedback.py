"""Rows become feedback or examples; every bad one is named by its line and reason.

Rows are flat: an Example's fields, `value`, `rationale`, `source` and `created_at`; every other column goes to `meta`.
Python objects pass through the same checks as rows of a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from memalign.errors import InputError, InvalidRows, RowError
from memalign.files.rows import Row, read_rows
from memalign.records import CONTENT_FIELDS, UNKNOWN_SOURCE, Example, Feedback, canonical_json
from memalign.values import ValueType

__all__ = [
    "FeedbackFile",
    "check_examples",
    "check_feedback",
    "read_examples",
    "read_feedback",
]

_LABEL_FIELDS = ("value", "rationale", "source", "created_at")
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
    """The feedback of a JSONL, CSV or JSON file, checked by the rules of `check_feedback`.

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
    return _checked(_given(rows), name, value_type=value_type, known=known or {}, skip_invalid=skip_invalid)


def read_examples(path: str | Path) -> list[Example]:
    """The examples of a JSONL, CSV or JSON file, checked by the rules of `check_examples`.

    Raises InvalidRows with the line and reason of every bad row, InputError when the file cannot be read or is empty.
    """
    return _checked_examples(read_rows(path), str(path))


def check_examples(items: Iterable[Example | Feedback | Mapping[str, Any]], *, name: str = "examples") -> list[Example]:
    """Examples from Examples, Feedback or mappings; label columns are ignored.

    Several people's feedback on one case gives one example, at its first place. Any other id that comes twice is an
    error, and so is a row without id or content. Raises InvalidRows.
    """
    return _checked_examples(_given(items), name)


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
    key_lines: dict[str, int] = {}
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
            bad.append(RowError(line=row.line, reason=str(error), id=_shown_id(row.fields)))
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
            bad.append(RowError(line=line, reason=f"no content: {_content_needed()}", id=feedback.id))
    bad.sort(key=lambda error: error.line)
    if bad and not skip_invalid:
        raise InvalidRows(name, bad, hint=_SKIP_HINT)
    return FeedbackFile(rows=tuple(good.values()), lines=tuple(good), invalid=tuple(bad))


def _feedback(fields: Mapping[str, Any], value_type: ValueType | None) -> Feedback:
    known = _split(fields)
    if "value" in known:
        value = known["value"]
        if value_type is not None:
            known["value"] = value_type.parse(value)
        elif not isinstance(value, bool | int | float | str) or (isinstance(value, float) and math.isinf(value)):
            raise InputError(f"value {value!r} is not a label: a boolean, a number or text")
    return Feedback(**known)


def _check_against(
    feedback: Feedback,
    key_lines: Mapping[str, int],
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
            raise InputError(f"{_differing(first, feedback)} differ from those of {feedback.id!r} on line {line}")
    elif known.get(feedback.id, feedback.content_hash) != feedback.content_hash:
        raise InputError(
            f"the judge knows {feedback.id!r} with other content; give this case an id of its own, or unalign "
            f"{feedback.id!r} first"
        )


# -- examples ------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True, slots=True)
class _Found:
    """An id of an examples file: where it was first, its content once a row has it, and who spoke of it."""

    line: int
    example: Example | None
    voices: set[str]


def _checked_examples(rows: Iterable[Row | RowError], name: str) -> list[Example]:
    found: dict[str, _Found] = {}
    bad: list[RowError] = []
    for row in rows:
        if isinstance(row, RowError):
            bad.append(row)
            continue
        try:
            _add_example(row, found)
        except InputError as error:
            bad.append(RowError(line=row.line, reason=str(error), id=_shown_id(row.fields)))
    for example_id, case in found.items():
        if case.example is None:
            bad.append(RowError(line=case.line, reason=f"no content: {_content_needed()}", id=example_id))
    if bad:
        raise InvalidRows(name, sorted(bad, key=lambda error: error.line))
    return [case.example for case in found.values() if case.example is not None]


def _add_example(row: Row, found: dict[str, _Found]) -> None:
    fields = _split(row.fields)
    labels = {name: fields.pop(name, None) for name in _LABEL_FIELDS}
    voice = str(labels["source"] or UNKNOWN_SOURCE)
    is_voice = any(labels[name] is not None for name in ("value", "rationale", "source"))
    has_content = any(name in fields for name in CONTENT_FIELDS)
    if not has_content and not is_voice:
        raise InputError(f"no content: {_content_needed()}")
    if not fields["id"]:
        raise InputError("id is missing or empty")
    example = Example(**fields) if has_content else None
    case = found.get(fields["id"])
    if case is None:
        found[fields["id"]] = _Found(line=row.line, example=example, voices={voice} if is_voice else set())
        return
    if example is not None and case.example is not None and example.content_hash != case.example.content_hash:
        raise InputError(f"{_differing(case.example, example)} differ from those of {example.id!r} on line {case.line}")
    if not is_voice or not case.voices or voice in case.voices:
        raise InputError(f"{fields['id']!r} is on line {case.line} already; an example is judged once")
    case.voices.add(voice)
    case.example = case.example or example


# -- rows ----------------------------------------------------------------------------------------------------------


def _given(items: Iterable[object]) -> Iterator[Row | RowError]:
    for position, item in enumerate(items, 1):
        if isinstance(item, Example | Feedback):
            yield Row(line=position, fields=msgspec.structs.asdict(item))
        elif isinstance(item, Mapping):
            yield Row(line=position, fields={str(name): value for name, value in item.items()})
        else:
            yield RowError(line=position, reason=f"a row is a mapping or one of our values, not {type(item).__name__}")


def _split(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are present, ready for Example or Feedback, with all that they do not know in `meta`."""
    rest = {name: value for name, value in fields.items() if not _absent(value)}
    known = {name: rest.pop(name) for name in ("id", *CONTENT_FIELDS, *_LABEL_FIELDS) if name in rest}
    known.setdefault("id", "")
    for name in ("id", "source"):
        # Numbered cases and people are common, and a CSV file would give the same numbers as text.
        if isinstance(known.get(name), int) and not isinstance(known[name], bool):
            known[name] = str(known[name])
        if isinstance(known.get(name), str):
            known[name] = known[name].strip()
        elif name in known:
            raise InputError(f"{name} must be text")
    if isinstance(known.get("rationale"), str) and not known["rationale"].strip():
        del known["rationale"]
    meta = rest.pop("meta", {})
    if not isinstance(meta, Mapping):
        raise InputError("meta must be a JSON object")
    both = sorted(meta.keys() & rest.keys())
    if both:
        raise InputError(f"{', '.join(both)} is both a column and in meta; keep one")
    known["meta"] = {**meta, **rest}
    for name in (*CONTENT_FIELDS, "meta"):
        if name in known:
            try:
                canonical_json(known[name])
            except InputError as error:
                raise InputError(f"{name} is {error}") from None
    return known


def _absent(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))  # pandas writes NaN for a missing cell


def _shown_id(fields: Mapping[str, Any]) -> str | None:
    given = fields.get("id")
    return str(given)[:80] if isinstance(given, str | int) and str(given).strip() else None


def _content_needed() -> str:
    return f"one of {', '.join(CONTENT_FIELDS)} is required, in this row or in another one of the same id"


def _differing(first: Example | Feedback, second: Example | Feedback) -> str:
    names = [name for name in CONTENT_FIELDS if first.content.get(name) != second.content.get(name)]
    return ", ".join(names) or "the content fields"
