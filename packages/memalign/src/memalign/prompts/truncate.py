r"""How a field of a case stands in a prompt: whole where it fits, and cut where its parts end where it does not.

Texts and plain JSON are one line of JSON. A conversation is one line a turn and a trace one line a span and part of it,
each text in it JSON-encoded: a line break in a turn becomes the two characters `\n`, so nobody can write a turn of
somebody else's. What is cut are whole turns and whole spans, never their letters, unless one alone is too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memalign.content import Turn, span_tree, turns_of
from memalign.content.encoding import BYTES_PER_TOKEN, encode, encode_within, estimate_tokens, length_of, shorten
from memalign.errors import InputError
from memalign.prompts.trace_text import outline, tree_lines

__all__ = ["Cut", "cut", "left_out", "whole"]


class Cut(NamedTuple):
    """A field in fewer tokens, what is missing in words, and whether it is a trace of which only the outline is there."""

    text: str
    note: str
    outlined: bool = False


def whole(name: str, value: object, tokens: int) -> str | None:
    """The field as a prompt shows it; None where it certainly takes more than `tokens`, and was not encoded for that."""
    if name == "conversation" and (turns := _turns(value)) is not None:
        return _joined(_turn_lines(turns), tokens)
    if name == "trace" and (tree := span_tree(value)) is not None:
        return _joined(tree_lines(tree), tokens)
    # A text over the whole budget is cut in any case: to encode megabytes of it first would hold everybody up.
    vast = isinstance(value, str) and len(value) > tokens * BYTES_PER_TOKEN
    return None if vast else encode(value)


def cut(name: str, value: object, tokens: int) -> Cut:
    """The field in about `tokens`."""
    if name == "conversation" and (turns := _turns(value)) is not None:
        return _cut_turns(turns, tokens)
    if name == "trace" and (tree := span_tree(value)) is not None:
        # Half of it: the other half is for what the judge will read in it.
        note = f"trace in outline: {len(tree.spans):,} spans are over the budget of {tokens:,} tokens"
        return Cut(outline(tree, tokens // 2), note, outlined=True)
    length = len(value) if isinstance(value, str) else len(encode(value))
    shortened = shorten(value, tokens)
    return Cut(shortened, f"{name} truncated from {length:,} to {len(shortened):,} characters")


def left_out(name: str, value: object) -> tuple[str, ...]:
    """What of a field cannot be shown, or not as it was written, in words."""
    tree = span_tree(value) if name == "trace" else None
    return () if tree is None else tree.notes


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
    return f"{who}: {' '.join(f'{word}{encode_within(value, room)}' for word, value in parts)}"


def _cut_turns(turns: Sequence[Turn], tokens: int) -> Cut:
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
    long = sum(length_of(turns[at].content) > most * BYTES_PER_TOKEN for at in shown)
    notes += [f"{long} long turn{'' if long == 1 else 's'} cut"] if long else []
    return Cut("\n".join(lines), f"conversation: {', '.join(notes)}: over the budget of {tokens:,} tokens")
