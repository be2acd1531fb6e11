"""A trace in a prompt: whole, in outline, and what each tool shows of it. Every text in it is JSON-encoded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from memalign.content import Span, SpanTree
from memalign.content.encoding import BYTES_PER_TOKEN, encode, encode_within, estimate_tokens, length_of
from memalign.types import ToolCall

__all__ = ["outline", "show_tool_result", "tree_lines"]

DEEPEST = 12
"""Levels of a trace that are shown by indentation; below them a line names its parent."""
AROUND = 80
"""Characters shown on each side of what was searched for."""


def tree_lines(tree: SpanTree) -> Iterator[str]:
    """The lines that show a trace whole."""
    yield _facts(tree)
    for span in tree.spans:
        yield from _span_lines(span)


def _facts(tree: SpanTree, tokens: int | None = None) -> str:
    facts = [f"{len(tree.spans):,} span{'' if len(tree.spans) == 1 else 's'}"]
    if tree.errors:
        facts.append(f"{tree.errors:,} failed")
    if tree.seconds is not None:
        facts.append(_seconds(tree.seconds))
    return ", ".join(facts) + (f" {encode_within(tree.info, tokens)}" if tree.info else "")


def _span_line(span: Span) -> str:
    """A span in one line: its id, name, kind, how it ended and how long it took."""
    facts = [encode(span.name), span.kind, "" if span.status == "unset" else span.status]
    facts.append("" if span.seconds is None else _seconds(span.seconds))
    facts.append(f"in {span.parent}" if span.depth > DEEPEST else "")
    facts.append(encode(span.message) if span.message else "")
    return f"{_indent(span)}{span.id} {' '.join(filter(None, facts))}"


def _span_lines(span: Span) -> Iterator[str]:
    """The lines that show a span whole."""
    yield _span_line(span)
    indent = _indent(span)
    for name, value in _span_parts(span):
        yield f"{indent}  {name}: {encode(value)}"


def _span_parts(span: Span) -> Iterator[tuple[str, object]]:
    """What a span holds, each part with its name."""
    if span.inputs is not None:
        yield "inputs", span.inputs
    if span.outputs is not None:
        yield "outputs", span.outputs
    if span.attributes:
        yield "attributes", span.attributes
    for event in span.events:
        yield "event", event


def outline(tree: SpanTree, tokens: int) -> str:
    """The tree without what its spans hold, in about `tokens`; before it what came in and what went out.

    Where not all spans fit, those that failed and the upper ones are named, and how many are not.
    """
    room = max(tokens // 4, 40)
    lines = [_facts(tree, room)]
    tops = [span for span in tree.spans if span.parent is None]
    ends = [(f"{tops[0].id} inputs", tops[0].inputs), (f"{tops[-1].id} outputs", tops[-1].outputs)]
    lines += [f"{name}: {encode_within(value, room)}" for name, value in ends if value is not None]
    used = sum(estimate_tokens(line) for line in lines) + 30
    place = {span.id: number for number, span in enumerate(tree.spans)}
    named: dict[int, str] = {}
    for span in sorted(
        tree.spans, key=lambda span: (span.status != "error" and span.depth > 0, span.depth, place[span.id])
    ):
        line = f"{_span_line(span)}{_span_size(span)}"
        used += estimate_tokens(line)
        if used > tokens:
            break
        named[place[span.id]] = line
    lines += [named[number] for number in sorted(named)]
    if left := len(tree.spans) - len(named):
        lines.append(f"… {left:,} more spans are not named here")
    return "\n".join(lines)


def _span_size(span: Span) -> str:
    """About how much a span holds, in words for the end of its line; nothing is encoded for it."""
    size = sum(length_of(value) for _, value in _span_parts(span))
    return f", holds {size:,} characters" if size else ", empty"


def _indent(span: Span) -> str:
    return "  " * min(span.depth, DEEPEST)


def _seconds(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


# -- what the tools show ----------------------------------------------------------------------------------------------


def show_tool_result(tree: SpanTree, tool_call: ToolCall, tokens: int) -> str:
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
        text = "\n".join(_span_lines(span))
        used += estimate_tokens(text)
        if used > tokens and shown:
            shown.append(f"no room for {span.id} beside these: read it alone")
        else:
            shown.append(text if used <= tokens else _paged(span, 1, tokens))
    return "\n".join(shown)


def _paged(span: Span, part: int, tokens: int) -> str:
    """A span whole, or one part of what it holds: as one text of JSON, so that no part begins a line of its own."""
    text = "\n".join(_span_lines(span))
    if part == 1 and estimate_tokens(text) <= tokens:
        return text
    line = _span_line(span)
    held = "\n".join(f"{name}: {_plain(value)}" for name, value in _span_parts(span))
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
    for name, value in _span_parts(span):
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
        line = f"{_span_line(span).strip()}{_span_size(span)}"
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
