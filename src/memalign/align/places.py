"""Rules about two alternatives must not name their places: what was A in one item is B in the next.

People who compare write "argument B gives a source"; a model that distils it keeps the B. In a rule the side that the
expert chose becomes "the preferred argument", and every other "the other argument"; of two between which nobody chose (a
tie, a comment without a label) the first becomes "one argument".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memalign.memory import Case
from memalign.values import ValueType

__all__ = ["places_of", "without_places"]


def places_of(case: Case, value_type: ValueType) -> tuple[str, ...]:
    """The labels that are names under which the item shows its alternatives, as in a pairwise comparison; else none."""
    if value_type.kind != "choice":
        return ()
    shown = {name for field in case.example.content.values() if isinstance(field, dict) for name in field}
    places = tuple(choice for choice in value_type.choices if choice in shown)
    return places if len(places) > 1 else ()


def without_places(text: str, *, chosen: str | None, choices: Sequence[str]) -> str:
    """`text` with each name of a place replaced by the role that it had: preferred, or other; `chosen` None: one, or other.

    A name that is one letter counts on its own as well ("B gives a source"), but "A" only where another choice is named
    too: alone it is mostly an article.
    """
    named = [choice for choice in choices if re.search(rf"\b{re.escape(choice)}\b", text)]
    first = min(named, key=text.index, default=None)
    for choice in choices:
        role = "the preferred" if choice == chosen else "the other"
        alone = f"{role} one"
        if chosen is None and choice == first:
            role = alone = "one"
        text = _by_noun(text, choice, role)
        article = choice == "A" and len(named) < 2
        if not article:
            text = re.sub(rf"(?<!-)\b{re.escape(choice)}\b(?!-)", alone, text)
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


def _by_noun(text: str, choice: str, role: str) -> str:
    """Make "the preferred argument" of "argument B"; an article that stands before it goes."""

    def renamed(found: re.Match[str]) -> str:
        return found[0] if found[1] in _NO_NOUNS else f"{role} {found[1]}"

    return re.sub(rf"\b(?:[Tt]he )?([a-z]{{3,}}) {re.escape(choice)}\b(?!-)", renamed, text)
