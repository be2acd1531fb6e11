"""A case as what it is: a request and a reply, a conversation with its tools, a pair, code, JSON, Markdown, a trace."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from markupsafe import Markup, escape

from memalign.content import Turn, sides_of, span_tree, turns_of
from memalign.errors import InputError
from memalign.judge import Judge
from memalign.registry.residue import strings
from memalign.types import Example
from memalign_server.pages.texts import code, prose, visible

__all__ = ["Block", "Node", "blocks_of", "case_text", "label_of"]

Speaker = Literal["customer", "company", "reply", "reference", "steps", "system"]

_NOTHING = Markup()
_ORDER = ("conversation", "inputs", "outputs", "expectations", "trace")
_SPEAKERS: Mapping[str, Speaker] = {
    "inputs": "customer", "outputs": "reply", "expectations": "reference", "trace": "steps",
    "user": "customer", "human": "customer", "assistant": "company", "ai": "company", "model": "company",
}  # fmt: skip
_LABEL = r"([^\W\d_][\w' -]{{0,30}}?)\s*:\s*\{{\{{-?\s*{}\b"
_MOST_NODES = 2_000
_MOST_CODE = 32_000  # characters that are coloured: the rest of a longer text would wait for seconds
_LINE = 140  # characters of a tool's line
_CODE_KEYS = {
    "sql": "sql", "query_sql": "sql", "code": None, "patch": "diff", "diff": "diff", "python": "python", "json": "json",
}  # fmt: skip
_SQL = re.compile(
    r"\s*(--[^\n]*\n\s*)*(select|with|insert|update|delete|create|alter)\b.*\b(from|into|set|table|as|view)\b",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(
    r"\s*(#!|import \w|from \w+ import|def \w+\(|class \w+[(:]|function \w+\(|package \w|#include|public class )"
)
_FAILED = re.compile(r"\s*(error|failed|failure|exception|traceback)\b[\s:]*", re.IGNORECASE)
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, kw_only=True)
class Node:
    """A part of JSON or a trace: its name, its text where it has no parts, and its parts."""

    name: str
    text: Markup | None = None
    parts: tuple[Node, ...] = ()
    note: str = ""
    failed: bool = False


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
    html: Markup = _NOTHING
    nodes: tuple[Node, ...] = ()
    failed: bool = False


def blocks_of(example: Example, judge: Judge) -> list[Block]:
    """What is shown of a case to somebody who answers the judge's question, in the order in which it is read.

    Args:
        example: The case.
        judge: Its instructions name the fields, and its labels name the sides that are compared.
    """
    content = example.content
    sides = sides_of(content, judge.value_type.choices) if judge.value_type.kind == "choice" else {}
    blocks: list[Block] = []
    for name in _ORDER:
        value = content.get(name)
        if value is None:
            continue
        label = label_of(name, judge)
        if sides and isinstance(value, dict) and sides.items() <= value.items():
            value = {key: part for key, part in value.items() if key not in sides}
            blocks += _sides(sides)
        if value != {}:
            blocks += _field(name, value, label, judged="outputs" not in content)
    return blocks


def case_text(example: Example) -> str:
    """The text whose first line tells a person which case it is: the reply, the request, or whatever there is."""
    whole = [text for text in (example.outputs, example.inputs) if isinstance(text, str) and text.strip()]
    return next(iter(whole or strings(list(example.content.values()))), "")


def label_of(field: str, judge: Judge) -> str:
    """What the judge's instructions call a field, such as "Reply" in "Reply: {{ outputs }}"; empty if they do not."""
    label = re.search(_LABEL.format(field), judge.instructions)
    return label[1] if label else ""


def _field(name: str, value: Any, label: str, *, judged: bool) -> Iterator[Block]:
    key = ""
    if isinstance(value, dict) and len(value) == 1 and not isinstance(next(iter(value.values())), dict):
        ((key, value),) = value.items()
    if name == "conversation" or _is_turns(value):
        try:
            turns = turns_of(value)
        except InputError:
            turns = None
        if turns:
            yield from _conversation(turns, judged=judged and name == "conversation")
            return
    speaker = _SPEAKERS.get(name, "company")
    if name == "trace" and (tree := span_tree(value)) is not None:
        yield Block(kind="bubble", speaker=speaker, label=label, nodes=_spans(tree.spans))
    else:
        html, nodes = _rendered(value, str(key))
        yield Block(kind="bubble", speaker=speaker, label=label, html=html, nodes=nodes)


def _rendered(value: Any, key: str = "") -> tuple[Markup, tuple[Node, ...]]:
    """A value as text, or as folded parts."""
    if isinstance(value, str):
        if (language := _language(value, key)) is not None:
            return code(value, language if len(value) <= _MOST_CODE else "text"), ()
        parsed = _json_inside(value)
        if parsed is None:
            return prose(value), ()
        value = parsed
    return Markup(), _parts(value, [_MOST_NODES])


def _json_inside(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _language(text: str, key: str) -> str | None:
    if key.lower() in _CODE_KEYS:
        return _CODE_KEYS[key.lower()] or ("sql" if _SQL.match(text) else "python")
    if len(text) < _MOST_CODE and _SQL.match(text):
        return "sql"
    if _CODE.match(text):
        return "python"
    return "diff" if text.startswith(("diff --git ", "--- a/")) else None


# -- conversations -----------------------------------------------------------------------------------------------------


def _is_turns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(turn, dict) and "role" in turn for turn in value)


def _conversation(turns: Sequence[Turn], *, judged: bool) -> Iterator[Block]:
    """Turns as bubbles, each tool call as one line with its result; the last turn of the company is what is judged."""
    results = [turn for turn in turns if _is_result(turn)]
    spoken = [turn for turn in turns if _SPEAKERS.get((turn.role or "").lower()) == "company" and turn.content]
    for turn in turns:
        if _is_result(turn):
            if turn in results:  # of no call that is shown
                yield _tool({"name": turn.rest.get("name")}, turn)
            continue
        speaker = _SPEAKERS.get((turn.role or "").lower(), "system")
        if judged and spoken and turn is spoken[-1]:
            speaker = "reply"
        content = turn.content if turn.content not in (None, "", [], {}) else turn.rest or None
        if content is not None:
            html, nodes = _rendered(content)
            label = turn.role or "" if speaker == "system" else ""
            yield Block(kind="bubble", speaker=speaker, label=label, html=html, nodes=nodes)
        for call in turn.calls:
            call = call if isinstance(call, dict) else {"name": str(call)}  # noqa: PLW2901 - as providers write it
            own = (result for result in results if result.rest.get("tool_call_id", call.get("id")) == call.get("id"))
            if (result := next(own, None)) is not None:
                results.remove(result)
            yield _tool(call, result)


def _is_result(turn: Turn) -> bool:
    return (turn.role or "").lower() in ("tool", "function")


def _tool(call: Mapping[str, Any], result: Turn | None) -> Block:
    answer: Any = None if result is None else result.content
    if isinstance(answer, str):
        answer = _json_inside(answer) or answer
    inside = answer if isinstance(answer, dict) else {}
    error = inside.get("error") or (str(inside.get("status", "")).lower() in ("error", "failed") and inside)
    if isinstance(answer, str) and (start := _FAILED.match(answer)):
        error = answer[start.end() :] or answer
    failed = bool(error) or False in (inside.get("success"), inside.get("ok"))
    failed = failed or (result is not None and result.rest.get("is_error") is True)
    words = error if failed and error and error is not True else answer
    if isinstance(words, dict):
        words = next((words[key] for key in ("message", "detail", "reason", "result") if words.get(key)), words)
    text = words if isinstance(words, str) else "" if words is None else _json(words)
    line = " ".join(text.split())
    parts = {"arguments": call.get("arguments"), "result": answer if len(line) > _LINE or inside else None}
    parts = {key: part for key, part in parts.items() if part not in (None, "", {}, [])}
    return Block(
        kind="tool",
        label=str(call.get("name") or "").replace("_", " "),
        html=visible(line if len(line) <= _LINE else f"{line[:_LINE]}…"),
        nodes=_parts(parts, [_MOST_NODES]) if parts else (),
        failed=failed,
    )


# -- pairs, JSON, traces -----------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _sides(sides: Mapping[str, Any]) -> list[Block]:
    """The sides that are compared; of two that are much alike, what differs is marked."""
    texts = {label: side if isinstance(side, str) else _json(side) for label, side in sides.items()}
    htmls = [prose(text) for text in texts.values()]
    if len(texts) == 2:
        one, other = (_WORDS.findall(text) for text in texts.values())
        matcher = difflib.SequenceMatcher(None, one, other, autojunk=False)
        if len(one) * len(other) < 4_000_000 and matcher.ratio() >= 0.6:  # else marks would cover most of them
            codes = matcher.get_opcodes()
            htmls = [
                _marked((one[a:b], tag) for tag, a, b, _, _ in codes),
                _marked((other[a:b], tag) for tag, _, _, a, b in codes),
            ]
    return [Block(kind="side", label=label, html=html) for label, html in zip(texts, htmls, strict=True)]


def _marked(parts: Iterator[tuple[list[str], str]]) -> Markup:
    mark = Markup("<mark>{}</mark>")
    texts = ((visible("".join(words)), tag) for words, tag in parts if words)
    marked = Markup().join(text if tag == "equal" else mark.format(text) for text, tag in texts)
    return Markup('<p class="text">{}</p>').format(marked)


def _parts(value: Any, room: list[int]) -> tuple[Node, ...]:
    items = value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else ()
    nodes = []
    for name, part in items:
        room[0] -= 1
        if room[0] < 0:
            nodes.append(Node(name="…", text=Markup("…")))
            break
        if isinstance(part, dict | list) and part:
            nodes.append(Node(name=visible(str(name)), parts=_parts(part, room), note=str(len(part))))
        elif isinstance(part, str):
            text = code(part, language) if (language := _language(part, str(name))) else prose(part)
            nodes.append(Node(name=visible(str(name)), text=text))
        else:
            nodes.append(Node(name=visible(str(name)), text=escape(_json(part))))
    return tuple(nodes) if items else (Node(name="", text=visible(_json(value))),)


def _spans(spans: Any) -> tuple[Node, ...]:
    below: dict[str | None, list[Any]] = {}
    for span in spans:
        below.setdefault(span.parent, []).append(span)
    room = [_MOST_NODES]

    def nodes(parent: str | None, depth: int) -> tuple[Node, ...]:
        made = []
        for span in below.get(parent, ()):
            own = {name: part for name in ("inputs", "outputs") if (part := getattr(span, name)) is not None}
            own |= {"attributes": span.attributes} if span.attributes else {}
            parts = _parts(own, room) if own else ()
            parts += nodes(span.id, depth + 1) if depth < 40 else ()
            timed = "" if span.seconds is None else f"{span.seconds:.2f} s"
            note = visible(" · ".join(filter(None, (span.kind, timed, span.message))))
            made.append(Node(name=visible(span.name), parts=parts, note=note, failed=span.status == "error"))
        return tuple(made)

    return nodes(None, 0)
