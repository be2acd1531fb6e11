"""What a guideline must look like before it may enter the system message.

A guideline is written by a person, or by a model that has read judged outputs. Either may carry
text that would act as an instruction of its own. So a guideline is one short line, without control
tokens, fences or the beginning of a chat turn, and never a copy of what was judged.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator

from memalign.content.encoding import encode
from memalign.content.normal import UNSPACED, word_form

__all__ = ["MAX_WORDS", "JudgedTexts", "guideline_fault", "tidy"]

MAX_WORDS = 60
MAX_CHARACTERS = 800
"""The bound for languages without spaces; sixty words of the longest kind fit."""

COPIED_WORDS = 8
"""Words of a judged text that are a copy; without spaces, twice as many characters are one."""

# In addition to all that `encode` would break in judged text. The text is searched in NFKC form: a
# full-width bracket or colon is the plain one to many tokenizers, and to readers.
_MARKS = re.compile(
    r"<\||\|>|<<SYS|```|~~~|^\s*#"
    r"|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS)\]"
    r"|</?\s*(?:system|user|assistant|think|tool|start_of_turn|end_of_turn)\b|</?(?:s|bos|eos)>",
    re.IGNORECASE,
)
# Vicuna's template and its kin open a turn by a name in capitals within a line. Names in small
# letters are refused only for the sides that give and take instructions: "User: never promise a
# date" is how experts begin a rule.
_TURN = re.compile(
    r"\b(?:SYSTEM|USER|ASSISTANT|HUMAN|DEVELOPER)\s*:|(?:^|[.;!?]\s*)(?i:system|assistant)\s*:"
)
# The form in which judges answer and past cases are shown: a rule of this form would be a verdict
# of its own.
_VERDICT = re.compile(r"[\"']value[\"']\s*:|(?:^|[.;!?]\s*)Expert\s*:", re.IGNORECASE)
# Invisible, although their categories are those of letters and marks: fillers, selectors, joiners
# of graphemes. U+FE0E and U+FE0F stay out: they choose between text and emoji.
_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164"
    "\ufe00-\ufe0d\uffa0\U000e0000-\U000e0fff]"
)
_LIST_MARK = re.compile(r"^(?:[-*•]\s+|\d+[.)]\s+)")
_INVISIBLE = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
"""Categories of characters that nobody sees."""


def tidy(text: str) -> str:
    """Return the text in one line: runs of white space become one space, and a list mark goes."""
    line = " ".join(text.split())
    return _LIST_MARK.sub("", line).strip()


def guideline_fault(
    text: str,
    judged: JudgedTexts | Iterable[tuple[str, str]] = (),
    comments: Collection[str] = (),
) -> str | None:
    """Return why `text` may not become a guideline, or None if it may.

    Args:
        text: The rule.
        judged: Texts of the judged system, each with its field. They may have to be erased, so no
            rule copies them.
        comments: The experts' own words that the text stems from: what they quote is theirs.
    """
    fault = _size_fault(text) or _form_fault(text)
    if fault is not None:
        return fault
    if not isinstance(judged, JudgedTexts):
        judged = JudgedTexts(judged)
    field = judged.copied(text, comments)
    if field is None:
        return None
    return f"it copies eight words of what was judged ({field})"


def _size_fault(text: str) -> str | None:
    words = len(text.split())
    if not word_form(text):
        return "it is empty"
    if words > MAX_WORDS:
        return f"it has {words:,} words; at most {MAX_WORDS} are allowed"
    if len(text) > MAX_CHARACTERS:
        return f"it has {len(text):,} characters; at most {MAX_CHARACTERS} are allowed"
    return None


def _form_fault(text: str) -> str | None:
    """Return why the text would be more to a model than a rule."""
    categories = set(map(unicodedata.category, text))
    if not categories.isdisjoint(_INVISIBLE) or _HIDDEN.search(text):
        return "it contains line breaks or invisible characters"
    plain = unicodedata.normalize("NFKC", text)
    unsafe = encode(plain) != json.dumps(plain, ensure_ascii=False)
    if unsafe or _MARKS.search(plain):
        return "it contains a control token of chat models or a fence"
    turn = _TURN.search(plain)
    if turn is not None:
        opening = turn[0].lstrip(".;!? ")
        return f"it opens a chat turn with {opening!r}"
    if _VERDICT.search(plain):
        return "it contains a verdict in the form of a model's answer"
    return None


class JudgedTexts:
    """Texts of the judged system, each with its field, that no guideline may copy from."""

    def __init__(self, texts: Iterable[tuple[str, str]] = ()) -> None:
        self._words = [(field, _padded(text)) for field, text in texts]

    def copied(self, text: str, comments: Collection[str]) -> str | None:
        """Return the field of a judged text that shares a run with `text`, but with no comment.

        Args:
            text: The rule.
            comments: The experts' own words that the rule stems from.
        """
        runs = list(_runs(text))
        for comment in comments:
            theirs = _padded(comment)
            runs = [run for run in runs if run not in theirs]
        for field, judged in self._words:
            for run in runs:
                if run in judged:
                    return field
        return None


def _padded(text: str) -> str:
    """Return the words of a text, each between spaces."""
    words = word_form(text)
    return f" {words} "


def _runs(text: str) -> Iterator[str]:
    """Yield every run of words that would be a copy, and of letters where no spaces are written."""
    plain = word_form(text)
    words = plain.split()
    for end in range(COPIED_WORDS, len(words) + 1):
        start = end - COPIED_WORDS
        run = " ".join(words[start:end])
        yield f" {run} "
    length = 2 * COPIED_WORDS
    for letters in UNSPACED.findall(plain):
        for end in range(length, len(letters) + 1):
            start = end - length
            yield letters[start:end]
