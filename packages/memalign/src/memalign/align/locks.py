"""Locked cases: what no align may break. A guideline that would is found by halving, and left out alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from memalign.align.ask import agrees, judge_case, judge_cases
from memalign.align.result import LockCheck, Run
from memalign.judge import Judge
from memalign.memory import Case, Memory, Outcome
from memalign.types import Judgment, guideline_number
from memalign.values import value_text

__all__ = ["keep_locks"]

replace = msgspec.structs.replace


async def keep_locks(before: Judge, learned: Judge, run: Run) -> Judge:
    """`learned` without the new guidelines that break a locked case, by the verdict that it delivers.

    Whenever something was left out for one, all are asked again: what one case needs may be what breaks another.

    Args:
        before: The judge as it was.
        learned: The judge with what it learned.
        run: Is told what each locked case came to.
    """
    cases = (learned.memory.case(name) for name in learned.memory.locks)
    locked = [case for case in cases if case is not None and learned.memory.label(case) is not None]
    if not locked or before.memory.hash == learned.memory.hash:
        return learned
    checks = {case.id: LockCheck(id=case.id, holds=True) for case in locked}
    tried: Judge | None = None
    with run.timed("locks"):
        while tried is not learned:
            tried = learned
            standing = [case for case in locked if checks[case.id].holds]
            judgments = await judge_cases([(learned, case) for case in standing], run, "locks")
            for case, judgment in zip(standing, judgments, strict=True):
                if agrees(learned, case, judgment):
                    continue
                learned, check = await _mended(before, learned, case, judgment, run)
                barred = dict.fromkeys((*checks[case.id].guideline_ids, *check.guideline_ids))
                checks[case.id] = replace(check, guideline_ids=tuple(barred))
                if learned is not tried:
                    break  # the other answers are those of a judge that is no more
    run.locks = tuple(checks.values())
    return learned


class _UnansweredError(Exception):
    """A question about a locked case got no answer; the message is the reason."""


async def _mended(
    before: Judge, learned: Judge, case: Case, judgment: Judgment | str, run: Run
) -> tuple[Judge, LockCheck]:
    """`learned` without the guidelines that break the locked case, and what the case came to."""
    fresh = sorted(_new_guidelines(before.memory, learned.memory, case.id), key=guideline_number)
    try:
        if isinstance(judgment, str):
            raise _UnansweredError(judgment)
        culprits = await _culprits(learned, case, fresh, run)
    except _UnansweredError as unanswered:
        # Rather learned later than broken now: the next align distils the lessons again. Other people's reasons, which
        # outlive the erasure of the case, do not name it, nor hold what a server may have sent back of it.
        why, error = "a locked case could not be checked: ", str(unanswered)
        check = LockCheck(id=case.id, holds=True, answered=False, reason=why + error)
        return _postponed(learned, fresh, why + error.partition(":")[0]), check
    if not culprits:
        label = value_text(learned.memory.label(case))
        reason = f"judged other than {label}, also without what is new: look at its examples, the model or the wording"
        return learned, LockCheck(id=case.id, holds=False, reason=reason)
    reason = f"{', '.join(culprits)} broke it"
    learned = learned.replace(memory=_barred(learned.memory, culprits, case.id))
    return learned, LockCheck(id=case.id, holds=True, guideline_ids=tuple(culprits), reason=reason)


async def _culprits(learned: Judge, case: Case, fresh: list[str], run: Run) -> list[str]:
    """Which of the guidelines break the locked case, found by halving; none, where it is broken without all of them.

    Raises _UnansweredError when a question about it had no answer.
    """

    async def broken(out: list[str]) -> bool:
        judgment = await judge_case(learned.replace(memory=_barred(learned.memory, out, case.id)), case, run)
        if isinstance(judgment, str):
            raise _UnansweredError(judgment)
        return not agrees(learned, case, judgment)

    if not fresh or await broken(fresh):
        return []
    culprits, rest = list[str](), fresh
    while rest and (not culprits or await broken(culprits)):
        # With the first `low` of them in force it is judged right, with the first `high` wrong.
        low, high = 0, len(rest)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if await broken([*culprits, *rest[middle:]]) else (middle, high)
        culprits.append(rest[high - 1])
        rest = [name for name in fresh if name not in culprits]
    return culprits


def _postponed(learned: Judge, ids: Collection[str], why: str) -> Judge:
    """The judge without these guidelines, and the lessons behind them pending.

    Nobody is ever shown them, no report names them, and so their numbers are free again: a lesson that waits a hundred
    times changes nothing.
    """
    if not ids:
        return learned
    memory = learned.memory
    number = memory.next_guideline
    while f"G{number - 1}" in ids:
        number -= 1
    waiting = {key for g in memory.guidelines if g.id in ids for key in g.supported_by}
    memory = replace(memory.without_guidelines(ids), next_guideline=number)
    waiting -= {key for g in memory.guidelines for key in g.supported_by}
    return learned.replace(memory=memory.with_outcomes(dict.fromkeys(waiting, Outcome(kind="waiting", reason=why))))


def _barred(memory: Memory, ids: Iterable[str], case_id: str) -> Memory:
    """`memory` with these guidelines out of force for the locked case; what stood behind them steps in."""
    barred = (replace(memory.guideline(name), barred_for=case_id, retired_by=None) for name in ids)
    return memory.with_guidelines(barred)


def _new_guidelines(before: Memory, after: Memory, locked_case: str) -> frozenset[str]:
    """What a model wrote since and is in force now, or would be once the others of these are barred, by id."""
    earlier = {guideline.id for guideline in before.guidelines}
    fresh: frozenset[str] = frozenset()
    while True:
        memory = _barred(after, fresh, locked_case)
        more = {g.id for g in memory.semantic if g.id not in earlier and g.origin == "distilled" and not g.pinned}
        if not more:
            return fresh
        fresh |= more
