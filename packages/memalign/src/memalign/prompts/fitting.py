r"""What of fields, cases, feedback and guidelines fits into a prompt, and how a field is cut.

Texts and plain JSON are one line of JSON. A conversation is one line for each turn and a trace one
line for each span and part of it, each text in it JSON-encoded: a line break in a turn becomes the
two characters `\n`, so nobody can write a turn of somebody else's. Whole turns and whole spans are
cut, never their letters, unless one alone is too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from memalign.content import SpanTree, Turn
from memalign.content.encoding import (
    BYTES_PER_TOKEN,
    encode,
    encode_within,
    estimate_tokens,
    shorten,
)
from memalign.content.text import shape_of
from memalign.prompts.rendering import DistilRecord, RenderedExample
from memalign.prompts.trace_text import counted, outline, tree_lines
from memalign.types import Guideline
from memalign.values import Value

__all__ = [
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
"""Tokens up to which a text is never cut: a note in its place is as long."""
USEFUL = 60
"""Tokens below which a text is left out altogether: nobody can learn anything from less."""

_LONGEST = 10**7
"""Tokens that no comment has."""


class FittedFields(NamedTuple):
    """Fields encoded, and notes on what is missing in them."""

    fields: dict[str, str]
    notes: tuple[str, ...] = ()


class FeedbackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of feedback before it is fitted into a prompt.

    Attributes:
        label: What names it in the prompt.
        content: The parts of the case.
        value: The expert's label.
        rationale: The expert's words.
        judge: The judge's own verdict.
        judge_rationale: The judge's reason.
    """

    label: str
    content: tuple[tuple[str, object], ...]
    value: Value | None = None
    rationale: str | None = None
    judge: Value | None = None
    judge_rationale: str | None = None


def fit_fields(content: Mapping[str, object], tokens: int) -> FittedFields:
    """Encode every field, and cut the longest to an equal share if they exceed the room.

    Args:
        content: The fields.
        tokens: The room for all of them.
    """
    fields: dict[str, str] = {}
    sizes: dict[str, int] = {}
    for name, value in content.items():
        text = whole(name, value, tokens)
        size = tokens + 1
        if text is not None:
            size = estimate_tokens(text)
        sizes[name] = size
        fields[name] = text or ""
    notes: list[str] = []
    room = tokens
    waiting = sorted(sizes, key=sizes.__getitem__, reverse=True)
    while waiting:
        share = room // len(waiting)
        name = waiting.pop()
        size = sizes[name]
        if size > share:
            size = share
            value = content[name]
            fields[name], note = cut(name, value, share)
            notes.append(note)
        room -= size
    return FittedFields(fields, tuple(notes))


def fit_example(
    content: Mapping[str, object], words: str, label: Value | None, tokens: int
) -> tuple[RenderedExample, tuple[str, ...]]:
    """Return a past case as a prompt shows it, and notes on what is missing.

    Args:
        content: The case's fields.
        words: The experts' comments.
        label: The label that counts.
        tokens: The room for the fields, and again for the words.
    """
    fields, notes = fit_fields(content, tokens)
    # Not the form of a judge's answer: a weak model took an example's words for its own reason.
    answer = "Expert:"
    if label is not None:
        value = encode(label)
        answer += f" {value}."
    if words:
        said, missing = fit_fields({"the comment": words}, tokens)
        comment = said["the comment"]
        answer += f" Comment: {comment}"
        notes += missing
    named = tuple(fields.items())
    example = RenderedExample(fields=named, answer=answer)
    return example, notes


# -- feedback ----------------------------------------------------------------------------------


def fit_records(
    records: Sequence[FeedbackRecord],
    fits: Callable[[Sequence[DistilRecord]], bool],
    *,
    most: int,
) -> list[DistilRecord]:
    """Encode records, every text cut to the same number of tokens so that the prompt fits.

    The expert's label and words stay whole, unless they are too long beside cases that are left
    out. If nothing fits, all texts are as short as they can be.

    Args:
        records: The feedback.
        fits: Whether a prompt has room for encoded records.
        most: Tokens of one text at most.
    """
    case = most
    words = _LONGEST
    while True:
        encoded = [_encoded(record, case, words) for record in records]
        if fits(encoded) or words < USEFUL:
            return encoded
        if case >= USEFUL:
            case = case * 3 // 4
        else:
            words //= 2


def _encoded(record: FeedbackRecord, case: int, words: int) -> DistilRecord:
    """Encode a record.

    Args:
        record: The feedback.
        case: Tokens of each text of the case, and of what the judge said.
        words: Tokens of each of the expert's texts.
    """

    def text_of(value: Value | None, tokens: int) -> str | None:
        if value is None:
            return None
        return _within("", value, tokens)

    fields: list[tuple[str, str]] = []
    for name, value in record.content:
        text = _within(name, value, case)
        field = (name, text)
        fields.append(field)
    return DistilRecord(
        label=record.label,
        fields=tuple(fields),
        judge=text_of(record.judge, case),
        judge_rationale=text_of(record.judge_rationale, case),
        value=text_of(record.value, words),
        rationale=text_of(record.rationale, words),
    )


def _within(name: str, value: object, tokens: int) -> str:
    room = max(tokens, SHORT)
    text = whole(name, value, room)
    if text is not None and estimate_tokens(text) <= room:
        return text
    if tokens < USEFUL:
        return encode("[left out: too long]")
    text, _ = cut(name, value, tokens)
    return text


# -- guidelines --------------------------------------------------------------------------------


def fit_guidelines(
    guidelines: Sequence[Guideline],
    tokens: int,
    *,
    nearest: Mapping[str, float] = MappingProxyType({}),
) -> tuple[tuple[Guideline, ...], tuple[str, ...]]:
    """Return the guidelines that fit, in their order, and the ids of the others.

    Pinned ones go first and are never left out, then those that a person wrote, then the best
    supported, and among equals the oldest. The choice depends on the memory only, so the prompt's
    prefix stays the same for every item.

    Args:
        guidelines: Those in force.
        tokens: The room for all of them.
        nearest: How alike each is to what is shown beside it, by its id. After pinned ones the
            most alike go first then.
    """
    if guideline_tokens(*guidelines) <= tokens:  # nearly always
        return tuple(guidelines), ()

    def rank(guideline: Guideline) -> tuple[bool, float, bool, int]:
        return (
            guideline.pinned,
            nearest.get(guideline.id, 0.0),
            guideline.origin != "distilled",
            len(guideline.supported_by),
        )

    chosen: set[str] = set()
    room = tokens
    best_first = sorted(guidelines, key=rank, reverse=True)
    for guideline in best_first:
        size = guideline_tokens(guideline)
        if guideline.pinned or size <= room:
            chosen.add(guideline.id)
            room -= size
    fitting: list[Guideline] = []
    left_out: list[str] = []
    for guideline in guidelines:
        if guideline.id in chosen:
            fitting.append(guideline)
        else:
            left_out.append(guideline.id)
    return tuple(fitting), tuple(left_out)


def guideline_tokens(*guidelines: Guideline) -> int:
    """Return how many tokens guidelines take in a prompt."""
    # Two are the id or dash, and the end of the line.
    texts = [guideline.text for guideline in guidelines]
    around = 2 * len(texts)
    return estimate_tokens(*texts) + around


# -- one field ---------------------------------------------------------------------------------


def whole(name: str, value: object, tokens: int) -> str | None:
    """Return a field as a prompt shows it, or None if it is certainly longer and not encoded.

    Args:
        name: The field.
        value: What it holds.
        tokens: Its room.
    """
    shape = shape_of(name, value)
    if isinstance(shape, SpanTree):
        lines = tree_lines(shape)
        return _joined(lines, tokens)
    if shape is not None:
        lines = _turn_lines(shape)
        return _joined(lines, tokens)
    # A text over the whole budget is cut in any case: to encode megabytes of it first would hold
    # everybody up.
    longest = tokens * BYTES_PER_TOKEN
    if isinstance(value, str) and len(value) > longest:
        return None
    return encode(value)


def cut(name: str, value: object, tokens: int) -> tuple[str, str]:
    """Return a field in about so many tokens, and what is missing in words.

    Args:
        name: The field.
        value: What it holds.
        tokens: Its room.
    """
    shape = shape_of(name, value)
    if isinstance(shape, SpanTree):
        return _cut_tree(shape, tokens)
    if shape is not None:
        return _cut_turns(shape, tokens)
    if not isinstance(value, str):
        value = encode(value)
    text = shorten(value, tokens)
    before = len(value)
    after = len(text)
    note = f"{name} truncated from {before:,} to {after:,} characters"
    return text, note


def _joined(lines: Iterable[str], tokens: int) -> str | None:
    """Join lines, or return None at the first that is too much: no later one is encoded."""
    kept: list[str] = []
    used = 0
    for line in lines:
        used += estimate_tokens(line)
        if kept and used > tokens:
            return None
        kept.append(line)
    return "\n".join(kept)


def _cut_tree(tree: SpanTree, tokens: int) -> tuple[str, str]:
    """Show all spans with their values cut to one length, or an outline if that is too long."""
    count = len(tree.spans)
    spans = counted(count, "span")
    over = f"{spans} are over the budget of {tokens:,} tokens"
    room = tokens
    while room > SHORT:
        lines = tree_lines(tree, room)
        text = _joined(lines, tokens)
        if text is not None:
            return text, f"trace: {over}, and long values in them are cut"
        room = room * 3 // 4
    text = outline(tree, tokens)
    return text, f"trace in outline: {over}"


# -- turns of a conversation -------------------------------------------------------------------


def _turn_lines(turns: Sequence[Turn]) -> Iterator[str]:
    count = len(turns)
    yield counted(count, "turn")
    for number, turn in enumerate(turns, 1):
        yield _turn_line(number, turn)


def _turn_line(number: int, turn: Turn, tokens: int = _LONGEST) -> str:
    parts = {
        "": turn.content,
        "calls ": turn.calls or None,
        "with ": turn.rest or None,
    }
    held: dict[str, object] = {}
    for word, value in parts.items():
        if value is not None:
            held[word] = value
    count = max(len(held), 1)
    room = tokens // count
    who = str(number)
    if turn.role:
        who += f" {turn.role}"
    texts: list[str] = []
    for word, value in held.items():
        encoded = encode_within(value, room)
        texts.append(f"{word}{encoded}")
    said = " ".join(texts)
    return f"{who}: {said}"


def _cut_turns(turns: Sequence[Turn], tokens: int) -> tuple[str, str]:
    """Keep the first turns, and twice as many of the last: the subject, and the end.

    The first and the last turn always stay; one that takes more than a quarter of the room is cut.
    """
    count = len(turns)
    quarter = (tokens - 20) // min(count, 4)
    most = max(quarter, 40)
    lines: dict[int, str] = {}
    used = 20
    long = 0

    def distance(place: int) -> int:
        from_start = 2 * place + 1
        from_end = count - 1 - place
        return min(from_start, from_end)

    places = range(count)
    ends_first = sorted(places, key=distance)
    for place in ends_first:
        number = place + 1
        turn = turns[place]
        line = _turn_line(number, turn, most)
        used += estimate_tokens(line)
        if used > tokens and len(lines) > 1:
            break
        lines[place] = line
        full = _turn_line(number, turn)
        long += line != full
    notes: list[str] = []
    shown = [lines[place] for place in sorted(lines)]
    left_out = count - len(lines)
    if left_out:
        kept = next(place for place in places if place not in lines)
        first = kept + 1
        last = kept + left_out
        note = f"turns {first} to {last} of {count} left out"
        notes.append(note)
        shown.insert(kept, f"… {note}")
    if long:
        long_turns = counted(long, "long turn")
        notes.append(f"{long_turns} cut")
    total = counted(count, "turn")
    shown.insert(0, total)
    text = "\n".join(shown)
    noted = ", ".join(notes)
    over = f"over the budget of {tokens:,} tokens"
    return text, f"conversation: {noted}: {over}"
