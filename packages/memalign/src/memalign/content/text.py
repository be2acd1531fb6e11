"""The texts of a field: what retrieval compares, what a rule was taken from, and what a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from memalign.content.conversation import Turn, turns_of
from memalign.content.traces import span_tree
from memalign.content.walk import texts_in
from memalign.errors import InputError

__all__ = ["as_read", "judged_texts", "words_of"]

DEEPEST = 12
"""Levels of a trace that are shown by indentation."""

_OTHER_SIDE = frozenset(("user", "human", "customer", "client", "system", "developer"))


def words_of(name: str, value: object) -> Iterator[str]:
    """The texts and numbers of the field `name`, in order.

    Of a conversation what is said, not by whom; of a trace what came in and what went out, the
    names of its steps and what went wrong: ids, times and the repetitions on the way would make all
    traces alike.
    """
    if name == "trace" and (tree := span_tree(value)) is not None:
        for span in tree.spans:
            if span.parent is None:
                yield from texts_in([span.inputs, span.outputs], keys=False, numbers=True)
        yield from dict.fromkeys(span.name for span in tree.spans)
        yield from dict.fromkeys(span.message for span in tree.spans if span.message)
    elif turns := _turns(name, value):
        yield from texts_in(
            [[turn.content, *turn.calls] for turn in turns], keys=False, numbers=True
        )
    else:
        yield from texts_in(value, keys=False, numbers=True)


def judged_texts(content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """What the judged system said, with its field: outputs, turns, a trace's outputs; all of one that is a text."""
    for name in ("outputs", "conversation", "trace"):
        value = content.get(name)
        if name == "trace" and (tree := span_tree(value)) is not None:
            value = [span.outputs for span in tree.spans if span.parent is None]
        elif turns := _turns(name, value):
            own = (turn for turn in turns if (turn.role or "").lower() not in _OTHER_SIDE)
            value = [[turn.content, *turn.calls] for turn in own]
        if text := "\n".join(texts_in(value, keys=False, numbers=True)):
            yield name, text


def as_read(name: str, value: object) -> str:
    """Return a field in lines for a reader: `user: …` for a turn, `question: …` for a key, indented as it nests.

    Args:
        name: The field.
        value: What it holds. Levels of a trace below the twelfth are indented like that one.
    """
    if isinstance(value, str):
        return value
    if turns := _turns(name, value):
        lines: list[str] = []
        for turn in turns:
            message = {turn.role or "-": turn.content or ""}
            if turn.calls:
                message["calls"] = turn.calls
            lines += _lines(message)
        return "\n".join(lines)
    if name != "trace" or (tree := span_tree(value)) is None:
        return "\n".join(_lines(value))
    lines = []
    for span in tree.spans:
        parts = {
            key: getattr(span, key)
            for key in ("inputs", "outputs")
            if getattr(span, key) is not None
        }
        indent = "  " * min(span.depth, DEEPEST)
        lines += [f"{indent}{span.name}", *_lines(parts, f"{indent}  ")]
    return "\n".join(lines)


def _turns(name: str, value: object) -> tuple[Turn, ...]:
    """The turns of a conversation; none of any other field, of a text, or where it is no conversation."""
    try:
        return turns_of(value) or () if name == "conversation" else ()
    except InputError:  # of a memory that somebody put together by hand: whatever it is has words
        return ()


def _lines(value: object, indent: str = "") -> Iterator[str]:
    """Return `name: text` on one line; what has several lines, or parts, below its name."""
    if not isinstance(value, dict | list | tuple):
        for line in _text(value).split("\n"):
            yield f"{indent}{line}"
        return
    parts = value.items() if isinstance(value, dict) else (("-", part) for part in value)
    for key, part in parts:
        name = f"{key}:" if isinstance(value, dict) else key
        text = "\n" if isinstance(part, dict | list | tuple) else _text(part)
        if "\n" not in text:
            yield f"{indent}{name} {text}".rstrip()
        else:
            yield f"{indent}{name}"
            yield from _lines(part, f"{indent}  ")


def _text(value: object) -> str:
    return str(value) if isinstance(value, str) else json.dumps(value, default=str)
