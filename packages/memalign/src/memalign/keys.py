"""Keys of feedback: who said it, of which case; their written form; which a selector names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from memalign.content.normal import name_key
from memalign.errors import InputError, UnknownKey

__all__ = [
    "FeedbackKey",
    "first_spellings",
    "name_key",
    "readings",
    "same_person",
    "select_keys",
]


_MOST_MARKS = 20  # `@` in an id that is not quoted


def same_person(one: str | None, other: str | None) -> bool:
    """Return whether two names are spellings of one; a missing name is nobody's."""
    if one is None or other is None:
        return False
    return one == other or name_key(one) == name_key(other)


def first_spellings(names: Iterable[str]) -> dict[str, str]:
    """Return for each written name the first spelling of the same person among these names."""
    first: dict[str, str] = {}
    return {name: first.setdefault(name_key(name), name) for name in names}


class FeedbackKey(NamedTuple):
    """Whose feedback on which case: the identity of a piece of feedback, in JSON a list of the two.

    Two keys are equal if the ids are and the sources are spellings of one name; see `name_key`.

    `str` gives the one written form, for commands and messages: `t-17@ana`, and
    `t-17@ana@example.org` for the feedback of ana@example.org. An id that holds an `@`, or begins
    with a double quote, is quoted as in JSON: `"mail@x"@ana`.
    """

    id: str
    source: str

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FeedbackKey):
            return self.id == other.id and same_person(self.source, other.source)
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.id, name_key(self.source)))

    def __str__(self) -> str:
        written = _written_id(self.id)
        if not self.source:
            return written
        return f"{written}@{self.source}"

    @classmethod
    def parse(cls, text: str) -> FeedbackKey:
        """Read the key of a written form. Raises InputError."""
        for example_id, source in readings(text):
            if example_id and source:
                return cls(example_id, source)
        raise InputError(
            f"{text!r} is not a key of feedback, which is written t-17@ana"
        )


Selector = str | FeedbackKey
"""What names feedback: a key, a written key, or the id of a case."""


def _written_id(example_id: str) -> str:
    if "@" in example_id or example_id.startswith('"'):
        return json.dumps(example_id, ensure_ascii=False)
    return example_id


def select_keys(
    keys: Iterable[FeedbackKey], selectors: Iterable[Selector]
) -> dict[Selector, tuple[FeedbackKey, ...]]:
    """Find the keys that every selector names, by selector; none for one that names nothing.

    Selectors are keys, written keys (`t-17@ana`), or ids (`t-17`, or `"mail@x"` as in written
    keys), which name all feedback on the case. An id with an `@` may come without quotes;
    UnknownKey says when it then names several things.
    """
    by_id: dict[str, list[FeedbackKey]] = {}
    for key in keys:
        by_id.setdefault(key.id, []).append(key)
    return {selector: _named(by_id, selector) for selector in selectors}


def readings(selector: str) -> list[tuple[str, str | None]]:
    """Return the ids that a written key may mean, each with a source or None for all feedback.

    An id with more than twenty marks `@` has to be quoted.
    """
    if selector.startswith('"'):
        with suppress(ValueError):
            example_id, end = json.JSONDecoder().raw_decode(selector)
            rest = selector[end:]
            if not rest:
                return [(example_id, None)]
            if rest.startswith("@"):
                return [(example_id, rest[1:])]
    found: list[tuple[str, str | None]] = [(selector, None)]
    parts = selector.split("@", _MOST_MARKS)
    for count in range(1, len(parts)):
        example_id = "@".join(parts[:count])
        source = "@".join(parts[count:])
        reading = (example_id, source)
        found.append(reading)
    return found


def _named(
    by_id: Mapping[str, list[FeedbackKey]], selector: Selector
) -> tuple[FeedbackKey, ...]:
    if isinstance(selector, FeedbackKey):
        return tuple(key for key in by_id.get(selector.id, ()) if key == selector)
    meanings: dict[str, tuple[FeedbackKey, ...]] = {}
    for example_id, source in readings(selector):
        keys = by_id.get(example_id, [])
        written = json.dumps(example_id, ensure_ascii=False)
        if source is not None:
            keys = [key for key in keys if same_person(source, key.source)]
            written += f"@{source}"
        if keys:
            meanings[written] = tuple(keys)
    if len(meanings) > 1:
        raise UnknownKey(
            f"{selector!r} could mean {' or '.join(meanings)}; "
            "write the one you mean, with its quotes"
        )
    return next(iter(meanings.values()), ())
