"""What a guideline must look like before it may enter the system message.

A model that has read judged outputs writes it, or a person; either may carry text that would act as an instruction of
its own. So it is one line, short, without control tokens, fences or the beginning of a chat turn, and never a copy of
what was judged. A check enters prompts too, and is a question besides.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable

from memalign.content.encoding import encode

__all__ = ["MAX_WORDS", "guideline_fault", "normalised", "tidy"]

MAX_WORDS, MAX_CHARACTERS = 60, 800
"""Characters are the bound where a language writes no spaces; for sixty words of the longest kind they are enough."""

COPIED_WORDS = 8

# Beside all that `encode` would break in judged text. Searched in the text's NFKC form: a full-width bracket or colon
# is the plain one to many tokenizers, and to readers.
_MARKS = re.compile(
    r"<\||\|>|<<SYS|```|~~~|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS)\]|^\s*#"
    r"|</?\s*(?:system|user|assistant|think|tool|start_of_turn|end_of_turn)\b|</?(?:s|bos|eos)>",
    re.IGNORECASE,
)
# Vicuna's template and its kin open a turn by a capital name within a line. Of names as people write them those of the
# side that gives and takes instructions stay out; "User: never promise a date" is how experts begin a rule.
_TURN = re.compile(r"\b(?:SYSTEM|USER|ASSISTANT|HUMAN|DEVELOPER)\s*:|(?:^|[.;!?]\s*)(?i:system|assistant)\s*:")
# The form in which judges answer and past cases are shown: a rule that has it would be a verdict of its own.
_VERDICT = re.compile(r"[\"']value[\"']\s*:|(?:^|[.;!?]\s*)Expert\s*:", re.IGNORECASE)
# Shown as nothing, though their categories are those of letters and marks: fillers, selectors, joiners of graphemes.
# U+FE0E and U+FE0F choose between text and emoji.
_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0d\uffa0\U000e0000-\U000e0fff]"
)
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
)
_WORD = re.compile(r"\w+", re.UNICODE)


def tidy(text: str) -> str:
    """`text` in one line: runs of white space become one space, and a list mark goes."""
    return re.sub(r"^(?:[-*•]\s+|\d+[.)]\s+)", "", " ".join(text.split())).strip()


def normalised(text: str) -> str:
    """What two guidelines share when they say the same in the same words: letters and digits, case-folded."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))


def guideline_fault(text: str, judged: Iterable[tuple[str, str]] = (), comments: Collection[str] = ()) -> str | None:
    """Why `text` may not become a guideline, or None if it may.

    `judged` are texts of the judged system, each with its field; a run of eight words from one is a copy, not a rule,
    unless one of the `comments`, the experts' own words that the text stems from, has that run too.
    """
    if not normalised(text):
        return "it is empty"
    for count, most, what in ((len(text.split()), MAX_WORDS, "words"), (len(text), MAX_CHARACTERS, "characters")):
        if count > most:
            return f"it has {count:,} {what}; at most {most} are allowed"
    invisible = ("Cc", "Cf", "Co", "Cs", "Zl", "Zp")
    if _HIDDEN.search(text) or any(unicodedata.category(character) in invisible for character in text):
        return "it contains line breaks or invisible characters"
    plain = unicodedata.normalize("NFKC", text)
    if _MARKS.search(plain) or encode(plain) != json.dumps(plain, ensure_ascii=False):
        return "it contains a control token of chat models or a fence"
    if turn := _TURN.search(plain):
        return f"it opens a chat turn with {turn[0].lstrip('.;!? ')!r}"
    if _VERDICT.search(plain):
        return "it contains a verdict in the form of a model's answer"
    for field, output in judged:
        if _copies(text, output, comments):
            return f"it copies eight words of what was judged ({field})"  # which ones may have to be erased
    return None


def _copies(text: str, source: str, comments: Collection[str]) -> bool:
    """Whether `text` shares a run of eight words with `source`, and with none of the `comments`.

    Where a language writes no spaces, of twice as many characters.
    """
    for run in UNSPACED.findall(text):
        pieces = (run[start : start + 2 * COPIED_WORDS] for start in range(len(run) - 2 * COPIED_WORDS + 1))
        if any(piece in source and not any(piece in comment for comment in comments) for piece in pieces):
            return True
    words = normalised(text).split()
    copied, *quoted = (f" {normalised(spaced)} " for spaced in (source, *comments))
    starts = range(len(words) - COPIED_WORDS + 1)
    runs = (f" {' '.join(words[start : start + COPIED_WORDS])} " for start in starts)
    return any(run in copied and not any(run in comment for comment in quoted) for run in runs)
