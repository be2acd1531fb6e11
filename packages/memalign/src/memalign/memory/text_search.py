"""Search for a text or a name, whatever its spelling, place or encoding in JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memalign.content.normal import UNSPACED, folded, search_form, unescaped
from memalign.content.walk import texts_in
from memalign.errors import InputError

__all__ = ["Finder", "NameFinder"]


class Finder:
    """Finds one text in texts and JSON values: folded as names are, and without accents.

    JSON's escapes are undone before it is compared. Raises InputError for a text that holds
    nothing.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._wanted = search_form(text)
        if not self._wanted:
            raise InputError("the text to search for is empty")

    def holds(self, text: str) -> bool:
        """Return whether a text holds the one that is looked for."""
        return any(self._wanted in search_form(form) for form in _forms(text))

    def within(self, value: Any) -> bool:
        """Return whether any text, number or field's name of a JSON value holds the text."""
        return any(map(self.holds, texts_in(value, numbers=True)))


class NameFinder:
    """Finds a person's name in texts, as whole words, in every spelling that folds to it."""

    def __init__(self, name: str) -> None:
        self._name = folded(name) or name
        pattern = re.escape(self._name)
        spaced = self._name.isascii() or not UNSPACED.search(self._name)
        if spaced and re.search(r"\w", self._name):
            pattern = rf"(?<!\w){pattern}(?!\w)"
        self._pattern = re.compile(pattern)

    def holds(self, text: str) -> bool:
        """Return whether a text names the person."""
        return any(map(self._names, _forms(text)))

    def _names(self, text: str) -> bool:
        plain = folded(text)
        if self._name not in plain:
            return False
        if self._pattern.search(plain):
            return True
        if plain.isascii():
            return False
        # Where a language writes no spaces, a name from another script is a word of its own all the
        # same.
        parted = UNSPACED.sub(lambda run: f" {run[0]} ", plain)
        return self._pattern.search(parted) is not None


def _forms(text: str) -> Iterator[str]:
    """Yield a text as it is, and without JSON's escapes if it has any."""
    yield text
    if "\\" in text:
        yield unescaped(text)
