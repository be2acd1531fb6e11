"""How much of each piece of feedback a distillation prompt shows: what fits, and the expert's own words first."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from memalign.prompts.render import DistilRecord, encode
from memalign.prompts.tokens import estimate_tokens
from memalign.prompts.truncate import cut, shorten, whole
from memalign.values import Value

__all__ = ["FeedbackRecord", "fit_records"]

SHORT = 24
"""Tokens up to which a text is never cut: what would stand in its place is as long."""
USEFUL = 60
"""Tokens below which a text is left out altogether: of less nobody can learn anything."""


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

    if fits(shown(0, None)):
        return shown(_largest(lambda tokens: fits(shown(tokens, None)), most), None)
    longest = max(
        (len(text.encode("utf-8", "surrogatepass")) for record in records for text in _said(record)), default=0
    )
    return shown(0, _largest(lambda tokens: fits(shown(0, tokens)), longest))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The most tokens that fit, from 0 to `most`; 0 is taken to fit."""
    if fits(most):
        return most
    least = 0
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
    return cut(name, value, tokens)[0] if name else shorten(value, tokens)


def _said(record: FeedbackRecord) -> list[str]:
    return [text for text in (record.rationale, record.value) if isinstance(text, str)]
