"""Pre-alignment verdicts: what the judge says of a case without anything that it has learned.

Where an expert used no words, only a verdict of the judge says whether there is something to learn. Where it was wrong
is what distillation contrasts and what retrieval shows first. It is asked without its memory, so that no verdict depends
on a guideline that may be forgotten later.
"""

from __future__ import annotations

import time

import msgspec

from memalign import aio
from memalign.align.past_cases import Answer, PastCases
from memalign.align.states import with_outcomes
from memalign.errors import AccessDenied, ModelRefused
from memalign.judge import Judge, Progress
from memalign.memory import Annotation, Case, Memory, Outcome, PreAlignmentVerdict
from memalign.types import Usage

__all__ = ["pre_alignment"]

replace = msgspec.structs.replace

ADVICE = "; it may decline this case every time: unalign the feedback, or give the judge another model"


async def pre_alignment(
    judge: Judge, memory: Memory, *, all_cases: bool = True, progress: Progress | None = None
) -> tuple[Memory, Usage]:
    """`memory` with a verdict of `judge` without its memory on cases with pending feedback; and what that cost.

    These are `all_cases`, or those with pending feedback without words: it has a lesson where the judge was wrong. A
    verdict that is there is asked for again only when it is stale. One call answers for all cases of identical content.
    A failed call leaves the feedback pending, with the reason, for the next align; raises AccessDenied where every call
    would.
    """
    started = time.perf_counter()
    judged_by = judge.base_fingerprint

    def current(case: Case) -> bool:
        return case.pre_alignment is not None and case.pre_alignment.judge == judged_by

    known = {case.example.content_hash: case.pre_alignment for case in memory.cases if current(case)}
    waiting = [
        case
        for case in memory.cases
        if not current(case) and any(_waits(memory, annotation, all_cases=all_cases) for annotation in case.annotations)
    ]
    if not waiting:
        return memory, Usage()
    new: dict[str, Case] = {}
    for case in waiting:
        if case.example.content_hash not in known:
            new.setdefault(case.example.content_hash, case)
    past, unlearned = PastCases(judge, len(new), progress, phase="pre_alignment"), judge.without_memory()

    async def ask(case: Case) -> Answer:
        answer = await past.ask(unlearned, case)
        if isinstance(answer.error, AccessDenied):  # the first that is asked: nothing was paid for yet
            raise answer.error
        return answer

    given = dict(zip(new, await aio.together(map(ask, new.values())), strict=True))
    verdicts = known | {
        content: PreAlignmentVerdict(
            value=answer.value, judge=judged_by, rationale=answer.rationale, contrast=all_cases
        )
        for content, answer in given.items()
        if answer.value is not None
    }
    failed = {
        annotation.key: Outcome(
            kind="waiting", reason=f"not asked before learning: {_fault(given[case.example.content_hash])}"
        )
        for case in waiting
        if case.example.content_hash not in verdicts
        for annotation in case.annotations
        if _waits(memory, annotation, all_cases=all_cases)
    }
    asked = {case.id for case in waiting}
    memory = replace(
        memory,
        cases=tuple(
            replace(case, pre_alignment=verdicts.get(case.example.content_hash)) if case.id in asked else case
            for case in memory.cases
        ),
    )
    seconds = {"pre_alignment": time.perf_counter() - started}
    return with_outcomes(memory, failed), replace(past.usage, seconds=seconds)


def _waits(memory: Memory, annotation: Annotation, *, all_cases: bool) -> bool:
    return memory.state(annotation) == "pending" and (all_cases or not annotation.rationale)


def _fault(answer: Answer) -> str:
    # A model that declines will decline again: whoever reads this must know what would help.
    return f"{answer.fault or 'no verdict'}{ADVICE if isinstance(answer.error, ModelRefused) else ''}"
