"""Search for a text or a name in what people and systems wrote, whatever its spelling, place or encoding in JSON."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from memalign.errors import InputError
from memalign.keys import folded
from memalign.memory.guard import UNSPACED

__all__ = ["Finder", "NameFinder", "unescaped"]

# The accents of Latin, Greek and Cyrillic; in other scripts a mark may be a vowel.
_ACCENTS = re.compile("[\u0300-\u036f]")
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|([nrtbf])|([\"'/]))")
"""How JSON writes a character, also JSON in a text of JSON, where every backslash is written twice."""


def unescaped(text: str) -> str:
    r"""Return the text with JSON's escapes undone, however deep: `Jos\\u00e9` is José.

    The text need not be JSON: a log line, half an object, or a fence around one is read too. An escape of white space
    becomes a blank, and so does a backslash before one of its letters in a text that is none.
    """
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(_character, text)
    if _HALF.search(plain):  # of a character that is written as two escapes
        plain = plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return plain


def _character(escape: re.Match[str]) -> str:
    code, _, sign = escape.groups()
    if code is not None:
        return chr(int(code, 16))
    return sign or " "


class Finder:
    """Finds one text in texts and JSON values: folded as names are, and without accents.

    JSON's escapes are undone before it is compared. Raises InputError for a text that holds nothing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._wanted = _plain(text)
        if not self._wanted:
            raise InputError("the text to search for is empty")

    def holds(self, text: str) -> bool:
        """Return whether a text holds the one that is looked for."""
        if self._wanted in _plain(text):
            return True
        return "\\" in text and self._wanted in _plain(unescaped(text))

    def within(self, value: Any) -> bool:
        """Return whether any text, number or field's name of a JSON value holds the one that is looked for."""
        return any(map(self.holds, _texts(value)))


class NameFinder:
    """Finds a person's name in texts, as whole words, in every spelling that folds to it; see `keys.folded`."""

    def __init__(self, name: str) -> None:
        self._name = folded(name) or name
        spaced = self._name.isascii() or not UNSPACED.search(self._name)
        edges = (r"(?<!\w)", r"(?!\w)") if spaced and re.search(r"\w", self._name) else ("", "")
        self._pattern = re.compile(f"{edges[0]}{re.escape(self._name)}{edges[1]}")

    def holds(self, text: str) -> bool:
        """Return whether a text names the person."""
        return self._names(text) or ("\\" in text and self._names(unescaped(text)))

    def _names(self, text: str) -> bool:
        plain = folded(text)
        if self._name not in plain:
            return False
        # Where a language writes no spaces, a name from another script is a word of its own all the same.
        parted = plain if plain.isascii() else UNSPACED.sub(lambda run: f" {run[0]} ", plain)
        return bool(self._pattern.search(parted) or self._pattern.search(plain))


def _plain(text: str) -> str:
    plain = folded(text)
    if plain.isascii():
        return plain
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", plain)))


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, numbers and names of fields among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield str(name)
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
