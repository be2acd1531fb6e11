"""The languages of the pages: English in the code, gettext's catalogues for the others (README.md says how)."""

from __future__ import annotations

import gettext
from datetime import datetime
from functools import cache
from pathlib import Path

from markupsafe import Markup, escape

from memalign.values import Value, value_text

LANGUAGES = {"en": "English", "pt": "Português", "es": "Español"}
_NONE = "\N{EN DASH}"
_CATALOGUES = Path(__file__).parent.parent / "locales"


class Language:
    """One language: `say` a sentence and `count` things; `parts` take the places of `{names}`."""

    def __init__(self, code: str) -> None:
        self.code, self._catalogue = code, gettext.translation("messages", _CATALOGUES, [code], fallback=True)

    def say(self, english: str, **parts: object) -> str:
        """The sentence in this language; it is markup if a part is."""
        sentence = self._catalogue.gettext(english)
        if any(isinstance(part, Markup) for part in parts.values()):
            sentence = escape(sentence)
        return sentence.format_map(parts) if parts else sentence

    def count(self, n: int, singular: str, plural: str) -> str:
        """`singular` for 1 and `plural` for other numbers, `{n}` being the number."""
        return self._catalogue.ngettext(singular, plural, n).format(n=self.number(n))

    def number(self, value: float, digits: int = 0) -> str:
        """A number with this language's marks: 1,234.5 in English, 1.234,5 in the others."""
        text = f"{value:,.{digits}f}"
        return text if self.code == "en" else text.translate(str.maketrans(",.", ".,"))

    def percent(self, share: float | None) -> str:
        """A share of 1 as whole percent."""
        return _NONE if share is None else f"{self.number(100 * share)}{'' if self.code == 'en' else chr(0xA0)}%"

    def time(self, at: str | None) -> str:
        """A time in this language's format; the page's script shows it in the reader's time zone."""
        day = "%b %d, %Y" if self.code == "en" else "%d/%m/%Y"
        text = f"{datetime.fromisoformat(at):{day}, %H:%M} UTC" if at else ""
        return Markup('<time datetime="{}">{}</time>').format(at, text) if at else text

    def verdict(self, value: Value | None) -> str:
        """A label as people read it."""
        if value is None or isinstance(value, bool):
            return _NONE if value is None else self.say("Yes") if value else self.say("No")
        return self.number(value, 2) if isinstance(value, float) else value_text(value)


language = cache(Language)


def language_of(chosen: str | None, accepted: str | None) -> Language:
    """The language that a person chose, else the first that their browser asks for and we have, else English."""
    wanted = [part.strip()[:2].lower() for part in (accepted or "").split(",")]  # browsers send the preferred one first
    return language(next((code for code in (chosen, *wanted) if code in LANGUAGES), "en"))
