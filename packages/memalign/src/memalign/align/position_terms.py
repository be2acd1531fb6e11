"""Rules about two alternatives must not name their positions: what was A in one item is B in the next.

People who compare write "argument B gives a source"; a model that distils it keeps the B. In a rule the side that the
expert chose becomes "the preferred argument", and every other "the other argument". Of two between which nobody chose
(a tie, a comment without a label) the first becomes "one argument". Measured in docs/decisions/0007.

A check asks about one side alone: there "argument B" is just "the argument", and which side it was is told beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from memalign.prompts.language import language_of

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


# -- questions about one side alone ------------------------------------------------------------------------------------

_ENGLISH_NOUN = (
    rf"{_ALTERNATIVE}|agent|article|assistant|claim|code|description|design|document|e-?mail|essay|explanation|image"
    "|letter|message|model|paragraph|passage|plan|poem|program|proof|proposal|recipe|report|review|sentence|solution"
    "|story|summary|system|translation"
)
_NOUN = (
    f"{_ENGLISH_NOUN}|argumento|candidato|coment[áa]rio|lado|mensagem|mensaje|opção|opción|receita|receta|resposta"
    "|respuesta|resum[eo]n?|solução|solución|tradução|traducción|versão|versión"
)
_BEFORE_A_NAME = (
    "and|are|as|by|can|could|did|do|does|from|has|have|if|in|is|of|or|than|that|was|whether|will|would"
    "|de|do|e|em|en|o|ou|que|y"
)
_BOTH_SIDES = re.compile(
    rf"\b(?:both|neither|either)(?: of)?(?: the)? (?!sides?\b)(?:{_NOUN})s?\b|\bthe two (?:{_NOUN})s\b"
    r"|\b(?:than|as|from) the other\b"
    rf"|\b(?:the other|outr[oa]|otr[oa]) (?!side\b|lado\b)(?:{_NOUN}|one)\b|\bamb[oa]s\b",
    re.IGNORECASE,
)
_ROLE = re.compile(rf"^(\w+) the (?:preferred|chosen|winning|better) ({_NOUN}|one)\b")
_IT = {"Portuguese": "o texto", "Spanish": "el texto"}


def neutral_question(question: str, *, chosen: str | None, choices: Sequence[str]) -> tuple[str, str | None] | None:
    """A question about one side without the side's name, and the name (None: it had none); None if it is about both.

    "Does argument B cite a source?" gives ("Does the argument cite a source?", "B"). "The preferred argument" is the
    `chosen` one. None also for a name that cannot be taken out. Nouns are known in English, Portuguese and Spanish.
    """
    text = _lettered(question, choices)
    if _BOTH_SIDES.search(text):
        return None
    it = _IT.get(language_of(question) or "", "it")
    named: set[str] = set()
    for choice in choices:
        found = _without_name(text, choice, it)
        if found != text:
            named.add(choice)
        text = found
    if len(named) > 1 or any(_left_name(choice).search(text) for choice in choices):
        return None
    side = named.pop() if named else None
    if chosen is not None and side is None and (role := _ROLE.search(text)):
        side = chosen
        text = _ROLE.sub(f"{role[1]} {it if role[2] == 'one' else f'the {role[2]}'}", text)
    if side is None:
        return question, None
    return re.sub(r"^\u00bf?\w", lambda opening: opening[0].upper(), text), side


def _without_name(text: str, choice: str, it: str) -> str:
    """A question without one position's name: "the argument A", "argument A's", "the argument in A", "the left one"."""
    name = rf"{re.escape(choice)}\b(?!-)"

    def noun(found: re.Match[str]) -> str:
        article, word, own = found.group("article", "noun", "own")
        if word == "one":
            return it
        if article is None and re.fullmatch(_ENGLISH_NOUN, word, re.IGNORECASE):
            article, word = "the ", word[0].lower() + word[1:]
        return f"{article or ''}{word}{own or ''}"

    article, own = r"(?P<article>(?i:the|o|a|el|la) )?", r"(?P<own>['\u2019]s\b)?"
    some = rf"\b(?P<noun>(?i:{_NOUN}|one))"
    if not choice.islower() or not choice.isalpha():
        text = re.sub(rf"{article}{some}(?: in| of| from| by)? {name}{own}", noun, text)
        text = re.sub(rf"(?<![\w-]){name}['\u2019]s\b", "its" if it == "it" else it, text)
        opening = r"(?!)" if choice in _OPENING else r"(?<![^\u00bf])"
        return re.sub(rf"((?i:\b(?:{_BEFORE_A_NAME}) )|{opening}){name}", rf"\1{it}", text)
    if len(choice) > 1:  # a word of its own, such as "left"
        return re.sub(rf"{article}\b{name} {some}{own}", noun, text)
    # "a" is an article behind "the argument"
    return re.sub(rf"(?<!the )(?P<article>(?!))?{some} {name}{own}", noun, text)


_OPENING = ("A", "E", "O")
"""Names that are also words with which a question may begin, in one of the languages."""


def _left_name(choice: str) -> re.Pattern[str]:
    before = r"(?<=[\w,;:)] )" if choice in _OPENING else r"(?<![\w-])"
    word = choice.islower() and choice.isalpha()
    return re.compile(r"(?!)" if word else rf"{before}{re.escape(choice)}(?![\w-])")
