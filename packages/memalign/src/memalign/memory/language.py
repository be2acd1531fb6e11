"""In which of a few languages a text is written: English, Portuguese or Spanish, told by their commonest words.

It says whether the English-centred embedder can be trusted with an item. A detector of all languages would bring a
model or megabytes of tables.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Literal

__all__ = ["Language", "language_of"]

Language = Literal["English", "Portuguese", "Spanish"]

MOST_CHARACTERS = 2000

# What stands in every sentence of one language and in few of another. Words of English and another (a, as, do, he, me,
# no) are left out.
_WORDS = {
    "English": "about all an and any are at be been but by can could did does for from had have here how i if in into "
    "is it its just more my not of on or our she some than that the their them then there these they this those to us "
    "was we were what when where which who will with without would you your",
    "Portuguese": "ao aos com da das e ela elas ele eles em essa esse eu foi isso isto lhe mais mas meu meus minha "
    "minhas muito na nas nem o onde os ou pela pelas pelo pelos qual quando sem seu seus sua suas tem ter um uma umas "
    "uns",
    "Spanish": "al con cuando del donde el ella ellas ellos en eso esos fue hasta hay la las lo los mi mis muy otra "
    "otro pero sin solo su sus un una unas unos usted ustedes y ya yo",
    "either": "antes como de desde dos entre es esta este esto ha ja nos para por porque que se ser sobre te",
}
_KIND = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_PORTUGUESE_LETTER = re.compile("[ãõçâêôà]")
_SPANISH_LETTER = re.compile("[ñ¿¡]")
_ACCENTED = re.compile("[áéíóúüâêôãõàçñ]")
_WORD = re.compile(r"[¿¡]?\w+")


def language_of(text: str) -> Language | None:
    """The language of `text`; None where nothing tells, as of a single name, a number, or a language it does not know.

    Of a text above 2,000 characters, the first and last 1,000 are looked at.
    """
    half = MOST_CHARACTERS // 2
    seen = text if len(text) <= MOST_CHARACTERS else f"{text[:half]} {text[-half:]}"
    plain = seen.isascii()  # as most texts are: no accents to look for
    words = _WORD.findall(seen.lower() if plain else unicodedata.normalize("NFC", seen).lower())
    counts = Counter(map(_KIND.get, words) if plain else (_KIND.get(word) or _by_letters(word) for word in words))
    english, portuguese, spanish = counts["English"], counts["Portuguese"], counts["Spanish"]
    either = counts["either"]
    if portuguese + spanish + either > english:
        return "Portuguese" if portuguese >= spanish else "Spanish"
    return "English" if english else None


def _by_letters(word: str) -> str | None:
    if _PORTUGUESE_LETTER.search(word):
        return "Portuguese"
    if _SPANISH_LETTER.search(word):
        return "Spanish"
    return "either" if _ACCENTED.search(word) else None
