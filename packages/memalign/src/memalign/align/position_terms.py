"""Rules about two alternatives must not name their positions: what was A in one item is B in the next.

People who compare write "argument B gives a source"; a model that distils it keeps the B. In a rule the side that the
expert chose becomes "the preferred argument", and every other "the other argument". Of two between which nobody chose
(a tie, a comment without a label) the first becomes "one argument". Measured in docs/decisions/0007.

A check asks about one side alone: there "argument B" is just "the argument", and which side it was is told beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["neutral_question", "without_positions"]

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


_NOUN = (
    rf"{_ALTERNATIVE}|article|claim|code|essay|explanation|letter|message|passage|plan|poem|proposal|recipe|report"
    "|review|sentence|solution|story|summary|translation|argumento|mensagem|mensaje|receita|receta|resposta|respuesta"
    "|resumo|resumen|texto|tradução|traducción"
)
_BOTH_SIDES = re.compile(
    rf"\b(?:both|neither|either)(?: of)?(?: the)? (?!sides?\b)(?:{_NOUN})s?\b|\bthe two (?:{_NOUN})s\b"
    rf"|\b(?:than|as|from) the other\b|\b(?:the other|outr[oa]|otr[oa]) (?!side\b|lado\b)(?:{_NOUN}|one)\b"
    r"|\bamb[oa]s\b",
    re.IGNORECASE,
)
_ASKS = "Are|Can|Could|Did|Does|Has|Is|Was|Will|Would"


def neutral_question(question: str, choices: Sequence[str]) -> tuple[str, str | None] | None:
    """A question about one side without the side's name, and the name (None: it had none); None if it is about both.

    "Does argument B cite a source?" gives ("Does the argument cite a source?", "B"). None also for a name that cannot
    be taken out.
    """
    question = re.sub(rf"\bthe (?:preferred|chosen|better) (?={_NOUN})", "the ", question)
    text, named = _lettered(question, choices), set[str]()
    if _BOTH_SIDES.search(text):
        return None
    for choice in choices:
        name = rf"{re.escape(choice)}\b(?!-)"
        without, word = text, choice.isalpha() and choice.islower()  # "left", and "a", which is mostly an article
        if not word:
            without = re.sub(
                rf"\b((?i:the|o|a|el|la) )?((?i:{_NOUN}))(?: in| of)? {name}",
                lambda match: f"{match[1] or 'the '}{match[2].lower()}",
                without,
            )
        without = re.sub(rf"(?<=the ){name} (?={_NOUN})", "", without)
        if not word:
            without = re.sub(rf"^({_ASKS}) {name}", r"\1 it", without).replace(" it's ", " its ")
        if without != text:
            named.add(choice)
        text = without
        # As the first word "A" is an article.
        if not word and re.search(rf"(?<=\w ){re.escape(choice)}(?![\w-])", text):
            return None
    if len(named) > 1:
        return None
    return (text[0].upper() + text[1:], named.pop()) if named else (question, None)
