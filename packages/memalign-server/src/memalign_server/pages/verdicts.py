"""The choices of a verdict: what each button says, sends, and by which key it is pressed."""

from __future__ import annotations

from dataclasses import dataclass

from memalign.values import Value, ValueType, value_text
from memalign_server.pages.languages import Language

__all__ = ["Choice", "choices_of"]

_MOST = 9
_TAKEN = frozenset("skuftz")  # skip, cannot tell, undo, focus, teach


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One button: the label that it stands for, as it is sent and as it is read, and its key."""

    value: Value
    sent: str
    text: str
    key: str


def choices_of(kind: ValueType, language: Language) -> list[Choice]:
    """A button for each label, where there are few; none for other types, which are typed."""
    if not 0 < len(kind.labels) <= _MOST:
        return []
    found = []
    for number, label in enumerate(kind.labels, 1):
        text = language.verdict(label)
        key = (
            text[0].lower()
            if kind.kind == "bool"
            else str(label)
            if kind.kind == "int" and 0 <= int(label) <= 9
            else str(number)
        )
        if key in _TAKEN:
            key = str(number)
        found.append(Choice(value=label, sent=value_text(label), text=text, key=key))
    return found
