"""The judge's question, and the choices of a verdict: what each button says and sends, and the key that presses it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from memalign.judge import Judge
from memalign.values import Value, ValueType, value_text
from memalign_server.pages.rendering import Language

_IN_PLACE = "\0"  # of a field
_FIELD = re.compile(
    r"\{\{(?:(?!\{\{).)*?\}\}|\{%(?:(?!\{%).)*?%\}", re.DOTALL
)  # one that never ends is none
_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_WORDS = r"([^\W\d][^\n,;.()]*?)(?=\s+(?:and|to)\s+\d|[\n,;.()]|$)"
_MEANING = rf"(?<![\w.]){{}}(?:\s*(?:=|:|-|\u2013|is|means)\s*{_WORDS}|\s*\({_WORDS}\))"
_MOST = 10
_ORDER = 3  # words: fewer say nothing, such as "Rate"
_TIES = frozenset(("tie", "equal", "draw"))


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One button: the label it is for, as it is sent and as it is read, and its key."""

    value: Value
    sent: str
    text: str
    key: str


def choices_of(kind: ValueType, language: Language) -> list[Choice]:
    """A button for each label, if there are few; none for other types, whose values are typed."""
    if not 0 < len(kind.labels) <= _MOST:
        return []
    texts = [verdict_text(kind, label, language) for label in kind.labels]
    keys = [text[:1].upper() for text in texts]
    if len(set(keys)) < len(keys) or not all(key.isalnum() for key in keys):
        keys = [str(number % 10) for number in range(1, len(texts) + 1)]
    return [
        Choice(value=label, sent=value_text(label), text=text, key=key)
        for label, text, key in zip(kind.labels, texts, keys, strict=True)
    ]


def verdict_text(kind: ValueType, value: Value | None, language: Language) -> str:
    """A verdict as people read it; of a judge that compares two sides, which of them is better."""
    ties = _TIES & {str(label).lower() for label in kind.labels}
    if value is None or kind.kind != "choice" or not ties:
        return language.verdict(value)
    return (
        language.say("Equal")
        if str(value).lower() in ties
        else language.say("{side} is better", side=value)
    )


def question_of(judge: Judge) -> str:
    """Return what experts decide, from the instructions: the first question, else the first line without a field.

    Of one line alone it is the first sentence without a field, or what stands before the field.
    """
    text = _FIELD.sub(_IN_PLACE, judge.instructions)
    sentences = (
        sentence.strip() for line in text.splitlines() for sentence in _SENTENCE.findall(line)
    )
    whole = [one for one in sentences if _IN_PLACE not in one]
    question = next((one for one in whole if one.endswith("?")), None)
    lines = (line.strip() for line in text.splitlines())
    line = next((line for line in lines if line and _IN_PLACE not in line), None)
    before = text.partition(_IN_PLACE)[0].strip().rstrip(" :,-\u2013").strip()
    orders = (one for one in (*whole, before) if len(one.split()) >= _ORDER)
    return question or line or next(orders, judge.name)


def scale_ends(judge: Judge) -> tuple[str, str] | None:
    """What the lowest and the highest score mean in the instructions: `1 = cold, 5 = warm`; None if they do not say."""
    labels = judge.value_type.labels if judge.value_type.kind == "int" else ()
    if len(labels) < 2:
        return None
    ends = [
        re.search(_MEANING.format(label), judge.instructions, re.IGNORECASE)
        for label in (labels[0], labels[-1])
    ]
    low, high = ((end[1] or end[2]).strip() if end else "" for end in ends)
    return (low, high) if low and high else None
