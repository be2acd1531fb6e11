"""Distillation: what experts said becomes guidelines, one shard of feedback a call.

A prompt that writes text holds one shard's records and guidelines and nothing else. That bounds what a guideline is
exposed to, makes forgetting exact and cheap, and makes the result independent of which call finishes first.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from functools import partial

from memalign import aio
from memalign.align.deltas import apply_outcome
from memalign.align.distil_call import DistilCall
from memalign.align.distil_checks import left_out_note
from memalign.align.shards import assign_shards, guidelines_by_feedback, shard_guidelines
from memalign.align.states import with_outcomes
from memalign.judge import Judge, Progress
from memalign.memory import Annotation, Case, Memory, Outcome
from memalign.memory.retrieval import was_misjudged
from memalign.models.base import ChatModel
from memalign.types import FeedbackKey, Usage

__all__ = ["distil", "has_lesson"]


async def distil(
    judge: Judge,
    memory: Memory,
    model: ChatModel,
    *,
    shard_size: int,
    contrast: bool = True,
    progress: Progress | None = None,
) -> tuple[Memory, Usage, tuple[str, ...]]:
    """`memory` after every pending annotation was distilled, what that cost, and notes. Never raises for a failing model.

    Annotations without a lesson are learned as examples. One whose case has no pre-alignment verdict waits for that: any
    with `contrast`, which shows the model these verdicts, and else one that has no words, but for free text. A failed call
    leaves its annotations pending; a rule that is refused twice leaves them rejected.
    """
    started = time.perf_counter()
    ready = frozenset(
        annotation.key
        for annotation in memory.pending
        if (case := memory.case(annotation.id))
        and (case.pre_alignment or (not contrast and (annotation.rationale or not judge.value_type.closed)))
    )
    memory = _learn_examples(judge, memory, ready)
    waiting = frozenset(each.key for each in memory.pending if each.key in ready)
    memory = assign_shards(memory, sorted(waiting), shard_size)
    calls = _calls(judge, memory, model, waiting, contrast=contrast)
    told = progress and partial(progress, "distil")
    outcomes = await aio.at_most(model.limits.concurrency, DistilCall.outcome, calls, told)
    usage = sum((outcome.usage for outcome in outcomes), Usage())
    learned, states = memory, dict[FeedbackKey, Outcome | None]()
    left_out = Counter[str]()
    for outcome in outcomes:  # in the order of the shards, whoever finished first: guideline ids depend on it
        learned, ended, faults = apply_outcome(learned, outcome, memory)
        states |= ended
        left_out += faults
    # All at once: a thousand shards that each went through ten thousand annotations took a minute.
    memory = with_outcomes(learned, states)
    usage += Usage(seconds={"distil": time.perf_counter() - started})
    return memory, usage, left_out_note(left_out)


def has_lesson(judge: Judge, memory: Memory, case: Case, annotation: Annotation) -> bool:
    """Whether there is something to distil: the expert used words, or the judge was wrong."""
    return bool(annotation.rationale) or was_misjudged(memory, case, judge.value_type, judge.base_fingerprint)


def _learn_examples(judge: Judge, memory: Memory, ready: Collection[FeedbackKey]) -> Memory:
    """Pending annotations without a lesson are learned: their example is all there is to learn."""

    def outcome(case: Case, annotation: Annotation) -> Outcome:
        agreed = case.pre_alignment is not None and judge.value_type.closed
        why = "the judge agreed, and " * agreed + "there were no words to learn from"
        return Outcome(kind="example", reason=f"kept as an example: {why}", exposed_to=(annotation.key,))

    return with_outcomes(
        memory,
        {
            annotation.key: outcome(case, annotation)
            for case in memory.cases
            for annotation in case.annotations
            if annotation.key in ready and not has_lesson(judge, memory, case, annotation)
        },
    )


def _calls(
    judge: Judge, memory: Memory, model: ChatModel, waiting: Collection[FeedbackKey], *, contrast: bool
) -> list[DistilCall]:
    """The calls that ask about all that waits, in the order of the shards."""
    written = guidelines_by_feedback(memory)
    calls: list[DistilCall] = []
    for shard in memory.shards:
        if new := tuple(key for key in shard.keys if key in waiting):
            near = {guideline.id: guideline for key in shard.keys for guideline in written.get(key, ())}
            own = shard_guidelines(memory, sorted(near.values(), key=lambda guideline: guideline.number), shard)
            call = DistilCall(
                judge=judge,
                memory=memory,
                model=model,
                shard=shard,
                waiting=new,
                guidelines=tuple(own),
                contrast=contrast,
            )
            calls += call.parts()
    return calls
