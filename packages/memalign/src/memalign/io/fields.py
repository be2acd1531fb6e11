"""What rows of feedback and of examples have in common: fields that are present, and words for what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from memalign.content import check_field
from memalign.errors import InputError, RowError
from memalign.io.cells import is_absent
from memalign.io.rows import LABEL_FIELDS, Row
from memalign.types import CONTENT_FIELDS, Example, Feedback, canonical_json

__all__ = ["content_needed", "differing", "given_rows", "split"]


def given_rows(items: Iterable[object]) -> Iterator[Row | RowError]:
    """Python objects as rows; a line is then the 1-based position. What is a row already stays as it is."""
    for position, item in enumerate(items, 1):
        if isinstance(item, Row | RowError):
            yield item
        elif isinstance(item, Example | Feedback):
            yield Row(line=position, fields=msgspec.structs.asdict(item))
        elif isinstance(item, Mapping):
            yield Row(line=position, fields={str(name): value for name, value in item.items()})
        else:
            yield RowError(line=position, reason=f"a row is a mapping or one of our values, not {type(item).__name__}")


def split(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are present, ready for Example or Feedback, with all that they do not know in `meta`."""
    rest = {name: value for name, value in fields.items() if not is_absent(value)}
    known = {name: rest.pop(name) for name in ("id", *CONTENT_FIELDS, *LABEL_FIELDS) if name in rest}
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
    for name in (*CONTENT_FIELDS, "meta") if known["meta"] else CONTENT_FIELDS:
        if name in CONTENT_FIELDS and name in known:
            check_field(name, known[name])
        if name in known and not isinstance(known[name], str):  # any text is JSON
            try:
                canonical_json(known[name])
            except InputError as error:
                raise InputError(f"{name} is {error}") from None
    return known


def content_needed() -> str:
    """What a row without content lacks."""
    return f"one of {', '.join(CONTENT_FIELDS)} is required, in this row or in another one of the same id"


def differing(first: Example | Feedback, second: Example | Feedback) -> str:
    """The content fields in which two rows of one id differ."""
    names = [name for name in CONTENT_FIELDS if first.content.get(name) != second.content.get(name)]
    return ", ".join(names) or "the content fields"
