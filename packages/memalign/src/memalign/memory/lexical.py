"""How far two texts share words: what retrieval falls back to where the in-process embedder is of little use.

A text's signature is the set of four-letter sequences of its words, accents and case left out, hashed to 4,096 bits.
Inflected forms share most of theirs (cobrado, cobrança), and no dictionary or stemmer is needed: four letters are what
retrieval in European languages does best with (McNamee and Mayfield 2004, doi 10.1023/B:INRT.0000009441.78971.be).
Nothing is stored: signatures are derived from the cases, so what was forgotten is in none. Figures: decision 8.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["overlap", "signatures"]

GRAM = 4
BITS = 4096
ROWS = 256  # texts in one pass: what it makes of them still fits the processor's cache, and a pass costs little
MOST_CHARACTERS = 2000  # with more, most bits would be set and every text would resemble every other


def overlap(known: NDArray[np.uint64], new: NDArray[np.uint64]) -> NDArray[np.float32]:
    """Cosine in [0, 1] of every signature of `known`, of shape (texts, 64), to `new`, of shape (64,).

    A text without a single word is like nothing: 0.
    """
    import numpy as np  # see retrieval

    shared = np.bitwise_count(known & new).sum(axis=1, dtype=np.float32)
    sizes = np.bitwise_count(known).sum(axis=1, dtype=np.float32)
    lengths = np.sqrt(sizes * np.float32(np.bitwise_count(new).sum()))
    cosine: NDArray[np.float32] = np.divide(shared, lengths, out=np.zeros_like(shared), where=lengths > 0)
    return cosine


def signatures(texts: Sequence[str]) -> NDArray[np.uint64]:
    """The texts' signatures, of shape (texts, 64): 4,096 bits each.

    Texts above 2,000 characters count with their first and last 1,000.
    """
    import numpy as np

    packed = np.zeros((len(texts), BITS // 8), dtype=np.uint8)
    for first in range(0, len(texts), ROWS):
        some = texts[first : first + ROWS]
        spread = np.zeros((len(some), BITS), dtype=np.bool_)
        spread[_grams(some)] = True
        packed[first : first + ROWS] = np.packbits(spread, axis=1)
    return packed.view(np.uint64)


def _grams(texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """The row and the bit of every four-letter sequence: all texts in one pass, many times faster than one by one."""
    import numpy as np

    end, space = "\0", np.uint32(ord(" "))
    joined = end.join(["", *(_ends(text).replace(end, " ") for text in texts), ""])
    letters = np.frombuffer(
        unicodedata.normalize("NFKD", joined.casefold()).encode("utf-32-le", "surrogatepass"), dtype=np.uint32
    )
    kind = _kinds()[np.minimum(letters, 0xFFFF)]
    kept = kind != _MARK  # accents go without a gap
    letters, kind = letters[kept], kind[kept]
    row = np.cumsum(letters == 0, dtype=np.int32) - 1
    letters = np.where(kind == _LETTER, letters, space)
    # Of several spaces one stays: a word is its letters between two spaces.
    kept = np.ones(len(letters), dtype=np.bool_)
    kept[1:] = (letters[1:] != space) | (letters[:-1] != space) | (row[1:] != row[:-1])
    letters, row = letters[kept], row[kept]
    count = len(letters) - GRAM + 1
    if count <= 0:
        return np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint32)
    hashed = letters[:count].copy()
    whole = np.ones(count, dtype=np.bool_)
    for offset in range(1, GRAM):
        letter = letters[offset : offset + count]
        hashed = (hashed * np.uint32(0x9E3779B1)) ^ letter
        if offset < GRAM - 1:
            whole &= letter != space  # a space may begin or end a sequence: " de ", "obra", "nça "
    hashed ^= hashed >> np.uint32(15)
    bit = (hashed * np.uint32(0x85EBCA77)) >> np.uint32(32 - (BITS - 1).bit_length())
    return row[1 : count + 1][whole], bit[whole]


_SPACE, _LETTER, _MARK = 0, 1, 2


@cache
def _kinds() -> NDArray[np.uint8]:
    """What each character of the basic plane is: a letter or digit, a combining mark, or something between words."""
    import numpy as np

    kinds = np.zeros(0x10000, dtype=np.uint8)
    for code in range(0x10000):
        character = chr(code)
        if character.isalnum():
            kinds[code] = _LETTER
        elif unicodedata.combining(character):
            kinds[code] = _MARK
    return kinds


def _ends(text: str) -> str:
    half = MOST_CHARACTERS // 2
    return text if len(text) <= MOST_CHARACTERS else f"{text[:half]} {text[-half:]}"
