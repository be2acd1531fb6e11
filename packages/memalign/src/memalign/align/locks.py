"""Locked cases: what no align may break. A guideline that would is found by halving, and left out alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from memalign.align.result import LockCheck, Run
from memalign.align.taught_cases import agrees, judge_cases
from memalign.judge import Judge
from memalign.memory import Case, Outcome
from memalign.values import value_text

__all__ = ["keep_locks"]

UNCHECKED = "a locked case could not be checked: "
BROKEN_ALREADY = "judged other than {}, also without what is new: see its examples, the model, the wording"


class _UnansweredError(Exception):
    """A locked case could not be judged; its id and the reason."""


async def keep_locks(before: Judge, learned: Judge, run: Run) -> Judge:
    """`learned` without the new guidelines that break a locked case, by the verdict that it delivers.

    Whenever one was left out, all are asked again: what one case needs may be what breaks another. Where a case cannot
    be judged, all stays as it was `before` the distillation. `run.locks` says what each case came to.
    """
    memory = learned.memory
    cases = (memory.case(name) for name in memory.locks)
    locked = {case.id: case for case in cases if case is not None and memory.label(case) is not None}
    if not locked:
        return learned
    checks = {name: LockCheck(id=name, holds=True) for name in locked}
    earlier = {guideline.id for guideline in before.memory.guidelines}
    try:
        with run.timed("locks"):
            while case := await _broken(learned, [locked[name] for name in locked if checks[name].holds], run):
                new = (guideline for guideline in learned.memory.guidelines if guideline.id not in earlier)
                fresh = [g.id for g in new if g.origin == "distilled" and g.barred_for is None]
                culprit = await _culprit(learned, fresh, case, run)
                if culprit is None:
                    reason = BROKEN_ALREADY.format(value_text(memory.label(case)))
                    checks[case.id] = replace(checks[case.id], holds=False, reason=reason)
                else:
                    barred = (*checks[case.id].guideline_ids, culprit)
                    reason = f"{', '.join(barred)} broke it"
                    checks[case.id] = replace(checks[case.id], guideline_ids=barred, reason=reason)
                    learned = _barred(learned, [culprit], case)
    except _UnansweredError as unanswered:
        name, error = unanswered.args
        checks = {name: LockCheck(id=name, holds=True, answered=False, reason=f"{UNCHECKED}{error}")}
        # Other people's reasons, which outlive the case, hold nothing that a server may have sent back of it.
        waiting = Outcome(kind="waiting", reason=f"{UNCHECKED}{error.partition(':')[0]}")
        keys = [annotation.key for annotation in before.memory.pending]
        learned = before.replace(memory=before.memory.with_outcomes(dict.fromkeys(keys, waiting)))
    run.locks = tuple(checks.values())
    return learned


async def _broken(judge: Judge, cases: Sequence[Case], run: Run) -> Case | None:
    """The first of the cases that the judge is wrong about; all are asked at once."""
    judgments = await judge_cases([(judge, case) for case in cases], run, "locks")
    for case, judgment in zip(cases, judgments, strict=True):
        if isinstance(judgment, str):
            raise _UnansweredError(case.id, judgment)
        if not agrees(judge, case, judgment):
            return case
    return None


async def _culprit(learned: Judge, fresh: Sequence[str], case: Case, run: Run) -> str | None:
    """The one of these guidelines that breaks the case, found by halving; None where it is broken without them all."""
    if not fresh or await _broken(_barred(learned, fresh, case), [case], run):
        return None
    low, high = 0, len(fresh)  # with the first `low` of them in force it is judged right, with the first `high` wrong
    while high - low > 1:
        middle = (low + high) // 2
        broken = await _broken(_barred(learned, fresh[middle:], case), [case], run)
        low, high = (low, middle) if broken else (middle, high)
    return fresh[high - 1]


def _barred(judge: Judge, ids: Collection[str], case: Case) -> Judge:
    """The judge with these guidelines out of force for the locked case; what stood behind them steps in."""
    barred = (replace(judge.memory.guideline(name), barred_for=case.id, retired_by=None) for name in ids)
    return judge.replace(memory=judge.memory.with_guidelines(barred))
