"""A case as what it is: a request and a reply, a conversation with its tools, a pair, JSON, Markdown, a trace."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from markupsafe import Markup, escape

from memalign.content import Span, Turn, sides_of, span_tree, turns_of
from memalign.content.walk import texts_in
from memalign.errors import InputError
from memalign.judge import Judge
from memalign.types import Example
from memalign_server.pages.texts import prose, visible

__all__ = ["Block", "Node", "blocks_of", "case_text", "is_pair", "label_of"]

Speaker = Literal["customer", "company", "reply", "reference", "steps", "system"]

_ORDER = ("conversation", "inputs", "outputs", "expectations", "trace")
_SPEAKERS: Mapping[str, Speaker] = {
    "inputs": "customer", "outputs": "reply", "expectations": "reference", "trace": "steps",
    "user": "customer", "human": "customer", "assistant": "company", "ai": "company", "model": "company",
}  # fmt: skip
_LABEL = r"([^\W\d_][\w' -]{{0,30}}?)\s{{0,5}}:\s{{0,5}}\{{\{{-?\s{{0,5}}{}\b"
_TOOLS = ("tool", "function")
_MOST_NODES = 2_000
_DEEPEST = 40  # parts in parts: a page nests no deeper
_LINE = 140  # characters of a tool's line
_FAILED = re.compile(r"\s*(error|failed|failure|exception|traceback)\b[\s:]*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Node:
    """A part of JSON or a trace: its name, its text where it has no parts, and its parts."""

    name: str
    text: Markup | None = None
    parts: tuple[Node, ...] = ()
    note: str = ""
    failed: bool = False


_MORE = Node(name="…", text=Markup("…"))
"""In the place of what there is no room for."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """One thing to read.

    Attributes:
        kind: Whether somebody says it, a tool did it, or it is one of the sides that are compared.
        speaker: Who says it; `reply` is what is judged.
        label: What the judge's instructions call the field, the side's name, or the tool's; empty for the usual word.
        html: The text, safe; of a tool its result in one line.
        nodes: The parts of JSON, of a trace, or of what the tool was given and gave.
        failed: Whether the tool failed.
    """

    kind: Literal["bubble", "tool", "side"]
    speaker: Speaker = "reply"
    label: str = ""
    html: Markup
    nodes: tuple[Node, ...] = ()
    failed: bool = False


def blocks_of(example: Example, judge: Judge) -> list[Block]:
    """What is shown of a case to somebody who answers the judge's question, in the order in which it is read.

    Args:
        example: The case.
        judge: Its instructions name the fields, and its labels name the sides that are compared.
    """
    content = example.content
    kind = judge.value_type
    sides = sides_of(content, kind.choices) if kind.kind == "choice" else {}
    blocks: list[Block] = []
    for name in _ORDER:
        value = content.get(name)
        if sides and isinstance(value, dict) and sides.items() <= value.items():
            value = {key: part for key, part in value.items() if key not in sides}
            texts = {
                label: side if isinstance(side, str) else _json(side)
                for label, side in sides.items()
            }
            blocks += [
                Block(kind="side", label=label, html=prose(text)) for label, text in texts.items()
            ]
        if value not in (None, {}):
            blocks += _field(name, value, label_of(name, judge), judged="outputs" not in content)
    return blocks


def is_pair(example: Example, judge: Judge) -> bool:
    """Return whether a case has sides that are compared."""
    kind = judge.value_type
    return kind.kind == "choice" and bool(sides_of(example.content, kind.choices))


def case_text(example: Example) -> str:
    """The text whose first line tells a person which case it is: the reply, the request, or whatever there is."""
    whole = [
        text for text in (example.outputs, example.inputs) if isinstance(text, str) and text.strip()
    ]
    return next(iter(whole or texts_in(list(example.content.values()))), "")


def label_of(field: str, judge: Judge) -> str:
    """What the judge's instructions call a field, such as "Reply" in "Reply: {{ outputs }}"; empty if they do not."""
    label = re.search(_LABEL.format(field), judge.instructions)
    return label[1] if label else ""


def _field(name: str, value: Any, label: str, *, judged: bool) -> Iterator[Block]:
    if (
        isinstance(value, dict)
        and len(value) == 1
        and not isinstance(next(iter(value.values())), dict)
    ):
        (value,) = value.values()
    turns = None
    if name == "conversation" or (
        isinstance(value, list) and all(isinstance(t, dict) and "role" in t for t in value)
    ):
        try:
            turns = turns_of(value)
        except InputError:
            turns = None
    if turns:
        yield from _conversation(turns, judged=judged and name == "conversation")
        return
    tree = span_tree(value) if name == "trace" else None
    html, nodes = _rendered(value) if tree is None else (Markup(), _spans(tree.spans))
    yield Block(
        kind="bubble", speaker=_SPEAKERS.get(name, "company"), label=label, html=html, nodes=nodes
    )


def _rendered(value: Any) -> tuple[Markup, tuple[Node, ...]]:
    """A value as text, or as folded parts."""
    inside = _json_inside(value) if isinstance(value, str) else value
    return (prose(value), ()) if inside is None else (Markup(), _parts(inside, [_MOST_NODES]))


def _json_inside(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


# -- conversations -----------------------------------------------------------------------------------------------------


def _conversation(turns: Sequence[Turn], *, judged: bool) -> Iterator[Block]:
    """Turns as bubbles, each tool call as one line with its result; the last turn of the company is what is judged."""
    results = _Results(turns)
    spoken = [turn for turn in turns if _SPEAKERS.get(_role(turn)) == "company" and turn.content]
    for turn in turns:
        if _role(turn) in _TOOLS:
            if results.take(turn):  # of no call that is shown
                yield _tool({"name": turn.rest.get("name")}, turn)
            continue
        speaker = _SPEAKERS.get(_role(turn), "system")
        if judged and spoken and turn is spoken[-1]:
            speaker = "reply"
        content = turn.content if turn.content not in (None, "", [], {}) else turn.rest or None
        if content is not None:
            html, nodes = _rendered(content)
            label = turn.role or "" if speaker == "system" else ""
            yield Block(kind="bubble", speaker=speaker, label=label, html=html, nodes=nodes)
        for written in turn.calls:
            call = (
                written if isinstance(written, dict) else {"name": str(written)}
            )  # as providers write it
            yield _tool(call, results.of_call(call))


class _Results:
    """The results of tools in a conversation, each of which is shown once: with its call, or by itself."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        results = [turn for turn in turns if _role(turn) in _TOOLS]
        self._waiting = {id(turn) for turn in results}
        self._by_call = dict[str, deque[tuple[int, Turn]]]()
        self._of_any_call = deque[tuple[int, Turn]]()
        for number, turn in enumerate(results):
            if "tool_call_id" in turn.rest:
                named = self._by_call.setdefault(_json(turn.rest["tool_call_id"]), deque())
                named.append((number, turn))
            else:
                self._of_any_call.append((number, turn))

    def take(self, turn: Turn) -> bool:
        """Return whether a result was not shown before; now it is."""
        waits = id(turn) in self._waiting
        self._waiting.discard(id(turn))
        return waits

    def of_call(self, call: Mapping[str, Any]) -> Turn | None:
        """Take the earliest result that names this call, or names none."""
        queues = (self._by_call.get(_json(call.get("id")), deque()), self._of_any_call)
        for queue in queues:
            while queue and id(queue[0][1]) not in self._waiting:
                queue.popleft()
        candidates = [queue for queue in queues if queue]
        if not candidates:
            return None
        _, turn = min(candidates, key=lambda queue: queue[0][0]).popleft()
        self.take(turn)
        return turn


def _role(turn: Turn) -> str:
    return (turn.role or "").lower()


def _tool(call: Mapping[str, Any], result: Turn | None) -> Block:
    """A tool's call as one line with what it gave, or why it failed; what it was given is folded."""
    answer: Any = None if result is None else result.content
    if isinstance(answer, str):
        answer = _json_inside(answer) or answer
    inside = answer if isinstance(answer, dict) else {}
    failed = bool(inside.get("error")) or False in (inside.get("success"), inside.get("ok"))
    failed = failed or str(inside.get("status", "")).lower() in ("error", "failed")
    words: Any = next(
        (
            inside[key]
            for key in ("error", "message", "detail", "reason", "result")
            if inside.get(key)
        ),
        "",
    )
    if isinstance(answer, str) and (start := _FAILED.match(answer)):
        failed, words = True, answer[start.end() :]
    words = words if isinstance(words, str) and words else answer
    line = " ".join(
        (words if isinstance(words, str) else "" if words is None else _json(words)).split()
    )
    parts = {
        "arguments": call.get("arguments"),
        "result": answer if len(line) > _LINE or inside else None,
    }
    parts = {key: part for key, part in parts.items() if part not in (None, "", {}, [])}
    return Block(
        kind="tool",
        label=str(call.get("name") or "").replace("_", " "),
        html=visible(line if len(line) <= _LINE else f"{line[:_LINE]}…"),
        nodes=_parts(parts, [_MOST_NODES]) if parts else (),
        failed=failed or (result is not None and result.rest.get("is_error") is True),
    )


# -- JSON and traces ---------------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _parts(value: Any, room: list[int], depth: int = 0) -> tuple[Node, ...]:
    """The parts of a JSON value, as many as there is room for; a plain value is one."""
    if not isinstance(value, dict | list):
        return (Node(name="", text=visible(_json(value))),)
    nodes = []
    for key, part in value.items() if isinstance(value, dict) else enumerate(value, 1):
        name = visible(str(key))
        room[0] -= 1
        if room[0] < 0:
            nodes.append(_MORE)
            break
        if isinstance(part, dict | list) and part:
            inner = _parts(part, room, depth + 1) if depth < _DEEPEST else (_MORE,)
            nodes.append(Node(name=name, parts=inner, note=str(len(part))))
        else:
            nodes.append(
                Node(name=name, text=prose(part) if isinstance(part, str) else escape(_json(part)))
            )
    return tuple(nodes)


def _spans(spans: Sequence[Span]) -> tuple[Node, ...]:
    """A trace's spans, each with what it was given and gave, and the spans below it, as many as there is room for."""
    below = dict[str | None, list[Span]]()
    for span in spans:
        below.setdefault(span.parent, []).append(span)
    room = [_MOST_NODES]

    def nodes(parent: str | None, depth: int) -> Iterator[Node]:
        for span in below.get(parent, ()):
            room[0] -= 1
            if room[0] < 0 or depth >= _DEEPEST:
                yield _MORE
                return
            own = {
                "inputs": span.inputs,
                "outputs": span.outputs,
                "attributes": span.attributes or None,
            }
            parts = _parts({name: part for name, part in own.items() if part is not None}, room)
            timed = "" if span.seconds is None else f"{span.seconds:.2f} s"
            note = visible(" · ".join(filter(None, (span.kind, timed, span.message))))
            parts += tuple(nodes(span.id, depth + 1))
            yield Node(
                name=visible(span.name), parts=parts, note=note, failed=span.status == "error"
            )

    return tuple(nodes(None, 0))
