"""Feedback by what it says: which cases and words hold a text, whatever its case, spelling or place."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from memalign.errors import InputError

__all__ = ["Finder"]

# Invisible characters, and the accents of Latin, Greek and Cyrillic; in other scripts a mark may be a vowel.
_MARKS = re.compile("[\u00ad\u0300-\u036f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


class Finder:
    """Finds one text in texts and JSON values: case-folded, in NFKC form, without accents and invisible marks.

    A field that is JSON text of its own is searched decoded too. Raises InputError for a text that holds nothing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._wanted = _plain(text)
        if not self._wanted:
            raise InputError("the text to search for is empty")

    def holds(self, text: str) -> bool:
        """Whether a text holds the one that is looked for."""
        return self._wanted in _plain(text)

    def within(self, value: Any) -> bool:
        """Whether any text, number or field's name of a JSON value holds the one that is looked for."""
        return any(map(self.holds, _texts(value)))


def _plain(text: str) -> str:
    if text.isascii():  # has one normal form, and nothing invisible
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())  # as Unicode's D146
    return " ".join(unicodedata.normalize("NFC", _MARKS.sub("", folded)).split())


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, numbers and names of fields among them."""
    if isinstance(value, str):
        yield value
        if value.lstrip()[:1] in ("{", "["):
            try:
                inner = json.loads(value)
            except (ValueError, RecursionError):
                return
            yield from _texts(inner)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
