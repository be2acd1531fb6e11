"""What a guideline must look like before it may enter the system message.

Guidelines are written by a model that has read judged outputs, or by a person. Either may carry, on purpose or not,
text that would act as an instruction of its own; so a guideline is one line, short, without role marks or fences, and
never a copy of what was judged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["MAX_WORDS", "copied_run", "guideline_fault", "normalised", "tidy"]

MAX_WORDS = 60
COPIED_WORDS = 8

_MARKS = re.compile(
    r"<[|\uff5c]|[|\uff5c]>|<<<|>>>|<<SYS|```|~~~|\[/?(?:INST|SYSTEM_PROMPT|TOOL_CALLS|AVAILABLE_TOOLS|TOOL_RESULTS)\]|^\s*#"
    r"|</?\s*(?:system|user|assistant|think|tool|start_of_turn|end_of_turn)\b|</?(?:s|bos|eos)>"
    r"|(?:^|[.;!?]\s*)(?:system|assistant|user|developer|human)\s*:",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+", re.UNICODE)


def tidy(text: str) -> str:
    """`text` in one line: runs of white space become one space, outer quotes and list marks go."""
    line = " ".join(text.split())
    return re.sub(r"^(?:[-*•]\s+|\d+[.)]\s+)", "", line).strip()


def normalised(text: str) -> str:
    """What two guidelines share when they say the same in the same words: letters and digits, case-folded."""
    return " ".join(_words(text))


def guideline_fault(text: str, outputs: Iterable[str] = ()) -> str | None:
    """Why `text` may not become a guideline, or None if it may.

    `outputs` are judged texts; a run of eight words from one of them is a copy, not a rule.
    """
    words = _words(text)
    if not words:
        return "it is empty"
    if len(text.split()) > MAX_WORDS:
        return f"it has {len(text.split())} words; at most {MAX_WORDS} are allowed"
    if any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
        return "it has line breaks or invisible characters"
    if _MARKS.search(text):
        return "it has a role mark or a fence"
    for output in outputs:
        if copied_run(text, output) is not None:
            return (
                "it copies eight words of a judged output"  # without them: a reason must not carry what may be erased
            )
    return None


def copied_run(text: str, source: str, length: int = COPIED_WORDS) -> str | None:
    """The first run of `length` words that `text` shares with `source`, or None."""
    wanted = _words(text)
    if len(wanted) < length:
        return None
    there = _words(source)
    runs = {tuple(there[i : i + length]) for i in range(len(there) - length + 1)}
    for i in range(len(wanted) - length + 1):
        if tuple(wanted[i : i + length]) in runs:
            return " ".join(wanted[i : i + length])
    return None


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
