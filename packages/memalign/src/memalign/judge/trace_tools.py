"""Tools that read a trace: what a judge may ask for, and what each shows. They never change anything."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from memalign.content import Span, SpanTree
from memalign.prompts import encode
from memalign.prompts.tokens import BYTES_PER_TOKEN, estimate_tokens
from memalign.prompts.truncate import shown_span, span_line, span_parts, span_size
from memalign.types import Judgment, ToolCall

__all__ = ["show", "tool_call_of", "tool_call_schema", "tool_calls_of"]

MOST_SPANS = 8
MOST_TEXT = 200
AROUND = 80
"""Characters shown on each side of what was searched for."""


def tool_call_schema(*, brief: bool) -> dict[str, Any]:
    """The JSON schema of a tool call; a weak model (`brief`), which would write on and on, gets bounds on its texts."""

    def text(most: int) -> dict[str, Any]:
        return {"type": "string"} | ({"maxLength": most} if brief else {})

    properties = {
        "why": text(160),
        "tool": {"type": "string", "enum": ["read", "search", "children", "enough"]},
        "spans": text(40),
        "part": {"type": "integer"},
        "text": text(80),
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


_ID = re.compile(r"(?<![A-Za-z0-9])[Ss](\d{1,9})(?![A-Za-z0-9])")
_OLD_NOTE = re.compile(r"(swapped: )?look \d+: (?:(read|children)((?: S\d+,?)*)(?: part (\d+))?|search (\".*\"))$")


def tool_call_of(data: dict[str, Any]) -> ToolCall | None:
    """The tool call that a model asks for, whatever it wrote; None when it has seen enough."""
    tool, part = data.get("tool"), data.get("part")
    if tool == "search":
        return ToolCall(tool=tool, text=" ".join(str(data.get("text") or "").split())[:MOST_TEXT])
    if tool not in ("read", "children"):
        return None
    named = dict.fromkeys(f"S{int(number)}" for number in _ID.findall(str(data.get("spans") or "")))
    number = part if isinstance(part, int) and not isinstance(part, bool) else 1
    most = MOST_SPANS if tool == "read" else 1
    return ToolCall(tool=tool, spans=tuple(named)[:most], part=min(max(number, 1), 10**6))


def tool_calls_of(judgment: Judgment) -> tuple[ToolCall, ...]:
    """The judgment's tool calls; those of a judgment of memalign 0.1 stand in its notes."""
    if judgment.trace_tool_calls:
        return judgment.trace_tool_calls
    calls = []
    for found in filter(None, map(_OLD_NOTE.match, judgment.notes)):
        swapped, tool, spans, part, text = found.groups()
        if tool is None:
            calls.append(ToolCall(tool="search", text=str(json.loads(text)), swapped=bool(swapped)))
        else:
            call = tool_call_of({"tool": tool, "spans": spans, "part": int(part or 1)})
            calls += [msgspec.structs.replace(call, swapped=bool(swapped))] if call else []
    return tuple(calls)


def show(tree: SpanTree, tool_call: ToolCall, tokens: int) -> str:
    """What the tool shows in about `tokens`; a call for what is not there shows what is wrong with it."""
    if tool_call.tool == "search":
        return _search(tree, tool_call.text, tokens)
    unknown = [name for name in tool_call.spans if tree.span(name) is None]
    if unknown:
        return f"there is no span {', '.join(unknown)}; spans are S1 to S{len(tree.spans)}"
    if tool_call.tool == "children":
        return _children(tree, tool_call, tokens)
    spans = [span for name in tool_call.spans if (span := tree.span(name)) is not None]
    if not spans:
        return 'no span is named: "spans" holds ids such as S3'
    return _read(spans, tool_call.part, tokens)


def _read(spans: Sequence[Span], part: int, tokens: int) -> str:
    if len(spans) == 1:
        return _paged(spans[0], part, tokens)
    shown: list[str] = []
    used = 0
    for span in spans:
        text = "\n".join(shown_span(span))
        used += estimate_tokens(text)
        if used > tokens and shown:
            shown.append(f"no room for {span.id} beside these: read it alone")
        else:
            shown.append(text if used <= tokens else _paged(span, 1, tokens))
    return "\n".join(shown)


def _paged(span: Span, part: int, tokens: int) -> str:
    """A span whole, or one part of what it holds: as one text of JSON, so that no part begins a line of its own."""
    text = "\n".join(shown_span(span))
    if part == 1 and estimate_tokens(text) <= tokens:
        return text
    line = span_line(span)
    held = "\n".join(f"{name}: {_plain(value)}" for name, value in span_parts(span))
    room = max(tokens - estimate_tokens(line) - 10, 30)
    size = max(int(room * BYTES_PER_TOKEN * 0.8 * len(held) / max(len(held.encode("utf-8", "replace")), 1)), 40)
    count = max(-(-len(held) // size), 1)
    if part > count:
        return f"{span.id} has {count} part{'' if count == 1 else 's'}"
    return f"{line}\npart {part} of {count}: {encode(held[(part - 1) * size : part * size])}"


def _search(tree: SpanTree, text: str, tokens: int) -> str:
    if not text:
        return 'nothing to search for: "text" is empty'
    sought = re.compile(re.escape(text), re.IGNORECASE)
    lines: list[str] = []
    used, found = 30, 0
    for span in tree.spans:
        hits = [(name, place) for name, held in _searched(span) if (place := _around(sought, held))]
        found += bool(hits)
        for name, place in hits:
            line = f"{span.id} {name}: {encode(place)}"
            used += estimate_tokens(line)
            if used <= tokens:
                lines.append(line)
    if not found:
        return f"no span holds {encode(text)}"
    more = "" if used <= tokens else "; not all are shown"
    return "\n".join([f"{found} span{'' if found == 1 else 's'}{more}", *lines])


def _searched(span: Span) -> Iterator[tuple[str, str]]:
    yield "name", span.name
    if span.message:
        yield "message", span.message
    for name, value in span_parts(span):
        yield name, _plain(value)


def _around(sought: re.Pattern[str], held: str) -> str | None:
    match = sought.search(held)
    if match is None:
        return None
    start, end = max(match.start() - AROUND, 0), match.end() + AROUND
    return f"{'…' if start else ''}{held[start:end]}{'…' if end < len(held) else ''}"


def _children(tree: SpanTree, tool_call: ToolCall, tokens: int) -> str:
    below = tree.children(tool_call.spans[0] if tool_call.spans else None)
    if not below:
        return f"{tool_call.spans[0] if tool_call.spans else 'the trace'} has nothing below it"
    pages: list[list[str]] = [[]]
    used = 30
    for span in below:
        line = f"{span_line(span).strip()}{span_size(span)}"
        used += estimate_tokens(line)
        if used > tokens and pages[-1]:
            pages.append([])
            used = 30 + estimate_tokens(line)
        pages[-1].append(line)
    count = len(pages)
    if tool_call.part > count:
        return f"there {'is 1 part' if count == 1 else f'are {count} parts'}"
    return "\n".join([f"{len(below)} spans, part {tool_call.part} of {count}", *pages[tool_call.part - 1]])


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
