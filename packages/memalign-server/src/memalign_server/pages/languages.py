"""The languages of the pages: sentences from catalogues, and numbers, times and verdicts."""

from __future__ import annotations

import gettext
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Final

from markupsafe import Markup, escape

from memalign.values import Value, value_text

__all__ = ["LANGUAGES", "LANGUAGE_COOKIE", "Language", "language", "language_of"]

LANGUAGES: Final = {"en": "English", "pt": "Português", "es": "Español"}
LANGUAGE_COOKIE: Final = "memalign_language"
_NONE: Final = "\N{EN DASH}"
_SPACE: Final = "\N{NO-BREAK SPACE}"
_CATALOGUES: Final = Path(__file__).parent.parent / "locales"
_MARKS: Final = str.maketrans(",.", ".,")


class Language:
    """One language: `say` a sentence and `count` things; `parts` take the places of `{names}`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._catalogue = gettext.translation(
            "messages", _CATALOGUES, [code], fallback=True
        )

    @property
    def is_english(self) -> bool:
        """Return whether the pages are written in it."""
        return self.code == "en"

    def say(self, english: str, **parts: object) -> str:
        """Return the sentence in this language; it is markup if a part is."""
        sentence = self._catalogue.gettext(english)
        if any(isinstance(part, Markup) for part in parts.values()):
            sentence = escape(sentence)
        return sentence.format_map(parts) if parts else sentence

    def count(self, n: int, singular: str, plural: str) -> str:
        """Return `singular` for 1 and `plural` for other numbers, `{n}` being the number."""
        return self._catalogue.ngettext(singular, plural, n).format(n=self.number(n))

    def number(self, value: float, digits: int = 0) -> str:
        """Return a number with this language's marks: 1,234.5 in English, 1.234,5 in others."""
        text = f"{value:,.{digits}f}"
        if self.is_english:
            return text
        return text.translate(_MARKS)

    def percent(self, share: float | None) -> str:
        """Return a share of 1 as whole percent."""
        if share is None:
            return _NONE
        number = self.number(100 * share)
        space = "" if self.is_english else _SPACE
        return f"{number}{space}%"

    def time(self, at: str | None) -> str:
        """Return a time in this language's format; a script shows it in the reader's time zone."""
        if not at:
            return ""
        day = "%b %d, %Y" if self.is_english else "%d/%m/%Y"
        text = f"{datetime.fromisoformat(at):{day}, %H:%M} UTC"
        return Markup('<time datetime="{}">{}</time>').format(at, text)

    def verdict(self, value: Value | None) -> str:
        """Return a label as people read it."""
        if value is None:
            return _NONE
        if isinstance(value, bool):
            return self.say("Yes") if value else self.say("No")
        if isinstance(value, float):
            return self.number(value, 2)
        return value_text(value)


language = cache(Language)


def language_of(chosen: str | None, accepted: str | None) -> Language:
    """Return the language that a person chose, else the first that their browser asks for.

    It is English if no page is in any of them. Browsers send the preferred one first.
    """
    if chosen in LANGUAGES:
        return language(chosen)
    for part in (accepted or "").split(","):
        code = part.strip()[:2].lower()
        if code in LANGUAGES:
            return language(code)
    return language("en")
