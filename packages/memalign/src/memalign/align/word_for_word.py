"""An expert's comment as a guideline, word for word: for judges whose model is too weak to write one. No call."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memalign.align.deltas import REFUSED
from memalign.content import judged_texts, sides_of
from memalign.judge import Judge
from memalign.memory import Annotation, Case, Outcome
from memalign.memory.guard import MAX_WORDS, guideline_fault, tidy
from memalign.types import FeedbackKey, Guideline
from memalign.values import ValueType, value_text

__all__ = ["NO_WORDS", "comment_as_rule", "word_for_word"]

SENTENCES = 2
"""Of a comment at most: what a reader remembers of it."""
NO_WORDS = "kept as an example: there were no words to learn from"
_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*")  # noqa: RUF001  # full stops of languages without spaces


def word_for_word(judge: Judge) -> Judge:
    """Return the judge with a guideline of each pending comment, supported by and exposed to that comment alone."""
    memory = judge.memory
    outcomes = dict[FeedbackKey, Outcome | None]()
    for annotation in memory.pending:
        key = annotation.key
        case = memory.record(key)[1]
        if not annotation.rationale:
            outcomes[key] = Outcome(kind="example", reason=NO_WORDS, exposed_to=(key,))
            continue
        text = comment_as_rule(annotation, case, judge.value_type)
        fault = guideline_fault(text, judged_texts(case.example.content), [annotation.rationale])
        if fault is not None:
            outcomes[key] = Outcome(kind="refused", reason=REFUSED.format(fault), exposed_to=(key,))
            continue
        new = Guideline(
            id=f"G{memory.next_guideline}", text=text, supported_by=(key,), exposed_to=(key,)
        )
        memory = memory.with_guidelines([new])
        outcomes[key] = None
    return judge.replace(memory=memory.with_outcomes(outcomes))


def comment_as_rule(annotation: Annotation, case: Case, value_type: ValueType) -> str:
    """Return a comment's first sentences on one line, with the label that the expert gave beside it.

    A label that names a side of the item says nothing of another item, and is left out.
    """
    comment = tidy(annotation.rationale or "")
    text = _first_sentences(comment)
    label = annotation.value
    if (
        label is None
        or not value_type.closed
        or label in sides_of(case.example.content, value_type.choices)
    ):
        return text
    return f"{text.rstrip(' .!。')}: {value_text(label)}."


def _first_sentences(comment: str) -> str:
    """Return as many whole sentences as fit, two at most; one alone however long it is."""
    sentences = [sentence for sentence in _END.split(comment) if sentence][:SENTENCES]
    while len(sentences) > 1 and _words(sentences) >= MAX_WORDS:
        sentences.pop()
    return comment[: _length_of(comment, sentences)].strip()


def _words(sentences: Iterable[str]) -> int:
    return sum(len(sentence.split()) for sentence in sentences)


def _length_of(comment: str, sentences: Iterable[str]) -> int:
    """Return where the last of these sentences ends in the comment."""
    end = 0
    for sentence in sentences:
        end = comment.index(sentence, end) + len(sentence)
    return end
