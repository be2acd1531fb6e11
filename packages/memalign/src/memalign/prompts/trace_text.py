"""A trace in a prompt: whole, with every value cut, or in outline. Every text in it is JSON-encoded."""

from __future__ import annotations

from collections.abc import Iterator

from memalign.content import Span, SpanTree
from memalign.content.encoding import encode, encode_within, estimate_tokens
from memalign.content.text import DEEPEST

__all__ = ["counted", "outline", "tree_lines"]


def tree_lines(tree: SpanTree, tokens: int | None = None) -> Iterator[str]:
    """The lines that show a trace whole, or with each value that its spans hold in so many `tokens`."""
    yield _facts(tree)
    for span in tree.spans:
        yield _span_line(span)
        for name, value in _span_parts(span):
            yield f"{_indent(span)}  {name}: {encode_within(value, tokens)}"


def _facts(tree: SpanTree) -> str:
    facts = [counted(len(tree.spans), "span")]
    if tree.errors:
        facts.append(f"{tree.errors:,} failed")
    if tree.seconds is not None:
        facts.append(_seconds(tree.seconds))
    return ", ".join(facts)


def _span_line(span: Span) -> str:
    """A span in one line: its id, name, kind, how it ended and how long it took."""
    facts = [encode(span.name), span.kind, "" if span.status == "unset" else span.status]
    facts.append("" if span.seconds is None else _seconds(span.seconds))
    facts.append(f"in {span.parent}" if span.depth > DEEPEST else "")
    facts.append(encode(span.message) if span.message else "")
    return f"{_indent(span)}{span.id} {' '.join(filter(None, facts))}"


def _span_parts(span: Span) -> list[tuple[str, object]]:
    """What a span holds, each part with its name."""
    fields = [
        ("inputs", span.inputs),
        ("outputs", span.outputs),
        ("attributes", span.attributes or None),
    ]
    return [(name, value) for name, value in fields if value is not None] + [
        ("event", event) for event in span.events
    ]


def outline(tree: SpanTree, tokens: int) -> str:
    """The tree without what its spans hold, in about `tokens`; before it what came in and what went out.

    Where not all spans fit, those that failed and the upper ones are named, and how many are not.
    """
    room = max(tokens // 4, 40)
    lines = [_facts(tree)]
    tops = [span for span in tree.spans if span.parent is None]
    ends = [(f"{tops[0].id} inputs", tops[0].inputs), (f"{tops[-1].id} outputs", tops[-1].outputs)]
    lines += [f"{name}: {encode_within(value, room)}" for name, value in ends if value is not None]
    used = sum(estimate_tokens(line) for line in lines) + 30
    place = {span.id: number for number, span in enumerate(tree.spans)}
    named: dict[int, str] = {}
    for span in sorted(
        tree.spans,
        key=lambda span: (span.status != "error" and span.depth > 0, span.depth, place[span.id]),
    ):
        size = sum(len(encode(value)) for _, value in _span_parts(span))
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


def counted(count: int, noun: str) -> str:
    """`1 span`, `1,234 spans`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
