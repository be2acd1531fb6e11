"""A case as what it is: a request and a reply, a conversation with its tools, a pair, a trace."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from markupsafe import Markup

from memalign.content import Turn, sides_of, span_tree, texts_in, turns_of
from memalign.errors import InputError
from memalign.judge import Judge
from memalign.types import Example
from memalign_server.pages.nodes import (
    Node,
    json_inside,
    json_text,
    nodes_of_json,
    nodes_of_spans,
)
from memalign_server.pages.texts import prose, visible
from memalign_server.pages.tools import ToolUse, is_result, tool_uses

__all__ = ["Block", "blocks_of", "case_text", "is_pair", "label_of"]

Speaker = Literal["customer", "company", "reply", "reference", "steps", "system"]

_ORDER: Final = ("conversation", "inputs", "outputs", "expectations", "trace")
_FIELDS: Final[Mapping[str, Speaker]] = {
    "inputs": "customer",
    "outputs": "reply",
    "expectations": "reference",
    "trace": "steps",
}
_ROLES: Final[Mapping[str, Speaker]] = {
    "user": "customer",
    "human": "customer",
    "assistant": "company",
    "ai": "company",
    "model": "company",
}
_LABEL: Final = r"([^\W\d_][\w' -]{{0,30}}?)\s{{0,5}}:\s{{0,5}}\{{\{{-?\s{{0,5}}{}\b"
_EMPTY: Final[tuple[object, ...]] = (None, "", [], {})
_NOTHING: Final = Markup()


@dataclass(frozen=True, kw_only=True)
class Block:
    """One thing to read.

    Attributes:
        kind: Whether somebody says it, a tool did it, or it is one of the sides that are compared.
        speaker: Who says it; `reply` is what is judged.
        label: What the judge's instructions call the field, the side's name, or the tool's; empty
            for the usual word.
        html: The text, safe; of a tool its result in one line.
        nodes: The parts of JSON, of a trace, or of what the tool was given and gave.
        failed: Whether the tool failed.
    """

    kind: Literal["bubble", "tool", "side"]
    speaker: Speaker = "reply"
    label: str = ""
    html: Markup = _NOTHING
    nodes: tuple[Node, ...] = ()
    failed: bool = False


def blocks_of(example: Example, judge: Judge) -> list[Block]:
    """Return what a person reads of a case before they answer the judge's question, in order.

    Args:
        example: The case.
        judge: Its instructions name the fields, and its labels name the sides that are compared.
    """
    content = example.content
    sides = sides_of(content, judge.value_type.choices)
    blocks = []
    for name in _ORDER:
        value = content.get(name)
        if sides and isinstance(value, dict) and sides.items() <= value.items():
            blocks += [_side(label, side) for label, side in sides.items()]
            value = {key: part for key, part in value.items() if key not in sides}
        if value in (None, {}):
            continue
        is_judged = name == "conversation" and "outputs" not in content
        blocks += _field(name, value, label_of(name, judge), is_judged=is_judged)
    return blocks


def is_pair(example: Example, judge: Judge) -> bool:
    """Return whether a case has sides that are compared."""
    return bool(sides_of(example.content, judge.value_type.choices))


def case_text(example: Example) -> str:
    """Return the text by which people know a case: its reply, its request, or what there is."""
    for text in (example.outputs, example.inputs):
        if isinstance(text, str) and text.strip():
            return text
    return next(iter(texts_in(list(example.content.values()))), "")


def label_of(field: str, judge: Judge) -> str:
    """Return what the instructions call a field: "Reply" in "Reply: {{ outputs }}", else ""."""
    label = re.search(_LABEL.format(field), judge.instructions)
    return label[1] if label else ""


def _side(label: str, side: object) -> Block:
    text = side if isinstance(side, str) else json_text(side)
    return Block(kind="side", label=label, html=prose(text))


def _field(name: str, value: Any, label: str, *, is_judged: bool) -> Iterator[Block]:
    """Yield the blocks of one field of a case."""
    if isinstance(value, dict) and len(value) == 1:
        (only,) = value.values()
        value = value if isinstance(only, dict) else only
    turns = _turns(name, value)
    if turns:
        yield from _conversation(turns, is_judged=is_judged)
        return
    speaker = _FIELDS.get(name, "company")
    tree = span_tree(value) if name == "trace" else None
    if tree is None:
        yield _said(speaker, label, value)
    else:
        nodes = nodes_of_spans(tree.spans)
        yield Block(kind="bubble", speaker=speaker, label=label, nodes=nodes)


def _turns(name: str, value: object) -> Sequence[Turn] | None:
    """Return the turns of a field that is a conversation, and None for any other field."""
    if name != "conversation" and not _has_roles(value):
        return None
    try:
        return turns_of(value)
    except InputError:
        return None


def _has_roles(value: object) -> bool:
    """Return whether a value is a list of turns, each with its role."""
    if not isinstance(value, list):
        return False
    return all(isinstance(turn, dict) and "role" in turn for turn in value)


def _conversation(turns: Sequence[Turn], *, is_judged: bool) -> Iterator[Block]:
    """Yield turns as bubbles, and each use of a tool as a line.

    If the conversation itself is judged, the last turn of the company is the reply.
    """
    uses = tool_uses(turns)
    spoken = [place for place, turn in enumerate(turns) if _is_spoken(turn)]
    judged = spoken[-1] if is_judged and spoken else None
    for place, turn in enumerate(turns):
        content = turn.content if turn.content not in _EMPTY else turn.rest
        if content not in _EMPTY and not is_result(turn):
            speaker = "reply" if place == judged else _speaker(turn)
            # Who is neither customer nor company has the name of their role.
            label = turn.role if speaker == "system" else None
            yield _said(speaker, label or "", content)
        yield from map(_tool, uses.get(place, ()))


def _speaker(turn: Turn) -> Speaker:
    return _ROLES.get((turn.role or "").lower(), "system")


def _is_spoken(turn: Turn) -> bool:
    return bool(turn.content) and _speaker(turn) == "company"


def _said(speaker: Speaker, label: str, value: object) -> Block:
    """Return a value as a bubble: text as text, JSON as folded parts."""
    inside = json_inside(value) if isinstance(value, str) else value
    bubble = Block(kind="bubble", speaker=speaker, label=label)
    if inside is None:
        return replace(bubble, html=prose(str(value)))
    return replace(bubble, nodes=nodes_of_json(inside))


def _tool(use: ToolUse) -> Block:
    return Block(
        kind="tool",
        label=use.name,
        html=visible(use.line),
        nodes=nodes_of_json(use.details),
        failed=use.failed,
    )
