"""The judge's question, and the choices of a verdict: what each button says, sends, and its key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from memalign.judge import Judge
from memalign.values import Value, ValueType, value_text
from memalign_server.pages.languages import Language

__all__ = ["Choice", "choices_of", "question_of", "scale_ends", "verdict_text"]

_IN_PLACE: Final = "\0"
"""In the place of a field of the instructions."""
# A field that never ends is none.
_FIELD: Final = re.compile(r"\{\{(?:(?!\{\{).)*?\}\}|\{%(?:(?!\{%).)*?%\}", re.DOTALL)
_SENTENCE: Final = re.compile(r"[^.!?]+[.!?]*")
_WORDS: Final = r"([^\W\d][^\n,;.()?!]*?)(?=\s+(?:and|to)\s+\d|[\n,;.()?!]|$)"
_MEANING: Final = (
    rf"(?<![\w.]){{}}(?:\s*(?:=|:|-|\u2013|is|means)\s*{_WORDS}|\s*\({_WORDS}\))"
)
_NUMBERS: Final = "1234567890"
"""The keys of buttons whose labels do not begin with different letters."""
_MOST: Final = len(_NUMBERS)
"""Labels for which there are buttons."""
_ORDER: Final = 3
"""Words of an order: fewer say nothing, such as "Rate"."""
_TIES: Final = frozenset(("tie", "equal", "draw"))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One button of a verdict.

    Attributes:
        value: The label that it stands for.
        sent: The label as it is sent.
        text: The label as people read it.
        key: The key that presses the button.
    """

    value: Value
    sent: str
    text: str
    key: str


def choices_of(kind: ValueType, language: Language) -> list[Choice]:
    """Return a button for each label if there are few; values of other types are typed."""
    if not 0 < len(kind.labels) <= _MOST:
        return []
    texts = [verdict_text(kind, label, language) for label in kind.labels]
    keys = [text[:1].upper() for text in texts]
    has_twins = len(set(keys)) < len(keys)
    if has_twins or not all(map(str.isalnum, keys)):
        keys = list(_NUMBERS)
    choices = []
    for label, text, key in zip(kind.labels, texts, keys, strict=False):
        sent = value_text(label)
        choices.append(Choice(value=label, sent=sent, text=text, key=key))
    return choices


def verdict_text(kind: ValueType, value: Value | None, language: Language) -> str:
    """Return a verdict as people read it; of a judge of pairs, which side is better.

    A verdict in words has no full stop at its end, because sentences go on after it.
    """
    if kind.kind == "str" and isinstance(value, str):
        return value.rstrip().removesuffix(".")
    ties = _TIES.intersection(choice.lower() for choice in kind.choices)
    if value is None or not ties:
        return language.verdict(value)
    if str(value).lower() in ties:
        return language.say("Equal")
    return language.say("{side} is better", side=value)


def question_of(judge: Judge) -> str:
    """Return what experts decide, as the instructions say it.

    It is the first question; else the first line without a field; else the first sentence without
    a field, or what stands before the first field; else the judge's name.
    """
    text = _FIELD.sub(_IN_PLACE, judge.instructions)
    lines = [line.strip() for line in text.splitlines()]
    sentences = list(_sentences(lines))
    for sentence in sentences:
        if sentence.endswith("?"):
            return sentence
    for line in lines:
        if line and _IN_PLACE not in line:
            return line
    before, _, _ = text.partition(_IN_PLACE)
    before = before.strip().rstrip(" :,-\u2013").strip()
    for order in (*sentences, before):
        if len(order.split()) >= _ORDER:
            return order
    return judge.name


def _sentences(lines: list[str]) -> Iterator[str]:
    """Yield the sentences that hold no field."""
    for line in lines:
        for sentence in _SENTENCE.findall(line):
            if _IN_PLACE not in sentence:
                yield sentence.strip()


def scale_ends(judge: Judge) -> tuple[str, str] | None:
    """Return the meanings of the lowest and the highest score, or None if nothing says both.

    They are read from the instructions: `1 = cold, 5 = warm`.
    """
    kind = judge.value_type
    if kind.kind != "int" or len(kind.labels) < 2:
        return None
    low = _meaning(kind.labels[0], judge.instructions)
    high = _meaning(kind.labels[-1], judge.instructions)
    return (low, high) if low and high else None


def _meaning(label: Value, instructions: str) -> str:
    found = re.search(_MEANING.format(label), instructions, re.IGNORECASE)
    return (found[1] or found[2]).strip() if found else ""
