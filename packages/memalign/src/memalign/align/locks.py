"""Locked cases: what no align may break. A guideline that would is found by halving, and left out alone."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from memalign.align.ask import agrees, judge_case, judge_cases
from memalign.align.result import LockCheck, Run
from memalign.judge import Judge
from memalign.memory import Case, Memory, Outcome
from memalign.types import Guideline
from memalign.values import value_text

__all__ = ["keep_locks"]

replace = msgspec.structs.replace


class _UnansweredError(Exception):
    """A locked case could not be judged; the message is the reason."""


async def keep_locks(before: Judge, learned: Judge, run: Run) -> Judge:
    """`learned` without the new guidelines that break a locked case, by the verdict that it delivers.

    Whenever one was left out, all are asked again: what one case needs may be what breaks another. Where a case cannot
    be judged, all that is new waits: rather learned later than broken now. `run.locks` says what each case came to.
    """
    cases = (learned.memory.case(name) for name in learned.memory.locks)
    locked = [case for case in cases if case is not None and learned.memory.label(case) is not None]
    if not locked or before.memory.hash == learned.memory.hash:
        return learned
    checks = {case.id: LockCheck(id=case.id, holds=True) for case in locked}
    with run.timed("locks"):
        while standing := [case for case in locked if checks[case.id].holds]:
            judgments = await judge_cases([(learned, case) for case in standing], run, "locks")
            broken = next((pair for pair in zip(standing, judgments, strict=True) if not agrees(learned, *pair)), None)
            if broken is None:
                break
            case, judgment = broken
            try:
                if isinstance(judgment, str):
                    raise _UnansweredError(judgment)
                culprit = await _culprit(before, learned, case, run)
            except _UnansweredError as unanswered:
                # Other people's reasons, which outlive the case, hold nothing that a server may have sent back of it.
                why, error = "a locked case could not be checked: ", str(unanswered)
                checks[case.id] = replace(checks[case.id], answered=False, reason=f"{why}{error}")
                learned = _postponed(before, learned, f"{why}{error.partition(':')[0]}")
                break
            if culprit is None:
                label = value_text(learned.memory.label(case))
                reason = (
                    f"judged other than {label}, also without what is new: see its examples, the model, the wording"
                )
                checks[case.id] = replace(checks[case.id], holds=False, reason=reason)
                continue
            barred = (*checks[case.id].guideline_ids, culprit)
            checks[case.id] = replace(checks[case.id], guideline_ids=barred, reason=f"{', '.join(barred)} broke it")
            learned = learned.replace(memory=_barred(learned.memory, [culprit], case.id))
    run.locks = tuple(checks.values())
    return learned


async def _culprit(before: Judge, learned: Judge, case: Case, run: Run) -> str | None:
    """A guideline that breaks the locked case, found by halving; None where it is broken without all that is new."""
    fresh = [guideline.id for guideline in _new_guidelines(before, learned) if not guideline.pinned]

    async def broken(out: list[str]) -> bool:
        judgment = await judge_case(learned.replace(memory=_barred(learned.memory, out, case.id)), case, run)
        if isinstance(judgment, str):
            raise _UnansweredError(judgment)
        return not agrees(learned, case, judgment)

    if not fresh or await broken(fresh):
        return None
    low, high = 0, len(fresh)  # with the first `low` of them in force it is judged right, with the first `high` wrong
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if await broken(fresh[middle:]) else (middle, high)
    return fresh[high - 1]


def _postponed(before: Judge, learned: Judge, why: str) -> Judge:
    """The judge without what a model wrote since, and the lessons behind it pending; its numbers are free again."""
    memory, fresh = learned.memory, _new_guidelines(before, learned)
    rest = memory.without_guidelines({guideline.id for guideline in fresh})
    number = max((before.memory.next_guideline, *(guideline.number + 1 for guideline in rest.guidelines)))
    waiting = {key for g in fresh for key in g.supported_by} - {key for g in rest.guidelines for key in g.supported_by}
    rest = replace(rest, next_guideline=number)
    return learned.replace(memory=rest.with_outcomes(dict.fromkeys(waiting, Outcome(kind="waiting", reason=why))))


def _new_guidelines(before: Judge, learned: Judge) -> list[Guideline]:
    """What a model wrote since and no locked case has barred, in force or behind another."""
    earlier = {guideline.id for guideline in before.memory.guidelines}
    since = (guideline for guideline in learned.memory.guidelines if guideline.id not in earlier)
    return [guideline for guideline in since if guideline.origin == "distilled" and guideline.barred_for is None]


def _barred(memory: Memory, ids: Iterable[str], case_id: str) -> Memory:
    """`memory` with these guidelines out of force for the locked case; what stood behind them steps in."""
    barred = (replace(memory.guideline(name), barred_for=case_id, retired_by=None) for name in ids)
    return memory.with_guidelines(barred)
