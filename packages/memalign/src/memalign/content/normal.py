"""Every normal form of words, side by side: two texts say the same where their forms are equal.

Which form is asked decides what is forgotten, quoted, found or retired, so each says why it differs
from the others. No form changes what is stored or shown.

| form | case | accents | white space | other signs | for |
|---|---|---|---|---|---|
| `folded`, `name_key` | goes | stay | one blank | stay; marks are plain | people, labels |
| `search_form` | goes | go | one blank | stay; marks are plain | what somebody searches for |
| `word_form` | goes | stay | one blank | are blanks | guidelines, runs of words |
| `literal_form` | stays | stay | one blank | stay; quotation marks are plain | tests by code |
| `quote_form` | stays | stay | one blank | stay; quotation marks are one | what a model quotes |
| `column_form` | goes | stay | is `_` | are `_` | names of columns |
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

__all__ = [
    "UNSPACED",
    "column_form",
    "folded",
    "literal_form",
    "name_key",
    "printable",
    "quote_form",
    "quote_lines",
    "search_form",
    "search_letters",
    "snake_case",
    "unescaped",
    "whole_text",
    "word_form",
    "words_and_pairs",
]

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\U00020000-\U0003ffff]+"
)
"""Letters of languages that write no spaces: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""

# Nobody sees these: controls, formats, joiners, fillers and selectors of variants.
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_BLANK = "\u2800"  # a pattern of Braille without a dot, which looks like a space
_ACCENTS = re.compile(
    "[\u0300-\u036f]"
)  # of Latin, Greek and Cyrillic; elsewhere a mark may be a vowel
_WORD = re.compile(r"\w+")
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_QUOTES = str.maketrans(
    dict.fromkeys("´‘’‚‛ʼ′‹›", "'") | dict.fromkeys("“”„‟″«»", '"')  # noqa: RUF001
)
_PLAIN = _QUOTES | dict.fromkeys(
    map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"), "-"
)
_ONE_QUOTE = str.maketrans('"`', "''")

# To blanks: all that is in no word. For ASCII ten times as quick as a regular expression, and the
# same.
_GAPS = {
    code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) == "_")
}


# -- words of people -------------------------------------------------------------------------------


def folded(text: str) -> str:
    """Return a text without what makes no difference to a reader.

    Case, composed and decomposed letters, wide and narrow forms, kinds and runs of white space,
    kinds of dashes and of quotation marks, which word processors change, and invisible characters
    make no difference. Accents do, because José and Jose may be two people.
    """
    if text.isascii():
        return " ".join(_HIDDEN.sub("", text).lower().split())
    text = text.translate(_PLAIN)
    # Twice, because a letter that one step brings forth may have another case or be composed again.
    for _ in range(2):
        text = unicodedata.normalize("NFKC", _HIDDEN.sub("", text))
        text = text.translate(_PLAIN).casefold()
    text = unicodedata.normalize("NFKC", _HIDDEN.sub("", text))
    return " ".join(text.replace(_BLANK, " ").split())


@lru_cache(maxsize=10_000)
def name_key(name: str) -> str:
    """Return the folded form of a person's name: two spellings of one name have the same.

    Compare people by this form alone, and show them as they were written. It differs from `folded`
    in a name of which nothing is visible, because such people must not all become one.

    Args:
        name: The name as somebody wrote it.

    Returns:
        The form to compare; the name itself if nothing in it is visible.
    """
    return folded(name) or name


def search_form(text: str) -> str:
    """Return a text as a search compares it: folded, and without accents.

    Accents go because people search without them. What a search finds too much a person unticks;
    what it misses stays behind when everything should be forgotten.
    """
    plain = folded(text)
    if plain.isascii():
        return plain
    return unicodedata.normalize(
        "NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", plain))
    )


def search_letters(text: str) -> Iterator[tuple[str, int]]:
    """Yield the letters of the search form, decomposed, each with its place in the text.

    By them a page marks what a search found. A run of white space is one blank, at its first place.
    """
    before = ""
    for place, letter in enumerate(text):
        form = " " if letter.isspace() else search_form(letter)
        if form == before == " ":
            continue
        before = form or before
        for part in unicodedata.normalize("NFKD", form):
            yield part, place


# -- words of guidelines and cases -----------------------------------------------------------------


def word_form(text: str) -> str:
    """Return the words of a text, their letters and digits without case.

    Punctuation goes, unlike in `folded`, because two guidelines that differ in it alone are one.
    """
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def words_and_pairs(text: str) -> list[str]:
    """Return the words of `word_form`; every two characters in languages without spaces.

    JSON's escapes are undone first, because erased words are looked for in bytes of files too.
    """
    text = unescaped(text)
    if text.isascii():
        return text.lower().translate(_GAPS).split()
    return UNSPACED.sub(_pairs, word_form(text)).split()


def _pairs(run: re.Match[str]) -> str:
    pairs = " ".join(map("".join, pairwise(run[0])))
    return f" {pairs or run[0]} "


def literal_form(text: str) -> str:
    """Return a text with plain quotation marks and single blanks, as tests by code compare it.

    Capitals stay, because "US" is not "us"; a test that does not care folds the case itself.
    """
    return " ".join(unicodedata.normalize("NFKC", text.translate(_QUOTES)).split())


def quote_form(text: str) -> str:
    """Return the form of tests with all quotation marks the same, as quotations are compared.

    A model that quotes inside JSON changes marks and escapes a second time, which tests of experts
    never do.
    """
    for _ in range(3):  # JSON in JSON: a text that was cut is encoded twice
        text = _ANY_ESCAPE.sub(_character, text)
    return literal_form(text).translate(_ONE_QUOTE)


def quote_lines(texts: Iterable[str]) -> str:
    """Return texts in the form of quotations, each on a line of its own.

    No quotation in this form has the end of a line, so none is found across two texts.
    """
    return "\n".join(map(quote_form, texts))


# -- names of fields and columns -------------------------------------------------------------------


def snake_case(name: str) -> str:
    """Return `userFeedback` as `user_feedback`; dots stay, because tracers nest names by them."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def column_form(name: str) -> str:
    """Return the name of a column as `user_feedback`, whichever signs are between its words.

    Signs become `_`, unlike in `snake_case`, because spreadsheets write `User feedback:` for the
    same column.
    """
    return "_".join(re.findall(r"[^\W_]+", snake_case(name).casefold()))


# -- characters ------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|([nrtbf\"'/]))")
"""How JSON writes a character, also JSON inside JSON, where every backslash is doubled."""

_ANY_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}


def unescaped(text: str) -> str:
    r"""Return the text with JSON's escapes undone, however deep: `Jos\\u00e9` is José.

    The text need not be JSON: a log line, half an object, or a fence around one is read too. A
    backslash before a letter of white space becomes white space, also in a text that is none.
    """
    if "\\" not in text:
        return text
    return whole_text(_ESCAPE.sub(_character, text))


def _character(escape: re.Match[str]) -> str:
    """Return the character of any escape: a model may escape what JSON does not."""
    code, character = escape.groups()
    if code is not None:
        return chr(int(code, 16))
    return _ESCAPED.get(character, character)


def whole_text(text: str) -> str:
    """Return a text that UTF-8 can hold: halves of pairs are joined, and a lone half is U+FFFD."""
    if text.isascii() or not _HALF_PAIR.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_ORDINARY = "\n\t\u00ad\u200b\u200c\u200d\u200e\u200f"
"""Line breaks, and joiners and marks of direction, without which many languages cannot be read."""


def printable(text: object) -> str:
    """Return a text without characters that a terminal obeys, for judged outputs are anybody's."""
    shown: list[str] = []
    for character in str(text).replace("\r\n", "\n"):
        is_plain = character.isprintable() or character in _ORDINARY
        if is_plain or unicodedata.category(character) == "Zs":
            shown.append(character)
        else:
            shown.append("\N{REPLACEMENT CHARACTER}")
    return "".join(shown)
