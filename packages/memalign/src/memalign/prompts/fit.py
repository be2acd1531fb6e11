"""What of fields, past cases and feedback fits into so many tokens of a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from memalign.content.encoding import encode, estimate_tokens, shorten
from memalign.prompts.render import DistilRecord, RenderedExample, render_answer
from memalign.prompts.truncate import cut, whole
from memalign.values import Value

__all__ = ["FeedbackRecord", "FittedFields", "fit_example", "fit_fields", "fit_records"]

SHORT = 24
"""Tokens up to which a text is never cut: what would stand in its place is as long."""
USEFUL = 60
"""Tokens below which a text is left out altogether: of less nobody can learn anything."""


class FittedFields(msgspec.Struct, frozen=True, kw_only=True):
    """Fields encoded, notes on what is missing in them, and whether one is a trace that is there in outline only."""

    fields: dict[str, str]
    notes: tuple[str, ...] = ()
    outlined: bool = False


def fit_fields(content: Mapping[str, object], tokens: int) -> FittedFields:
    """Encode every field; when together they exceed `tokens`, cut the longest down to an equal share."""
    full = {name: whole(name, value, tokens) for name, value in content.items()}
    sizes = {name: tokens + 1 if text is None else estimate_tokens(text) for name, text in full.items()}
    shown = {name: text for name, text in full.items() if text is not None}
    if sum(sizes.values()) <= tokens:
        return FittedFields(fields=shown)
    notes, outlined = list[str](), False
    left, names = tokens, sorted(sizes, key=lambda name: sizes[name])
    for position, name in enumerate(names):
        share = left // (len(names) - position)
        if sizes[name] > share:
            shortened = cut(name, content[name], share)
            shown[name] = shortened.text
            notes.append(shortened.note)
            outlined |= shortened.outlined
        left -= min(sizes[name], share)
    return FittedFields(fields={name: shown[name] for name in content}, notes=tuple(notes), outlined=outlined)


def fit_example(
    content: Mapping[str, object], words: str, label: Value | None, tokens: int
) -> tuple[RenderedExample, tuple[str, ...]]:
    """A past case, with the `words` and the label of its experts, and notes; its fields and the words take `tokens` each."""
    kept = words[: _largest(lambda length: estimate_tokens(encode(words[:length])) <= tokens, len(words))]
    fitted = fit_fields(content, tokens)
    notes = fitted.notes
    if len(kept) < len(words):
        notes = (*notes, f"the comment truncated from {len(words):,} to {len(kept):,} characters")
    return RenderedExample(fields=tuple(fitted.fields.items()), answer=render_answer(kept or None, label)), notes


class FeedbackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of feedback before it is fitted into a prompt: the case, the judge's own verdict, the expert's."""

    label: str
    content: tuple[tuple[str, object], ...]
    value: Value | None = None
    rationale: str | None = None
    judge: Value | None = None
    judge_rationale: str | None = None


def fit_records(
    records: Sequence[FeedbackRecord], fits: Callable[[Sequence[DistilRecord]], bool], *, most: int
) -> tuple[DistilRecord, ...]:
    """The records encoded, every text cut to the same number of tokens (`most` at most) so that `fits` accepts them.

    The expert's label and words stay whole, unless they are too long beside cases that are left out. Where nothing
    fits, all texts are as short as they can be.
    """

    def shown(case: int, words: int | None) -> tuple[DistilRecord, ...]:
        return tuple(_encoded(record, case, words) for record in records)

    full = shown(most, None)
    if fits(full):  # nearly always
        return full
    if fits(shown(0, None)):
        return shown(_largest(lambda tokens: fits(shown(tokens, None)), most), None)
    longest = max(
        (len(text.encode("utf-8", "surrogatepass")) for record in records for text in _said(record)), default=0
    )
    return shown(0, _largest(lambda tokens: fits(shown(0, tokens)), longest))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The most tokens that fit, from 0 to `most`; 0 is taken to fit."""
    least, most = 0, most + 1
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if fits(middle) else (least, middle)
    return least


def _encoded(record: FeedbackRecord, case: int, words: int | None) -> DistilRecord:
    """The record with its case in `case` tokens a text and the expert's words in `words` (None: whole)."""

    def said(text: Value | None) -> str | None:
        return None if text is None else encode(text) if words is None else _within("", text, words)

    def judged(text: Value | None) -> str | None:
        return None if text is None else _within("", text, case)

    return DistilRecord(
        label=record.label,
        fields=tuple((name, _within(name, value, case)) for name, value in record.content),
        judge=judged(record.judge),
        judge_rationale=judged(record.judge_rationale),
        value=said(record.value),
        rationale=said(record.rationale),
    )


def _within(name: str, value: object, tokens: int) -> str:
    text = whole(name, value, max(tokens, SHORT))
    if text is not None and estimate_tokens(text) <= max(tokens, SHORT):
        return text
    if tokens < USEFUL:
        return encode("[left out: too long]")
    return cut(name, value, tokens).text if name else shorten(value, tokens)


def _said(record: FeedbackRecord) -> list[str]:
    return [text for text in (record.rationale, record.value) if isinstance(text, str)]
