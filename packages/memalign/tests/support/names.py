"""Names of people, and other spellings of the same names, drawn at random."""

from __future__ import annotations

import string
import unicodedata
from typing import Any

from hypothesis import strategies as st

__all__ = ["names", "spelled_otherwise"]

# Letters that change by case, composition or width, beside scripts that do not. No
# letter whose capital is another letter's too, such as the dotless i.
_LETTERS = "abzéüñåøß\u03c3λάжйё王伟ひガ한글نדمक"
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u3164\ufe0f\u202e\u061c\u0007"
_BLANKS = ("  ", "\u00a0", "\u3000", "\t", "\u2009", "\u2800")

_WIDE = {ord(letter): ord(letter) + 0xFEE0 for letter in string.ascii_letters}

_words = st.text(_LETTERS, min_size=1, max_size=6)
names = st.lists(_words, min_size=1, max_size=3).map(" ".join)


@st.composite
def spelled_otherwise(draw: st.DrawFn, name: str) -> str:
    """Draw another spelling of a name: case, composition, width, white space, and what
    nobody sees."""
    written = ""
    for letter in name:
        written += draw(st.sampled_from((letter, letter.upper(), letter.casefold())))
    form: Any = draw(st.sampled_from(("NFC", "NFD", "NFKC", "NFKD")))
    text = unicodedata.normalize(form, written)
    if draw(st.booleans()):
        text = text.translate(_WIDE)
    blank = draw(st.sampled_from(_BLANKS))
    text = text.replace(" ", blank)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(_INVISIBLE)) + text[place:]
    ends = draw(st.sampled_from(("", " ", "\u00a0")))
    return f"{ends}{text}{ends}"
