"""The texts of a field: what retrieval compares, what rules are taken from, what a person reads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from memalign.content.conversation import Turn, turns_of
from memalign.content.traces import SpanTree, span_tree
from memalign.content.walk import members, texts_in
from memalign.errors import InputError

__all__ = ["SHAPED", "as_read", "judged_texts", "shape_of", "words_of"]

DEEPEST = 12
"""Levels of a trace that are shown by indentation."""

_OTHER_SIDE = frozenset(("user", "human", "customer", "client", "system", "developer"))


SHAPED = ("conversation", "trace")
"""The fields of which more is known than that they are JSON; others are read as they are."""


def shape_of(name: str, value: object) -> SpanTree | tuple[Turn, ...] | None:
    """Return the spans of a trace or the turns of a conversation.

    Args:
        name: The field.
        value: What it holds.

    Returns:
        None for any other field, and for what is read as it is.

    Raises:
        InputError: It is no conversation.
    """
    if name == "trace":
        return span_tree(value)
    if name == "conversation":
        return turns_of(value)
    return None


def words_of(name: str, value: object) -> Iterator[str]:
    """Yield the texts and numbers of a field, in order.

    Of a conversation they are what is said, not by whom. Of a trace they are what came in and what
    went out, the names of its steps and what went wrong: ids, times and repetitions would make all
    traces alike.
    """
    shape = _shape(name, value)
    if isinstance(shape, SpanTree):
        for span in shape.spans:
            if span.parent is None:
                yield from _words([span.inputs, span.outputs])
        yield from dict.fromkeys(span.name for span in shape.spans)
        yield from dict.fromkeys(span.message for span in shape.spans if span.message)
    elif shape:
        for turn in shape:
            yield from _words([turn.content, *turn.calls])
    else:
        yield from _words(value)


def judged_texts(content: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield what the judged system said, by field: outputs, its turns, a trace's outputs."""
    for name in ("outputs", "conversation", "trace"):
        value = content.get(name)
        shape = _shape(name, value)
        if isinstance(shape, SpanTree):
            value = [span.outputs for span in shape.spans if span.parent is None]
        elif shape:
            own: list[object] = []
            for turn in shape:
                role = turn.role or ""
                if role.lower() not in _OTHER_SIDE:
                    own += [turn.content, turn.calls]
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
    shape = _shape(name, value)
    lines: list[str] = []
    if isinstance(shape, SpanTree):
        for span in shape.spans:
            indent = "  " * min(span.depth, DEEPEST)
            lines.append(f"{indent}{span.name}")
            for key in ("inputs", "outputs"):
                part = getattr(span, key)
                if part is not None:
                    lines += _lines({key: part}, f"{indent}  ")
    elif shape:
        for turn in shape:
            message = {turn.role or "-": turn.content or ""}
            if turn.calls:
                message["calls"] = turn.calls
            lines += _lines(message)
    else:
        lines += _lines(value)
    return "\n".join(lines)


def _words(value: object) -> Iterator[str]:
    return texts_in(value, keys=False, numbers=True)


def _shape(name: str, value: object) -> SpanTree | tuple[Turn, ...] | None:
    """Return the shape of a field of a memory; one put together by hand may have none."""
    try:
        return shape_of(name, value)
    except InputError:
        return None


def _lines(value: object, indent: str = "") -> Iterator[str]:
    """Yield `name: text` on one line; several lines, or parts, go below the name."""
    if not isinstance(value, dict | list | tuple):
        for line in _text(value).split("\n"):
            yield f"{indent}{line}"
        return
    for key, part in members(value):
        name = f"{key}:" if isinstance(value, dict) else "-"
        lines = list(_lines(part))
        if isinstance(part, dict | list | tuple) or len(lines) > 1:
            yield f"{indent}{name}"
            for line in lines:
                yield f"{indent}  {line}"
        else:
            yield f"{indent}{name} {lines[0]}".rstrip()


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)
