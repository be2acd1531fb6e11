"""Rules about two alternatives must not name their places: what was A in one item is B in the next.

People who compare write "argument B gives a source"; a model that distils it keeps the B. In a rule the side that the
expert chose becomes "the preferred argument", and every other "the other argument"; of two between which nobody chose (a
tie, a comment without a label) the first becomes "one argument".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["without_positions"]


def without_positions(text: str, *, chosen: str | None, choices: Sequence[str]) -> str:
    """`text` with each name of a place replaced by the role that it had: preferred, or other; `chosen` None: one, or other.

    A name that is one letter counts on its own as well ("B gives a source"), but "A" at the beginning of a sentence only
    where another choice is named too: alone it is mostly an article. So do numbers by which people call the places of
    `choices`, in their order ("argument 2", "a1", "the second answer").
    """
    text = _lettered(text, choices)
    named = [choice for choice in choices if re.search(rf"\b{re.escape(choice)}\b", text)]
    first = min(named, key=text.index, default=None)
    for choice in choices:
        role = "the preferred" if choice == chosen else "the other"
        alone = f"{role} one"
        if chosen is None and choice == first:
            role = alone = "one"
        text = _by_noun(text, choice, role, alone)
        article = choice == "A" and len(named) < 2
        # In the midst of a sentence an article is small.
        begins = r"(?<=[a-z,] )" if article else r"(?<!-)"
        text = re.sub(rf"{begins}\b{re.escape(choice)}\b(?!-)", alone, text)
    return text


_NO_NOUNS = frozenset(
    {
        "and",
        "because",
        "both",
        "but",
        "for",
        "from",
        "than",
        "that",
        "what",
        "when",
        "whereas",
        "which",
        "while",
        "why",
        "with",
    }
)


_ALTERNATIVES = (
    "arg|argument|answer|candidate|comment|completion|option|output|post|reply|response|side|statement|text|version"
)
_ORDINALS = ("first", "second", "third", "fourth")


def _lettered(text: str, choices: Sequence[str]) -> str:
    """`text` with the numbers of alternatives as their names: "argument B" for "argument 2" and "the second argument"."""
    if any(re.search(r"\d", choice) for choice in choices):
        return text  # their names are numbers already
    for number, (choice, ordinal) in enumerate(zip(choices, _ORDINALS, strict=False), 1):
        text = re.sub(rf"\b({_ALTERNATIVES}) ?#?{number}\b", rf"\1 {choice}", text, flags=re.IGNORECASE)
        text = re.sub(rf"\b{ordinal} ({_ALTERNATIVES}|one)\b", rf"\1 {choice}", text, flags=re.IGNORECASE)
        text = re.sub(rf"\b[aA]{number}\b", f"one {choice}", text)
    return text


def _by_noun(text: str, choice: str, role: str, alone: str) -> str:
    """Make "the preferred argument" of "argument B"; an article that stands before it goes."""

    def renamed(found: re.Match[str]) -> str:
        if found[1] == "one":
            return alone
        return found[0] if found[1] in _NO_NOUNS else f"{role} {found[1]}"

    return re.sub(rf"\b(?:[Tt]he )?([a-z]{{3,}}) {re.escape(choice)}\b(?!-)", renamed, text)
