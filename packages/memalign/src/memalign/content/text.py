"""The texts of a field: what retrieval compares, what rules are taken from, what a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from memalign.content.conversation import Turn, turns_of
from memalign.content.traces import SpanTree, span_tree
from memalign.content.walk import members, texts_in
from memalign.errors import InputError

__all__ = ["as_read", "judged_texts", "words_of"]

DEEPEST = 12
"""Levels of a trace that are shown by indentation."""

_OTHER_SIDE = frozenset(("user", "human", "customer", "client", "system", "developer"))


def words_of(name: str, value: object) -> Iterator[str]:
    """Yield the texts and numbers of a field, in order.

    Of a conversation they are what is said, not by whom. Of a trace they are what came in and what
    went out, the names of its steps and what went wrong: ids, times and repetitions would make all
    traces alike.
    """
    tree = _tree(name, value)
    turns = _turns(name, value)
    if tree is not None:
        for span in tree.spans:
            if span.parent is None:
                yield from _words([span.inputs, span.outputs])
        yield from dict.fromkeys(span.name for span in tree.spans)
        yield from dict.fromkeys(span.message for span in tree.spans if span.message)
    elif turns:
        yield from _words([[turn.content, *turn.calls] for turn in turns])
    else:
        yield from _words(value)


def judged_texts(content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what the judged system said, by field: outputs, its turns, a trace's outputs."""
    for name in ("outputs", "conversation", "trace"):
        value = content.get(name)
        tree = _tree(name, value)
        turns = _turns(name, value)
        if tree is not None:
            value = [span.outputs for span in tree.spans if span.parent is None]
        elif turns:
            own: list[object] = []
            for turn in turns:
                role = turn.role or ""
                if role.lower() not in _OTHER_SIDE:
                    own += [turn.content, *turn.calls]
            value = own
        text = "\n".join(_words(value))
        if text:
            yield name, text


def as_read(name: str, value: object) -> str:
    """Return a field in lines for a reader: `user: …` for a turn, `question: …` for a key.

    Args:
        name: The field.
        value: What it holds. Levels of a trace below the twelfth are indented like that one.
    """
    if isinstance(value, str):
        return value
    tree = _tree(name, value)
    turns = _turns(name, value)
    lines: list[str] = []
    if turns:
        for turn in turns:
            message = {turn.role or "-": turn.content or ""}
            if turn.calls:
                message["calls"] = turn.calls
            lines += _lines(message)
    elif tree is None:
        lines += _lines(value)
    else:
        for span in tree.spans:
            indent = "  " * min(span.depth, DEEPEST)
            parts = {"inputs": span.inputs, "outputs": span.outputs}
            present = {key: part for key, part in parts.items() if part is not None}
            lines += [f"{indent}{span.name}", *_lines(present, f"{indent}  ")]
    return "\n".join(lines)


def _words(value: object) -> Iterator[str]:
    return texts_in(value, keys=False, numbers=True)


def _tree(name: str, value: object) -> SpanTree | None:
    """Return the spans of a trace in one of the usual forms; None for any other field."""
    if name != "trace":
        return None
    return span_tree(value)


def _turns(name: str, value: object) -> tuple[Turn, ...]:
    """Return the turns of a conversation; none of any other field, or of a text."""
    if name != "conversation":
        return ()
    try:
        return turns_of(value) or ()
    # Of a memory that somebody put together by hand: whatever it is has words.
    except InputError:
        return ()


def _lines(value: object, indent: str = "") -> Iterator[str]:
    """Yield `name: text` on one line; several lines, or parts, go below the name."""
    if not isinstance(value, dict | list | tuple):
        for line in _text(value).split("\n"):
            yield f"{indent}{line}"
        return
    for key, part in members(value):
        name = f"{key}:" if isinstance(value, dict) else "-"
        if isinstance(part, dict | list | tuple) or "\n" in _text(part):
            yield f"{indent}{name}"
            yield from _lines(part, f"{indent}  ")
        else:
            text = _text(part)
            yield f"{indent}{name} {text}".rstrip()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)
