"""Whether an item has the words that a model quotes from it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from memalign.judge.code_tests import places

__all__ = ["quotation"]

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
# The marks are what is searched for.
_QUOTES = str.maketrans(dict.fromkeys("\"'`´‘’‚‛“”„‟′″«»‹›", "'"))  # noqa: RUF001
_OUTER = " \"'`‘’“”„«»…"  # noqa: RUF001  # as above


def quotation(evidence: object, shown: Iterable[str]) -> str | None:
    """The words that `evidence` quotes, if one of the texts that a model was `shown` has them; else None.

    White space counts as one space, all quotation marks as the same one, and JSON's escapes as what they stand for, on
    both sides: the texts are JSON, and a model may escape a second time. Nothing else is forgiven: a piece of a word is
    no quotation, for "not safe" is not in "not safety", and neither are marks alone.

    Args:
        evidence: What the model wrote.
        shown: The fields of the item as they stood in the prompt.
    """
    if not isinstance(evidence, str):
        return None
    words, plain = " ".join(evidence.split()), [_plain(text) for text in shown]
    for quoted in (words, words.strip(_OUTER)):
        wanted = _plain(quoted)
        if any(character.isalnum() for character in wanted) and any(
            True for text in plain for _ in places(text, wanted)
        ):
            return quoted
    return None


def _plain(text: str) -> str:
    for _ in range(3):  # JSON in JSON: a text that was cut is encoded twice
        opened = _ESCAPE.sub(_unescaped, text)
        if opened == text:
            break
        text = opened
    return " ".join(unicodedata.normalize("NFC", text).translate(_QUOTES).split())


def _unescaped(match: re.Match[str]) -> str:
    code, character = match.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(character, character)
