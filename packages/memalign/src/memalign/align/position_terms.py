"""Rules about two alternatives must not name their positions: what was A in one item is B in the next.

People who compare write "argument B gives a source"; a model that distils it keeps the B. In a rule the side that the
expert chose becomes "the preferred argument", and every other "the other argument". Of two between which nobody chose
(a tie, a comment without a label) the first becomes "one argument". Measured in docs/decisions/0007.

A check asks about one side alone: one that names a side is left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["names_side", "without_positions"]

_ALTERNATIVE = (
    "arg|argument|answer|candidate|comment|completion|option|output|post|reply|response|side|statement|text|version"
)
_ORDINALS = ("first", "second", "third", "fourth")


def without_positions(text: str, *, chosen: str | None, choices: Sequence[str]) -> str:
    """`text` with each name of a position replaced by its role: preferred or other; with `chosen` None, one or other.

    A name counts on its own as well ("B gives a source"), but "A" at the beginning of a sentence only where another
    choice is named too: alone it is mostly an article. So do numbers in the order of `choices` ("argument 2", "a1").
    """
    text = _lettered(text, choices)
    named = [choice for choice in choices if re.search(rf"\b{re.escape(choice)}\b", text)]
    first = min(named, key=text.index, default=None)
    for choice in choices:
        role = "the preferred" if choice == chosen else "the other"
        alone = f"{role} one"
        if chosen is None and choice == first:
            role = alone = "one"
        name = rf"{re.escape(choice)}\b(?!-)"
        text = re.sub(rf"\b(?:[Tt]he )?({_ALTERNATIVE}) {name}", rf"{role} \1", text)
        text = re.sub(rf"\b(?:[Tt]he )?one {name}", alone, text)
        # In the midst of a sentence an article is small.
        before = r"(?<=[a-z,] )" if choice == "A" and len(named) < 2 else r"(?<!-)\b"
        text = re.sub(f"{before}{name}", alone, text)
    return text


def _lettered(text: str, choices: Sequence[str]) -> str:
    """`text` with alternatives' names for their numbers: "argument B" for "argument 2" and "the second argument"."""
    if any(re.search(r"\d", choice) for choice in choices):
        return text  # their names are numbers already
    for number, (choice, ordinal) in enumerate(zip(choices, _ORDINALS, strict=False), 1):
        text = re.sub(rf"\b({_ALTERNATIVE}) ?#?{number}\b", rf"\1 {choice}", text, flags=re.IGNORECASE)
        text = re.sub(rf"\b{ordinal} ({_ALTERNATIVE}|one)\b", rf"\1 {choice}", text, flags=re.IGNORECASE)
        text = re.sub(rf"\b[aA]{number}\b", f"one {choice}", text)
    return text


_BOTH_SIDES = re.compile(
    rf"\b(?:both|neither|either)(?: of)?(?: the)? (?!sides?\b)(?:{_ALTERNATIVE})s?\b|\bthe two (?:{_ALTERNATIVE})s\b"
    rf"|\b(?:than|as|from) the other\b|\bthe other (?!side\b)(?:{_ALTERNATIVE}|one)\b|\b(?:outr|otr|amb)[oa]s?\b",
    re.IGNORECASE,
)


def names_side(question: str, choices: Sequence[str]) -> bool:
    """Whether a question, which is to be about one side alone, names one, or is about both."""
    text = _lettered(question, choices)
    # "left" is a side where a noun follows, "a" is an article, and so is "A" at the beginning of a sentence.
    words = "|".join(re.escape(choice) for choice in choices if choice.isalpha() and choice.islower())
    names = "|".join(re.escape(choice) for choice in choices if not (choice.isalpha() and choice.islower()))
    patterns = [rf"\b(?:the )(?:{words}) (?:{_ALTERNATIVE})\b"] if words else []
    patterns += [rf"(?<=\w )(?:{names})(?![\w-])"] if names else []
    return bool(_BOTH_SIDES.search(text)) or any(re.search(pattern, text) for pattern in patterns)
