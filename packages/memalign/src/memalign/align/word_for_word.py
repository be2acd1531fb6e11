"""Comments as guidelines, word for word: for models too weak to write one. No call is made."""

from __future__ import annotations

import re

from memalign.align.deltas import REFUSED
from memalign.content import judged_texts, sides_of
from memalign.judge import Judge
from memalign.memory import Annotation, Case, Outcome
from memalign.memory.guard import MAX_WORDS, guideline_fault, tidy
from memalign.types import FeedbackKey, Guideline
from memalign.values import ValueType, value_text

__all__ = ["comment_as_rule", "without_lone_labels", "word_for_word"]

SENTENCES = 2
"""Sentences of a comment at most: as many as a reader remembers."""
NO_WORDS = "kept as an example: there were no words to learn from"
# The end of a sentence, also in languages without spaces.
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")  # noqa: RUF001


def word_for_word(judge: Judge) -> Judge:
    """Return the judge with a guideline for each pending comment, exposed to that comment alone."""
    memory = without_lone_labels(judge).memory
    outcomes: dict[FeedbackKey, Outcome | None] = {}
    for annotation in memory.pending:
        key = annotation.key
        comment = annotation.rationale or ""
        _, case = memory.record(key)
        text = comment_as_rule(annotation, case, judge.value_type)
        judged = judged_texts(case.example.content)
        fault = guideline_fault(text, judged, [comment])
        if fault is not None:
            reason = REFUSED.format(fault)
            outcomes[key] = Outcome(kind="rejected", reason=reason, exposed_to=(key,))
            continue
        new = Guideline(
            id=f"G{memory.next_guideline}",
            text=text,
            supported_by=(key,),
            exposed_to=(key,),
        )
        memory = memory.with_guidelines([new])
        outcomes[key] = None
    return judge.replace(memory=memory.with_outcomes(outcomes))


def without_lone_labels(judge: Judge) -> Judge:
    """Keep pending labels as examples: a label beside no other record teaches no rule."""
    examples = {}
    for annotation in judge.memory.pending:
        if not annotation.rationale:
            key = annotation.key
            examples[key] = Outcome(kind="learned", reason=NO_WORDS, exposed_to=(key,))
    return judge.replace(memory=judge.memory.with_outcomes(examples))


def comment_as_rule(annotation: Annotation, case: Case, value_type: ValueType) -> str:
    """Return a comment's first sentences on one line, followed by the expert's label.

    A label that names a side of the item says nothing about other items, and is left out.

    Args:
        annotation: The comment, and the label.
        case: Its case.
        value_type: The judge's.
    """
    text = _first_sentences(tidy(annotation.rationale or ""))
    label = annotation.value
    if label is None or not value_type.closed:
        return text
    if label in sides_of(case.example.content, value_type.choices):
        return text
    return f"{text.rstrip(' .!。')}: {value_text(label)}."


def _first_sentences(comment: str) -> str:
    """Return the first two sentences, or one if both are too long for a guideline."""
    ends = [end.start() for end in _END.finditer(comment)]
    ends.append(len(comment))
    for end in reversed(ends[:SENTENCES]):
        sentences = comment[:end]
        if len(sentences.split()) < MAX_WORDS:
            return sentences
    return comment[: ends[0]]
