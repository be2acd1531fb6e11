"""The choices of a verdict: what each button says and sends, and the key that presses it."""

from __future__ import annotations

from dataclasses import dataclass

from memalign.values import Value, ValueType, value_text
from memalign_server.pages.languages import Language

__all__ = ["Choice", "choices_of", "verdict_text"]

_MOST = 9
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
        keys = [str(number) for number in range(1, len(texts) + 1)]
    return [
        Choice(value=label, sent=value_text(label), text=text, key=key)
        for label, text, key in zip(kind.labels, texts, keys, strict=True)
    ]


def verdict_text(kind: ValueType, value: Value | None, language: Language) -> str:
    """A verdict as people read it; of a judge that compares two sides, which of them is better."""
    ties = _TIES & {str(label).lower() for label in kind.labels}
    if value is None or kind.kind != "choice" or not ties:
        return language.verdict(value)
    return language.say("Equal") if str(value).lower() in ties else language.say("{side} is better", side=value)
