"""The languages of the pages: English in the templates, one table each for the others, and numbers and times as they are written there."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from memalign.values import Value, value_text

__all__ = ["LANGUAGES", "Language", "language_of"]

LANGUAGES: Mapping[str, str] = {"en": "English", "pt": "Português", "es": "Español"}
"""The languages by their codes, each by its own name."""

_TIME = {"en": "%Y-%m-%d %H:%M", "pt": "%d/%m/%Y %H:%M", "es": "%d/%m/%Y %H:%M"}


class Language:
    """One language: sentences by their English, with numbers and names put in."""

    def __init__(self, code: str, sentences: Mapping[str, str]) -> None:
        self.code = code
        self._sentences = sentences

    def say(self, english: str, **parts: object) -> str:
        """The sentence in this language; `parts` take the places of `{names}`. English where the table has none."""
        sentence = self._sentences.get(english, english)
        return sentence.format_map(parts) if parts else sentence

    def count(self, n: int, one: str, several: str, **parts: object) -> str:
        """`one` for 1 and `several` for other numbers, `{n}` being the number."""
        return self.say(one if n == 1 else several, n=self.number(n), **parts)

    def number(self, value: float, digits: int = 0) -> str:
        """A number with this language's marks: 1,234.5 in English, 1.234,5 in the others."""
        text = f"{value:,.{digits}f}"
        return text if self.code == "en" else text.translate(str.maketrans(",.", ".,"))

    def percent(self, share: float | None) -> str:
        """A share of 1 as whole percent; a dash for none."""
        return (
            "\N{EN DASH}" if share is None else f"{self.number(100 * share)}{'' if self.code == 'en' else chr(0xA0)}%"
        )

    def money(self, dollars: float) -> str:
        """Dollars and cents; of less than a dollar two digits that count."""
        digits = 2 if dollars >= 1 or dollars <= 0 else 1 - math.floor(math.log10(dollars))
        text = self.number(dollars, min(8, max(2, digits)))
        return f"${text}" if self.code == "en" else f"{text}{chr(0xA0)}US$"

    def time(self, at: str | None) -> str:
        """A time, in UTC."""
        return "" if not at else datetime.fromisoformat(at).strftime(_TIME[self.code])

    def verdict(self, value: Value | None) -> str:
        """A label as people read it."""
        if value is None:
            return "\N{EN DASH}"
        if isinstance(value, bool):
            return self.say("Yes") if value else self.say("No")
        return self.number(value, 2) if isinstance(value, float) else value_text(value)


@lru_cache(maxsize=len(LANGUAGES))
def language(code: str) -> Language:
    """The language of a code; English has no table."""
    path = Path(__file__).parent / "languages" / f"{code}.json"
    return Language(code, json.loads(path.read_text(encoding="utf-8")) if path.exists() else {})


def language_of(chosen: str | None, accepted: str | None) -> Language:
    """The language that a person chose, else the first that their browser asks for and there is, else English."""
    if chosen in LANGUAGES:
        return language(chosen)
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate((accepted or "").split(",")[:20]):
        name, _, quality = part.strip().partition(";q=")
        try:
            wanted.append((-float(quality or 1), place, name[:2].lower()))
        except ValueError:
            continue
    return language(next((code for _, _, code in sorted(wanted) if code in LANGUAGES), "en"))
