"""A trace in a prompt: whole, with every value cut, or in outline; every text is JSON-encoded."""

from __future__ import annotations

from collections.abc import Iterator

from memalign.content import Span, SpanTree
from memalign.content.encoding import encode, encode_within, estimate_tokens
from memalign.content.text import DEEPEST

__all__ = ["counted", "outline", "tree_lines"]


def tree_lines(tree: SpanTree, tokens: int | None = None) -> Iterator[str]:
    """Yield the lines that show a trace.

    Args:
        tree: The trace.
        tokens: The room of each value that its spans hold; None for all of it.
    """
    yield _facts(tree)
    for span in tree.spans:
        yield _span_line(span)
        indent = _indent(span)
        for name, value in _span_parts(span):
            encoded = encode_within(value, tokens)
            yield f"{indent}  {name}: {encoded}"


def outline(tree: SpanTree, tokens: int) -> str:
    """Return the tree without what its spans hold, but with what came in and what went out.

    If not all spans fit, those that failed and the upper ones are named, and the others counted.

    Args:
        tree: The trace.
        tokens: About how many the outline may take.
    """
    quarter = max(tokens // 4, 40)
    lines = [_facts(tree), *_ends(tree, quarter)]
    used = estimate_tokens(*lines) + 30
    named: dict[str, str] = {}
    most_telling = sorted(tree.spans, key=_rank)
    for span in most_telling:
        line = _span_line(span)
        used += estimate_tokens(line)
        if used > tokens:
            break
        named[span.id] = line
    for span in tree.spans:
        if span.id in named:
            lines.append(named[span.id])
    count = len(tree.spans)
    rest = count - len(named)
    if rest:
        lines.append(f"… {rest:,} more spans are not named here")
    return "\n".join(lines)


def counted(count: int, noun: str) -> str:
    """Return a number of things, such as `1 span` or `1,234 spans`."""
    plural = "s"
    if count == 1:
        plural = ""
    return f"{count:,} {noun}{plural}"


def _ends(tree: SpanTree, room: int) -> Iterator[str]:
    """Yield what the first of the uppermost spans was given, and what the last one returned."""
    tops = [span for span in tree.spans if span.parent is None]
    first = tops[0]
    last = tops[-1]
    if first.inputs is not None:
        given = encode_within(first.inputs, room)
        yield f"{first.id} inputs: {given}"
    if last.outputs is not None:
        returned = encode_within(last.outputs, room)
        yield f"{last.id} outputs: {returned}"


def _rank(span: Span) -> tuple[bool, int]:
    """Return the place of a span in an outline: failed and uppermost ones first, then by depth."""
    failed = span.status == "error"
    first = failed or span.depth == 0
    return not first, span.depth


def _facts(tree: SpanTree) -> str:
    count = len(tree.spans)
    facts = [counted(count, "span")]
    if tree.errors:
        facts.append(f"{tree.errors:,} failed")
    if tree.seconds is not None:
        facts.append(_seconds(tree.seconds))
    return ", ".join(facts)


def _span_line(span: Span) -> str:
    """Return a span in one line: its id, name, kind, how it ended and how long it took."""
    name = encode(span.name)
    facts = [span.id, name]
    if span.kind:
        facts.append(span.kind)
    if span.status != "unset":
        facts.append(span.status)
    if span.seconds is not None:
        took = _seconds(span.seconds)
        facts.append(took)
    if span.depth > DEEPEST:
        facts.append(f"in {span.parent}")
    if span.message:
        message = encode(span.message)
        facts.append(message)
    indent = _indent(span)
    line = " ".join(facts)
    return f"{indent}{line}"


def _span_parts(span: Span) -> Iterator[tuple[str, object]]:
    """Yield the parts that a span holds, each with its name."""
    if span.inputs is not None:
        yield "inputs", span.inputs
    if span.outputs is not None:
        yield "outputs", span.outputs
    if span.attributes:
        yield "attributes", span.attributes
    for event in span.events:
        yield "event", event


def _indent(span: Span) -> str:
    depth = min(span.depth, DEEPEST)
    return "  " * depth


def _seconds(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f} ms"
