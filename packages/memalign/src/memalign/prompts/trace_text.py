"""A trace in a prompt: whole, in outline, and what each tool shows of it. Every text in it is JSON-encoded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from memalign.content import Span, SpanTree
from memalign.content.encoding import BYTES_PER_TOKEN, encode, encode_within, estimate_tokens, length_of
from memalign.types import ToolCall

__all__ = ["counted", "outline", "show_tool_result", "tree_lines"]

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
    facts = [counted(len(tree.spans), "span")]
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


def _span_parts(span: Span) -> list[tuple[str, object]]:
    """What a span holds, each part with its name."""
    fields = [("inputs", span.inputs), ("outputs", span.outputs), ("attributes", span.attributes or None)]
    return [(name, value) for name, value in fields if value is not None] + [("event", event) for event in span.events]


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
        size = sum(length_of(value) for _, value in _span_parts(span))  # nothing is encoded for it
        line = _span_line(span) + (f", holds {size:,} characters" if size else ", empty")
        used += estimate_tokens(line)
        if used > tokens:
            break
        named[place[span.id]] = line
    lines += [named[number] for number in sorted(named)]
    if rest := len(tree.spans) - len(named):
        lines.append(f"… {rest:,} more spans are not named here")
    return "\n".join(lines)


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
    spans = [span for name in tool_call.spans if (span := tree.span(name)) is not None]
    if unknown := [name for name in tool_call.spans if tree.span(name) is None]:
        return f"there is no span {', '.join(unknown)}; spans are S1 to S{len(tree.spans)}"
    if not spans:
        return 'no span is named: "spans" holds ids such as S3'
    return "\n".join(_read(span, tool_call.part, tokens // len(spans)) for span in spans)


def _read(span: Span, part: int, tokens: int) -> str:
    """A span whole, or one part of what it holds: as one text of JSON, so that no part begins a line of its own."""
    text = "\n".join(_span_lines(span))
    if part == 1 and estimate_tokens(text) <= tokens:
        return text
    line = _span_line(span)
    content = "\n".join(f"{name}: {_plain(value)}" for name, value in _span_parts(span))
    room = max(tokens - estimate_tokens(line) - 10, 30)
    size = max(int(room * BYTES_PER_TOKEN * 0.8 * len(content) / max(len(content.encode("utf-8", "replace")), 1)), 40)
    count = max(-(-len(content) // size), 1)
    if part > count:
        return f"{span.id} has {counted(count, 'part')}"
    return f"{line}\npart {part} of {count}: {encode(content[(part - 1) * size : part * size])}"


def _search(tree: SpanTree, text: str, tokens: int) -> str:
    if not text:
        return 'nothing to search for: "text" is empty'
    sought = re.compile(re.escape(text), re.IGNORECASE)
    lines: list[str] = []
    used, count = 30, 0
    for span in tree.spans:
        texts = [("name", span.name), ("message", span.message)]
        texts += [(name, _plain(value)) for name, value in _span_parts(span)]
        hits = [(name, place) for name, content in texts if (place := _around(sought, content))]
        count += bool(hits)
        for name, place in hits:
            line = f"{span.id} {name}: {encode(place)}"
            used += estimate_tokens(line)
            if used <= tokens:
                lines.append(line)
    if not count:
        return f"no span holds {encode(text)}"
    more = "" if used <= tokens else "; not all are shown"
    return "\n".join([f"{counted(count, 'span')}{more}", *lines])


def _around(sought: re.Pattern[str], content: str) -> str | None:
    match = sought.search(content)
    if match is None:
        return None
    start, end = max(match.start() - AROUND, 0), match.end() + AROUND
    return f"{'…' if start else ''}{content[start:end]}{'…' if end < len(content) else ''}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def counted(count: int, noun: str) -> str:
    """`1 span`, `1,234 spans`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
