r"""What of fields, past cases, feedback and guidelines fits into so many tokens of a prompt, and how a field is cut.

Texts and plain JSON are one line of JSON. A conversation is one line a turn and a trace one line a span and part of it,
each text in it JSON-encoded: a line break in a turn becomes the two characters `\n`, so nobody can write a turn of
somebody else's. What is cut are whole turns and whole spans, never their letters, unless one alone is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from memalign.content import SpanTree, Turn, span_tree, turns_of
from memalign.content.encoding import (
    BYTES_PER_TOKEN,
    encode,
    encode_within,
    estimate_tokens,
    shorten,
)
from memalign.prompts.rendering import DistilRecord, RenderedExample, render_answer
from memalign.prompts.trace_text import counted, outline, tree_lines
from memalign.types import Guideline
from memalign.values import Value

__all__ = [
    "Cut",
    "FeedbackRecord",
    "FittedFields",
    "cut",
    "fit_example",
    "fit_fields",
    "fit_guidelines",
    "fit_records",
    "guideline_tokens",
    "whole",
]

SHORT = 24
"""Tokens up to which a text is never cut: what would stand in its place is as long."""
USEFUL = 60
"""Tokens below which a text is left out altogether: of less nobody can learn anything."""


class FittedFields(NamedTuple):
    """Fields encoded, and notes on what is missing in them."""

    fields: dict[str, str]
    notes: tuple[str, ...] = ()


class FeedbackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of feedback before it is fitted into a prompt: the case, the judge's own verdict, the expert's."""

    label: str
    content: tuple[tuple[str, object], ...]
    value: Value | None = None
    rationale: str | None = None
    judge: Value | None = None
    judge_rationale: str | None = None


def fit_fields(content: Mapping[str, object], tokens: int) -> FittedFields:
    """Encode every field; when together they exceed `tokens`, cut the longest down to an equal share."""
    texts = {name: whole(name, value, tokens) for name, value in content.items()}
    sizes = {
        name: tokens + 1 if text is None else estimate_tokens(text) for name, text in texts.items()
    }
    fields = {name: text for name, text in texts.items() if text is not None}
    if sum(sizes.values()) <= tokens:
        return FittedFields(fields)
    notes, room = list[str](), tokens
    names = sorted(sizes, key=lambda name: sizes[name])
    for position, name in enumerate(names):
        share = room // (len(names) - position)
        if sizes[name] > share:
            shortened = cut(name, content[name], share)
            fields[name] = shortened.text
            notes.append(shortened.note)
        room -= min(sizes[name], share)
    return FittedFields({name: fields[name] for name in content}, tuple(notes))


def fit_example(
    content: Mapping[str, object], words: str, label: Value | None, tokens: int
) -> tuple[RenderedExample, tuple[str, ...]]:
    """A past case as a prompt shows it, and notes on what is missing.

    Args:
        content: The case's fields.
        words: The experts' comments.
        label: The label that counts.
        tokens: What the fields may take, and as much again the words.
    """
    comment = words[
        : _largest(lambda length: estimate_tokens(encode(words[:length])) <= tokens, len(words))
    ]
    fields, notes = fit_fields(content, tokens)
    if len(comment) < len(words):
        notes = (
            *notes,
            f"the comment truncated from {len(words):,} to {len(comment):,} characters",
        )
    return RenderedExample(
        fields=tuple(fields.items()), answer=render_answer(comment or None, label)
    ), notes


def fit_records(
    records: Sequence[FeedbackRecord], fits: Callable[[Sequence[DistilRecord]], bool], *, most: int
) -> tuple[DistilRecord, ...]:
    """The records encoded, every text cut to the same number of tokens (`most` at most) so that `fits` accepts them.

    The expert's label and words stay whole, unless they are too long beside cases that are left out. Where nothing
    fits, all texts are as short as they can be.
    """

    def encoded(case: int, words: int | None) -> tuple[DistilRecord, ...]:
        return tuple(_encoded(record, case, words) for record in records)

    full = encoded(most, None)
    if fits(full):  # nearly always
        return full
    if fits(encoded(0, None)):
        return encoded(_largest(lambda tokens: fits(encoded(tokens, None)), most), None)
    words = [
        text
        for record in records
        for text in (record.rationale, record.value)
        if isinstance(text, str)
    ]
    longest = max((len(text.encode("utf-8", "surrogatepass")) for text in words), default=0)
    return encoded(0, _largest(lambda tokens: fits(encoded(0, tokens)), longest))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The most tokens that fit, from 0 to `most`; 0 is taken to fit."""
    if fits(most):  # nearly always
        return most
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return least


def _encoded(record: FeedbackRecord, case: int, words: int | None) -> DistilRecord:
    """The record with its case in `case` tokens a text and the expert's words in `words` (None: whole)."""

    def text_of(value: Value | None, tokens: int | None) -> str | None:
        return (
            None
            if value is None
            else encode(value)
            if tokens is None
            else _within("", value, tokens)
        )

    return DistilRecord(
        label=record.label,
        fields=tuple((name, _within(name, value, case)) for name, value in record.content),
        judge=text_of(record.judge, case),
        judge_rationale=text_of(record.judge_rationale, case),
        value=text_of(record.value, words),
        rationale=text_of(record.rationale, words),
    )


def _within(name: str, value: object, tokens: int) -> str:
    text = whole(name, value, max(tokens, SHORT))
    if text is not None and estimate_tokens(text) <= max(tokens, SHORT):
        return text
    if tokens < USEFUL:
        return encode("[left out: too long]")
    return cut(name, value, tokens).text if name else shorten(value, tokens)


def fit_guidelines(
    guidelines: Sequence[Guideline], tokens: int
) -> tuple[tuple[Guideline, ...], tuple[str, ...]]:
    """The guidelines that fit into `tokens`, in their order, and the ids of those left out.

    Pinned ones go first and are never left out, then those that a person wrote, then the best supported, and among
    equals the oldest. The choice depends on the memory only, so the prompt's prefix stays the same for every item.
    """

    def rank(guideline: Guideline) -> tuple[bool, bool, int, int]:
        written = guideline.origin != "distilled"
        return (not guideline.pinned, not written, -len(guideline.supported_by), guideline.number)

    chosen: set[str] = set()
    used = 0
    for guideline in sorted(guidelines, key=rank):
        if used + (cost := guideline_tokens(guideline)) <= tokens or guideline.pinned:
            chosen.add(guideline.id)
            used += cost
    fitting = tuple(guideline for guideline in guidelines if guideline.id in chosen)
    return fitting, tuple(guideline.id for guideline in guidelines if guideline.id not in chosen)


def guideline_tokens(guideline: Guideline) -> int:
    """What a guideline takes in a prompt."""
    return estimate_tokens(guideline.text) + 2  # its id or dash, and the end of its line


# -- one field -------------------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """A field in fewer tokens, and what is missing in words."""

    text: str
    note: str


def whole(name: str, value: object, tokens: int) -> str | None:
    """The field as a prompt shows it; None if it certainly takes more than `tokens`, and was not encoded for that."""
    if name == "conversation" and (turns := turns_of(value)) is not None:
        numbered = (_turn_line(number, turn) for number, turn in enumerate(turns, 1))
        return _joined(counted(len(turns), "turn"), numbered, tokens)
    if name == "trace" and (tree := span_tree(value)) is not None:
        lines = tree_lines(tree)
        return _joined(next(lines), lines, tokens)
    # A text over the whole budget is cut in any case: to encode megabytes of it first would hold everybody up.
    vast = isinstance(value, str) and len(value) > tokens * BYTES_PER_TOKEN
    return None if vast else encode(value)


def cut(name: str, value: object, tokens: int) -> Cut:
    """The field in about `tokens`."""
    if name == "conversation" and (turns := turns_of(value)) is not None:
        return _cut_turns(turns, tokens)
    if name == "trace" and (tree := span_tree(value)) is not None:
        return _cut_tree(tree, tokens)
    length = len(value) if isinstance(value, str) else len(encode(value))
    shortened = shorten(value, tokens)
    return Cut(shortened, f"{name} truncated from {length:,} to {len(shortened):,} characters")


def _cut_tree(tree: SpanTree, tokens: int) -> Cut:
    """All spans with every value cut to the same length; where even short ones do not fit, an outline."""

    def tree_within(room: int) -> str | None:
        lines = tree_lines(tree, room)
        return _joined(next(lines), lines, tokens)

    over = f"{counted(len(tree.spans), 'span')} are over the budget of {tokens:,} tokens"
    room = _largest(lambda room: tree_within(room) is not None, tokens)
    if room > SHORT and (text := tree_within(room)) is not None:
        return Cut(text, f"trace: {over}, and long values in them are cut")
    return Cut(outline(tree, tokens), f"trace in outline: {over}")


def _joined(first: str, rest: Iterator[str], tokens: int) -> str | None:
    """The lines as one text, or None as soon as they are too many: what follows is never encoded."""
    lines, used = [first], estimate_tokens(first)
    for line in rest:
        lines.append(line)
        used += estimate_tokens(line)
        if used > tokens:
            return None
    return "\n".join(lines)


def _turn_line(number: int, turn: Turn, tokens: int | None = None) -> str:
    parts: list[tuple[str, object]] = [("", turn.content)] if turn.content is not None else []
    parts += [("calls ", list(turn.calls))] if turn.calls else []
    parts += [("with ", turn.rest)] if turn.rest else []
    room = None if tokens is None else tokens // len(parts)
    speaker = f"{number} {turn.role}" if turn.role else f"{number}"
    return f"{speaker}: {' '.join(f'{word}{encode_within(value, room)}' for word, value in parts)}"


def _cut_turns(turns: Sequence[Turn], tokens: int) -> Cut:
    """The first turns, and the last ones with twice the room: what it is about, and how it ended.

    The first and the last turn are always there; one that takes more than a quarter of the room is cut itself.
    """
    count = len(turns)
    most = max((tokens - 20) // min(count, 4), 40)
    lines: dict[int, str] = {}
    first, last, used = 0, 0, 20  # turns of the beginning and of the end
    spent = {True: 0, False: 0}
    while first + last < count:
        at_end = spent[True] <= 2 * spent[False]
        place = count - 1 - last if at_end else first
        line = _turn_line(place + 1, turns[place], most)
        cost = estimate_tokens(line)
        if used + cost > tokens and len(lines) >= 2:
            break
        lines[place] = line
        used += cost
        spent[at_end] += cost
        first, last = (first, last + 1) if at_end else (first + 1, last)
    notes = []
    if gap := count - first - last:
        numbers = f"turn {first + 1}" if gap == 1 else f"turns {first + 1} to {count - last}"
        notes.append(f"{numbers} of {count} left out")
    text = [
        counted(count, "turn"),
        *(lines[place] for place in range(first)),
        *(f"… {note}" for note in notes),
    ]
    text += [lines[place] for place in range(count - last, count)]
    if long := sum(estimate_tokens(encode(turns[place].content)) > most for place in lines):
        notes.append(f"{counted(long, 'long turn')} cut")
    return Cut(
        "\n".join(text), f"conversation: {', '.join(notes)}: over the budget of {tokens:,} tokens"
    )
