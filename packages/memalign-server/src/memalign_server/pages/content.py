"""A case as what it is: a chat, a question and its answer, code, SQL, a pair, JSON, Markdown, a trace."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from markupsafe import Markup, escape

from memalign.content import sides_of, span_tree, turns_of
from memalign.errors import InputError
from memalign.types import CONTENT_FIELDS, Example
from memalign.values import ValueType
from memalign_server.pages.texts import code, prose, visible

__all__ = ["Block", "Node", "blocks_of"]

_NOTHING = Markup()
LONG = 4_000
"""Characters from which on a text is folded after its beginning."""
_MOST_NODES = 2_000
_CODE_KEYS = {
    "sql": "sql",
    "query_sql": "sql",
    "code": None,
    "patch": "diff",
    "diff": "diff",
    "python": "python",
    "json": "json",
}
_SQL = re.compile(
    r"\s*(--[^\n]*\n\s*)*(select|with|insert|update|delete|create|alter)\b.*\b(from|into|set|table|as|view)\b",
    re.IGNORECASE | re.DOTALL,
)
_CODE = re.compile(
    r"\s*(#!|import \w|from \w+ import|def \w+\(|class \w+[(:]|function \w+\(|package \w|#include|public class )"
)
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
    """One thing to read. `kind` says which of the other fields hold it; `html` is safe."""

    kind: Literal["prose", "code", "chat", "pair", "tree", "trace"]
    of: str
    html: Markup = _NOTHING
    rest: Markup = _NOTHING
    turns: tuple[tuple[str, Markup], ...] = ()
    sides: tuple[tuple[str, Markup], ...] = ()
    nodes: tuple[Node, ...] = ()


def blocks_of(example: Example, kind: ValueType) -> list[Block]:
    """What is shown of a case, in the order of its fields."""
    content = example.content
    sides = sides_of(content, kind.choices) if kind.kind == "choice" else {}
    found: list[Block] = []
    for name in CONTENT_FIELDS:
        value = content.get(name)
        if value is None:
            continue
        if sides and isinstance(value, dict) and sides.items() <= value.items():
            found.append(_pair(name, sides))
            rest = {key: part for key, part in value.items() if key not in sides}
            found += [_block(name, rest)] if rest else []
        else:
            found.append(_block(name, value))
    return found


def _block(name: str, value: Any) -> Block:
    if name == "trace" and (tree := span_tree(value)) is not None:
        return Block(kind="trace", of=name, nodes=_spans(tree.spans))
    if name == "conversation" or _looks_like_turns(value):
        try:
            turns = turns_of(value)
        except InputError:
            turns = None
        if turns:
            return Block(kind="chat", of=name, turns=tuple((turn.role or "", _said(turn)) for turn in turns))
    if isinstance(value, dict) and len(value) == 1:
        ((key, only),) = value.items()
        if isinstance(only, str):
            return _text(name, only, key=str(key))
    if isinstance(value, str):
        return _text(name, value)
    left = [_MOST_NODES]
    return Block(kind="tree", of=name, nodes=_parts(value, left))


def _text(name: str, text: str, key: str = "") -> Block:
    language = _language(text, key)
    if language is not None:
        return Block(kind="code", of=name, html=code(text[: 8 * LONG], language), rest=_rest(text, 8 * LONG))
    stripped = text.strip()
    if stripped[:1] in "{[" and stripped[-1:] in "}]":
        try:
            inside = msgspec.json.decode(stripped)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            inside = None
        if isinstance(inside, dict | list):
            return Block(kind="tree", of=name, nodes=_parts(inside, [_MOST_NODES]))
    if len(text) <= LONG:
        return Block(kind="prose", of=name, html=prose(text))
    cut = max(text.rfind("\n\n", 0, LONG), text.rfind(" ", 0, LONG), LONG // 2)
    return Block(kind="prose", of=name, html=prose(text[:cut]), rest=prose(text[cut:]))


def _rest(text: str, start: int) -> Markup:
    return Markup("<pre>{}</pre>").format(visible(text[start:])) if len(text) > start else Markup("")


def _language(text: str, key: str) -> str | None:
    lowered = key.lower()
    if lowered in _CODE_KEYS:
        return _CODE_KEYS[lowered] or ("sql" if _SQL.match(text) else "python")
    if _SQL.match(text) and len(text) < 8 * LONG:
        return "sql"
    if _CODE.match(text):
        return "python"
    return "diff" if text.startswith(("diff --git ", "--- a/")) else None


def _looks_like_turns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and "role" in each for each in value)


def _said(turn: Any) -> Markup:
    parts = []
    if turn.content not in (None, "", [], {}):
        parts.append(prose(turn.content) if isinstance(turn.content, str) else code(_json(turn.content), "json"))
    parts += [code(_json(call), "json") for call in turn.calls]
    return Markup("").join(parts)


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _pair(name: str, sides: dict[str, Any]) -> Block:
    texts = {label: side if isinstance(side, str) else _json(side) for label, side in sides.items()}
    if len(texts) != 2 or max(map(len, texts.values())) > 5 * LONG:
        return Block(kind="pair", of=name, sides=tuple((label, prose(text)) for label, text in texts.items()))
    (one, first), (other, second) = texts.items()
    a, b = _WORDS.findall(first), _WORDS.findall(second)
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False) if len(a) * len(b) < 4_000_000 else None
    if matcher is None or matcher.ratio() < 0.3:  # two texts of their own: marks would cover all of them
        return Block(kind="pair", of=name, sides=((one, prose(first)), (other, prose(second))))
    left, right = Markup(""), Markup("")
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        ours, theirs = visible("".join(a[a0:a1])), visible("".join(b[b0:b1]))
        if tag == "equal":
            left, right = left + ours, right + theirs
        else:
            left += Markup("<mark>{}</mark>").format(ours) if ours else ""
            right += Markup("<mark>{}</mark>").format(theirs) if theirs else ""
    wrapped = (Markup('<p class="text">{}</p>').format(each) for each in (left, right))
    return Block(kind="pair", of=name, sides=((one, next(wrapped)), (other, next(wrapped))))


def _parts(value: Any, left: list[int]) -> tuple[Node, ...]:
    items = value.items() if isinstance(value, dict) else enumerate(value, 1) if isinstance(value, list) else ()
    found = []
    for name, part in items:
        left[0] -= 1
        if left[0] < 0:
            found.append(Node(name="…", text=Markup("…")))
            break
        if isinstance(part, dict | list) and part:
            found.append(Node(name=visible(str(name)), parts=_parts(part, left), note=str(len(part))))
        elif isinstance(part, str):
            shown = code(part, language) if (language := _language(part, str(name))) else prose(part)
            found.append(Node(name=visible(str(name)), text=shown))
        else:
            found.append(Node(name=visible(str(name)), text=escape(_json(part))))
    return tuple(found) if items else (Node(name="", text=visible(_json(value))),)


def _spans(spans: Any) -> tuple[Node, ...]:
    below: dict[str | None, list[Any]] = {}
    for span in spans:
        below.setdefault(span.parent, []).append(span)
    left = [_MOST_NODES]

    def nodes(parent: str | None, depth: int) -> tuple[Node, ...]:
        found = []
        for span in below.get(parent, ()):
            own = {name: part for name in ("inputs", "outputs") if (part := getattr(span, name)) is not None}
            own |= {"attributes": span.attributes} if span.attributes else {}
            parts = _parts(own, left) if own else ()
            parts += nodes(span.id, depth + 1) if depth < 40 else ()
            timed = "" if span.seconds is None else f"{span.seconds:.2f} s"
            note = " · ".join(filter(None, (span.kind, timed, span.message)))
            name = visible(span.name)
            found.append(Node(name=name, parts=parts, note=visible(note), failed=span.status == "error"))
        return tuple(found)

    return nodes(None, 0)
