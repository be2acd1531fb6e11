r"""How a field of a case stands in a prompt: whole where it fits, and cut where its parts end where it does not.

Texts and plain JSON are one line of JSON. A conversation is one line a turn and a trace one line a span and part of it,
each text in it JSON-encoded: a line break in a turn becomes the two characters `\n`, so nobody can write a turn of
somebody else's. What is cut are whole turns and whole spans, never their letters, unless one alone is too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from memalign.content import Span, SpanTree, Turn, span_tree, turns_of
from memalign.errors import InputError
from memalign.prompts import encode
from memalign.prompts.tokens import BYTES_PER_TOKEN, estimate_tokens

__all__ = [
    "OUTLINED",
    "cut",
    "left_out",
    "outline",
    "shorten",
    "shown_span",
    "span_line",
    "span_parts",
    "span_size",
    "whole",
]

OUTLINED = "trace in outline"
"""How the note begins that says so."""

DEEPEST = 12
"""Levels of a trace that are shown by indentation; below them a line names its parent."""


def whole(name: str, value: object, tokens: int) -> str | None:
    """The field as a prompt shows it; None where it certainly takes more than `tokens`, and was not encoded for that."""
    if name == "conversation" and (turns := _turns(value)) is not None:
        return _joined(_turn_lines(turns), tokens)
    if name == "trace" and (tree := span_tree(value)) is not None:
        return _joined(_tree_lines(tree), tokens)
    # A text over the whole budget is cut in any case: to encode megabytes of it first would hold everybody up.
    vast = isinstance(value, str) and len(value) > tokens * BYTES_PER_TOKEN
    return None if vast else encode(value)


def cut(name: str, value: object, tokens: int) -> tuple[str, str]:
    """The field in about `tokens`, and what is missing from it in words."""
    if name == "conversation" and (turns := _turns(value)) is not None:
        return _cut_turns(turns, tokens)
    if name == "trace" and (tree := span_tree(value)) is not None:
        # Half of it: the other half is for what the judge will read in it.
        return outline(
            tree, tokens // 2
        ), f"{OUTLINED}: {len(tree.spans):,} spans are over the budget of {tokens:,} tokens"
    length = len(value) if isinstance(value, str) else len(encode(value))
    shortened = shorten(value, tokens)
    return shortened, f"{name} truncated from {length:,} to {len(shortened):,} characters"


def left_out(name: str, value: object) -> tuple[str, ...]:
    """What of a field cannot be shown, or not as it was written, in words."""
    tree = span_tree(value) if name == "trace" else None
    return () if tree is None else tree.notes


def shorten(value: object, tokens: int) -> str:
    """`value` encoded and cut to about `tokens`: its beginning and end, and how much is missing between them."""
    text = value if isinstance(value, str) else encode(value)
    room = max(int(tokens * BYTES_PER_TOKEN) - 60, 40)
    while True:
        head, tail = text[: room * 2 // 3], text[-(room // 3) :]
        shortened = encode(f"{head} …[{len(text) - len(head) - len(tail):,} characters left out]… {tail}")
        if estimate_tokens(shortened) <= tokens or room <= 40:
            return shortened
        room = room * 3 // 4  # wide characters and escapes take more bytes than the estimate of one each


def _joined(lines: Iterator[str], tokens: int) -> str | None:
    """The lines as one text, or None as soon as they are too many: the rest is never encoded."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += estimate_tokens(line)
        if used > tokens:
            return None
        kept.append(line)
    return "\n".join(kept)


# -- conversations ---------------------------------------------------------------------------------------------------------


def _turns(value: object) -> tuple[Turn, ...] | None:
    try:
        return turns_of(value)
    except InputError:  # stored by an older version: shown as JSON
        return None


def _turn_lines(turns: Sequence[Turn]) -> Iterator[str]:
    yield f"{len(turns)} turn{'' if len(turns) == 1 else 's'}"
    for number, turn in enumerate(turns, 1):
        yield _turn_line(number, turn)


def _turn_line(number: int, turn: Turn, tokens: int | None = None) -> str:
    parts: list[tuple[str, object]] = [("", turn.content)] if turn.content is not None else []
    parts += [("calls ", list(turn.calls))] if turn.calls else []
    parts += [("with ", turn.rest)] if turn.rest else []
    room = None if tokens is None else tokens // len(parts)
    who = f"{number} {turn.role}" if turn.role else f"{number}"
    return f"{who}: {' '.join(f'{word}{_encoded(value, room)}' for word, value in parts)}"


def _encoded(value: object, tokens: int | None) -> str:
    """`value` encoded, and cut where it takes more than `tokens`."""
    if tokens is None:
        return encode(value)
    if isinstance(value, str) and len(value) > tokens * BYTES_PER_TOKEN:
        return shorten(value, tokens)
    text = encode(value)
    return text if estimate_tokens(text) <= tokens else shorten(value, tokens)


def _cut_turns(turns: Sequence[Turn], tokens: int) -> tuple[str, str]:
    """The first turns, and the last ones with twice the room: what it is about, and how it ended.

    The first and the last turn are always there; one that takes more than a quarter of the room is cut itself.
    """
    count = len(turns)
    most = max((tokens - 20) // min(count, 4), 40)
    shown: dict[int, str] = {}
    begun, ended, used = 0, 0, 20  # how many turns of the beginning and of the end are shown
    spent = {True: 0, False: 0}
    while begun + ended < count:
        last = spent[True] <= 2 * spent[False]
        at = count - 1 - ended if last else begun
        line = _turn_line(at + 1, turns[at], most)
        cost = estimate_tokens(line)
        if used + cost > tokens and len(shown) >= 2:
            break
        shown[at] = line
        used += cost
        spent[last] += cost
        begun, ended = (begun, ended + 1) if last else (begun + 1, ended)
    lines = [f"{count} turn{'' if count == 1 else 's'}", *(shown[at] for at in range(begun))]
    notes = []
    if gap := count - begun - ended:
        turn = f"turn {begun + 1}" if gap == 1 else f"turns {begun + 1} to {count - ended}"
        notes.append(f"{turn} of {count} left out")
        lines.append(f"… {notes[0]}")
    lines += [shown[at] for at in range(count - ended, count)]
    long = sum(_length(turns[at].content) > most * BYTES_PER_TOKEN for at in shown)
    notes += [f"{long} long turn{'' if long == 1 else 's'} cut"] if long else []
    return "\n".join(lines), f"conversation: {', '.join(notes)}: over the budget of {tokens:,} tokens"


# -- traces ----------------------------------------------------------------------------------------------------------------


def _tree_lines(tree: SpanTree) -> Iterator[str]:
    yield _head(tree)
    for span in tree.spans:
        yield from shown_span(span)


def _head(tree: SpanTree, tokens: int | None = None) -> str:
    facts = [f"{len(tree.spans):,} span{'' if len(tree.spans) == 1 else 's'}"]
    if tree.errors:
        facts.append(f"{tree.errors:,} failed")
    if tree.seconds is not None:
        facts.append(_seconds(tree.seconds))
    return ", ".join(facts) + (f" {_encoded(tree.info, tokens)}" if tree.info else "")


def span_line(span: Span) -> str:
    """A span in one line: its id, name, kind, how it ended and how long it took."""
    facts = [encode(span.name), span.kind, "" if span.status == "unset" else span.status]
    facts.append("" if span.seconds is None else _seconds(span.seconds))
    facts.append(f"in {span.parent}" if span.depth > DEEPEST else "")
    facts.append(encode(span.message) if span.message else "")
    return f"{_indent(span)}{span.id} {' '.join(filter(None, facts))}"


def shown_span(span: Span) -> Iterator[str]:
    """The lines that show a span whole."""
    yield span_line(span)
    indent = _indent(span)
    for name, value in span_parts(span):
        yield f"{indent}  {name}: {encode(value)}"


def span_parts(span: Span) -> Iterator[tuple[str, object]]:
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
    lines = [_head(tree, room)]
    tops = [span for span in tree.spans if span.parent is None]
    ends = [(f"{tops[0].id} inputs", tops[0].inputs), (f"{tops[-1].id} outputs", tops[-1].outputs)]
    lines += [f"{name}: {_encoded(value, room)}" for name, value in ends if value is not None]
    used = sum(estimate_tokens(line) for line in lines) + 30
    place = {span.id: number for number, span in enumerate(tree.spans)}
    named: dict[int, str] = {}
    for span in sorted(
        tree.spans, key=lambda span: (span.status != "error" and span.depth > 0, span.depth, place[span.id])
    ):
        line = f"{span_line(span)}{span_size(span)}"
        used += estimate_tokens(line)
        if used > tokens:
            break
        named[place[span.id]] = line
    lines += [named[number] for number in sorted(named)]
    if left := len(tree.spans) - len(named):
        lines.append(f"… {left:,} more spans are not named here")
    return "\n".join(lines)


def span_size(span: Span) -> str:
    """About how much a span holds, in words for the end of its line; nothing is encoded for it."""
    size = sum(_length(value) for _, value in span_parts(span))
    return f", holds {size:,} characters" if size else ", empty"


def _length(value: object) -> int:
    total = 0
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting.extend(part.values())
            total += sum(len(str(name)) + 4 for name in part)
        elif isinstance(part, list | tuple):
            waiting.extend(part)
            total += len(part)
        else:
            total += len(part) if isinstance(part, str) else 4
    return total


def _indent(span: Span) -> str:
    return "  " * min(span.depth, DEEPEST)


def _seconds(seconds: float) -> str:
    return (
        f"{seconds:,.0f} s" if seconds >= 100 else f"{seconds:.2f} s" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"
    )
