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
from memalign.content.text import SHAPED, shape_of
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
    too_long = []
    for name, value in content.items():
        text = whole(name, value, tokens)
        if text is None:
            too_long.append(name)
        fields[name] = text or ""
    if not too_long and estimate_tokens(*fields.values()) <= tokens:
        return FittedFields(fields)
    sizes = {name: estimate_tokens(text) for name, text in fields.items()}
    more = tokens + 1
    sizes |= dict.fromkeys(too_long, more)
    notes: list[str] = []
    room = tokens
    waiting = sorted(sizes, key=sizes.__getitem__, reverse=True)
    while waiting:
        share = room // len(waiting)
        name = waiting.pop()
        if sizes[name] <= share:
            room -= sizes[name]
        else:
            room -= share
            fields[name], note = cut(name, content[name], share)
            notes.append(note)
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

    def fits(length: int) -> bool:
        encoded = encode(words[:length])
        return estimate_tokens(encoded) <= tokens

    length = _largest(fits, len(words))
    comment = words[:length]
    fields, notes = fit_fields(content, tokens)
    if comment != words:
        note = _truncated("the comment", words, comment)
        notes = (*notes, note)
    answer = render_answer(comment, label)
    pairs = fields.items()
    named = tuple(pairs)
    example = RenderedExample(fields=named, answer=answer)
    return example, notes


def _truncated(name: str, whole: str, kept: str) -> str:
    before = len(whole)
    after = len(kept)
    return f"{name} truncated from {before:,} to {after:,} characters"


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

    def encoded(case: int, words: int = _LONGEST) -> list[DistilRecord]:
        return [_encoded(record, case, words) for record in records]

    full = encoded(most)
    if fits(full):  # nearly always
        return full
    case = 0
    words = _LONGEST
    if fits(encoded(0)):
        case = _largest(lambda tokens: fits(encoded(tokens)), most)
    else:
        words = _largest(lambda tokens: fits(encoded(0, tokens)), _LONGEST)
    return encoded(case, words)


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

    return DistilRecord(
        label=record.label,
        fields=tuple(
            (name, _within(name, value, case)) for name, value in record.content
        ),
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
    return cut(name, value, tokens).text


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to `most` that fits; 0 is taken to fit."""
    if fits(most):  # nearly always
        return most
    least = 0
    while most - least > 1:
        middle = (least + most) // 2
        if fits(middle):
            least = middle
        else:
            most = middle
    return least


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
        likeness = nearest.get(guideline.id, 0.0)
        pinned = guideline.pinned
        own = guideline.origin != "distilled"
        support = len(guideline.supported_by)
        return pinned, likeness, own, support

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


class Cut(NamedTuple):
    """A field in fewer tokens, and what is missing in words."""

    text: str
    note: str


def whole(name: str, value: object, tokens: int) -> str | None:
    """Return a field as a prompt shows it, or None if it is certainly longer and not encoded.

    Args:
        name: The field.
        value: What it holds.
        tokens: Its room.
    """
    shape = shape_of(name, value) if name in SHAPED else None
    if isinstance(shape, SpanTree):
        lines = tree_lines(shape)
        return _joined(lines, tokens)
    if shape is not None:
        lines = _turn_lines(shape)
        return _joined(lines, tokens)
    # A text over the whole budget is cut in any case: to encode megabytes of it first would hold
    # everybody up.
    if isinstance(value, str) and len(value) > tokens * BYTES_PER_TOKEN:
        return None
    return encode(value)


def cut(name: str, value: object, tokens: int) -> Cut:
    """Return a field in about so many tokens.

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
    note = _truncated(name, value, text)
    return Cut(text, note)


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


def _cut_tree(tree: SpanTree, tokens: int) -> Cut:
    """Show all spans with their values cut to one length, or an outline if that is too long."""
    spans = counted(len(tree.spans), "span")
    over = f"{spans} are over the budget of {tokens:,} tokens"

    def within(room: int) -> str | None:
        lines = tree_lines(tree, room)
        return _joined(lines, tokens)

    def fits(room: int) -> bool:
        return within(room) is not None

    room = _largest(fits, tokens)
    text = within(room)
    if text is None or room <= SHORT:
        text = outline(tree, tokens)
        return Cut(text, f"trace in outline: {over}")
    return Cut(text, f"trace: {over}, and long values in them are cut")


# -- turns of a conversation -------------------------------------------------------------------


def _turn_lines(turns: Sequence[Turn]) -> Iterator[str]:
    count = len(turns)
    yield counted(count, "turn")
    for number, turn in enumerate(turns, 1):
        yield _turn_line(number, turn)


def _turn_line(number: int, turn: Turn, tokens: int | None = None) -> str:
    parts: dict[str, object] = {}
    if turn.content is not None:
        parts[""] = turn.content
    if turn.calls:
        parts["calls "] = turn.calls
    if turn.rest:
        parts["with "] = turn.rest
    room = tokens
    if tokens is not None and parts:
        room = tokens // len(parts)
    texts: list[str] = []
    for word, value in parts.items():
        encoded = encode_within(value, room)
        texts.append(f"{word}{encoded}")
    said = " ".join(texts)
    who = str(number)
    if turn.role:
        who = f"{number} {turn.role}"
    return f"{who}: {said}"


def _cut_turns(turns: Sequence[Turn], tokens: int) -> Cut:
    """Keep the first turns, and the last ones with twice the room: the subject, and the end.

    The first and the last turn always stay; one that takes more than a quarter of the room is cut.
    """
    count = len(turns)
    quarter = (tokens - 20) // min(count, 4)
    most = max(quarter, 40)
    front: list[str] = []
    back: list[str] = []  # the last turn first
    front_tokens = 0
    back_tokens = 0
    long = 0
    while len(front) + len(back) < count:
        at_end = back_tokens <= 2 * front_tokens
        number = len(front) + 1
        if at_end:
            number = count - len(back)
        turn = turns[number - 1]
        line = _turn_line(number, turn, most)
        size = estimate_tokens(line)
        used = front_tokens + back_tokens + size + 20
        if used > tokens and front and back:
            break
        if at_end:
            back.append(line)
            back_tokens += size
        else:
            front.append(line)
            front_tokens += size
        said = encode([turn.content, turn.calls, turn.rest])
        long += estimate_tokens(said) > most
    notes: list[str] = []
    shown = [counted(count, "turn"), *front]
    first = len(front) + 1
    last = count - len(back)
    if first <= last:
        left_out = f"turn {last}"
        if first < last:
            left_out = f"turns {first} to {last}"
        note = f"{left_out} of {count} left out"
        notes.append(note)
        shown.append(f"… {note}")
    shown += reversed(back)
    if long:
        long_turns = counted(long, "long turn")
        notes.append(f"{long_turns} cut")
    text = "\n".join(shown)
    noted = ", ".join(notes)
    over = f"over the budget of {tokens:,} tokens"
    return Cut(text, f"conversation: {noted}: {over}")
