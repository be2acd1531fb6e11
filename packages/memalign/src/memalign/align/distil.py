"""Distillation: what experts said becomes guidelines, as many records a call as the model takes.

A prompt that writes text holds records and guidelines that stand, and nothing else. What each was exposed to is kept with
the guideline, so that forgetting is exact; what several calls teach is carried out in their order, whoever finished first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

from memalign import aio
from memalign.align.deltas import apply_answer
from memalign.align.distil_call import DistilCall
from memalign.align.distil_checks import left_out_note
from memalign.align.merge import merge, outgrown
from memalign.judge import Judge, Progress
from memalign.judge.decision import check_model_of
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Annotation, Memory, Outcome
from memalign.memory.retrieval import was_misjudged
from memalign.models.base import ChatModel
from memalign.types import FeedbackKey, Usage

__all__ = ["by_likeness", "distil"]

CONTRAST = 0.1
"""How much less alike a case of another label may be to stand next: near opposites show what decides (LEAP, arXiv 2402.05403)."""
NO_WORDS = "kept as an example: there were no words to learn from"


async def distil(
    judge: Judge, memory: Memory, model: ChatModel, *, size: int, progress: Progress | None = None
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` after every pending annotation was distilled, what that cost, and notes. Never raises for a failing model.

    Later feedback goes in with the guidelines that stand. Where several calls wrote the first guidelines side by side, and where
    guidelines outgrow their budget, one call more merges them; not where a call holds one record.

    Args:
        judge: The judge that learns.
        memory: What it is to know, with what is pending.
        model: Writes the guidelines.
        size: How many records a call holds at most.
        progress: Is told of each call.
    """
    started = time.perf_counter()
    if size == 1:
        memory = _with_wordless_examples(judge, memory)
    calls = _calls(judge, memory, model, size)
    told = progress and partial(progress, "distil")
    answered = await aio.at_most(model.limits.concurrency, DistilCall.answers, calls, told)
    answers = [answer for several in answered for answer in several]
    usage = sum((answer.usage for answer in answers), Usage())
    learned, outcomes = memory, dict[FeedbackKey, Outcome | None]()
    left_out = Counter[str]()
    for answer in answers:  # in the order of the calls, whoever finished first: guideline ids depend on it
        learned, ended, faults = apply_answer(learned, answer, memory)
        outcomes |= ended
        left_out += faults
    learned = learned.with_outcomes(outcomes)
    notes: tuple[str, ...] = ()
    fresh = size > 1 and len(calls) > 1 and not any(g.supported_by and not g.people for g in memory.semantic)
    if fresh or (learned.next_guideline > memory.next_guideline and outgrown(learned) and size > 1):
        learned, spent, notes = await merge(judge, learned, model)
        usage += spent
    usage += Usage(seconds={"distil": time.perf_counter() - started})
    return learned, usage, (*left_out_note(left_out), *notes)


def _with_wordless_examples(judge: Judge, memory: Memory) -> Memory:
    """Labels alone are learned as examples where a call would hold nothing else, unless the judge is known to be wrong."""

    def teaches(annotation: Annotation) -> bool:
        case = memory.case(annotation.id)
        wrong = case is not None and was_misjudged(memory, case, judge.value_type, base_fingerprint_of(judge))
        return bool(annotation.rationale) or wrong

    wordless = [annotation.key for annotation in memory.pending if not teaches(annotation)]
    return memory.with_outcomes({key: Outcome(kind="example", reason=NO_WORDS, exposed_to=(key,)) for key in wordless})


def _calls(judge: Judge, memory: Memory, model: ChatModel, size: int) -> list[DistilCall]:
    """The calls about all that waits: as few as may be, of equal size."""
    waiting = [annotation.key for annotation in memory.pending]
    keys = by_likeness(memory, waiting) if size > 1 else waiting
    count = -(-len(keys) // size)
    standing = tuple(guideline for guideline in memory.semantic if guideline.supported_by or guideline.people)
    whole = DistilCall(
        judge=judge,
        memory=memory,
        model=model,
        keys=tuple(keys),
        guidelines=() if model.limits.brief and size == 1 else standing,
        questions=check_model_of(judge) is not None,
    )
    shares = [keys[n * len(keys) // count : (n + 1) * len(keys) // count] for n in range(count)]
    return [part for share in shares for part in whole.of(share).parts()]


def by_likeness(memory: Memory, keys: Sequence[FeedbackKey]) -> list[FeedbackKey]:
    """The keys so that each is followed by the most alike of the others, of another label if one is nearly as alike.

    The order depends on the keys and their cases alone.
    """
    import numpy as np  # see Memory.matrix

    left = sorted(set(keys))
    rows = {case.id: row for row, case in enumerate(memory.cases)}
    if len(left) < 3 or not memory.matrix.shape[1]:
        return left
    vectors = memory.matrix[[rows[key.id] for key in left]]
    labels = [memory.label(memory.cases[rows[key.id]]) for key in left]
    numbers = {label: number for number, label in enumerate(sorted(set(labels), key=str))}
    label_of = np.array([numbers[label] for label in labels])
    free = np.ones(len(left), dtype=bool)
    order = [0]
    free[0] = False
    while len(order) < len(left):
        last = order[-1]
        alike = np.round(vectors @ vectors[last], 6) + CONTRAST * (label_of != label_of[last])
        following = int(np.argmax(np.where(free, alike, -np.inf)))
        order.append(following)
        free[following] = False
    return [left[place] for place in order]
