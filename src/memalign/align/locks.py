"""Locked cases: what no align may break. A guideline that would is found by halving, and left out alone."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import msgspec

from memalign import aio
from memalign.align.consolidate import consolidate
from memalign.align.distil import with_states
from memalign.align.inquiry import Inquiry, agrees, leave_out, new_guidelines
from memalign.align.result import LockCheck
from memalign.judge import Judge, Progress
from memalign.memory import Case, Memory
from memalign.memory.standing import LOCK
from memalign.records import Usage

__all__ = ["keep_locks"]

replace = msgspec.structs.replace


async def keep_locks(
    given: Judge, learned: Judge, *, progress: Progress | None = None
) -> tuple[Judge, tuple[LockCheck, ...], Usage]:
    """`learned` without the new guidelines that break a locked case, what each locked case came to, and the cost."""
    started = time.perf_counter()
    locked = [case for name in learned.memory.locks if (case := learned.memory.case(name))]
    if not locked or given.memory.hash == learned.memory.hash:
        return learned, (), Usage()
    inquiry = Inquiry(learned, len(locked), progress, phase="locks")
    answers = await aio.together(inquiry.ask(learned, case) for case in locked)
    checks: list[LockCheck] = []
    for case, (value, fault, _) in zip(locked, answers, strict=True):
        if fault is None and agrees(learned, case, value):
            checks.append(LockCheck(id=case.id, kept=True))
            continue
        try:
            learned, check = await _mended(given, learned, case, inquiry, fault)
        except _UnansweredError as unanswered:
            # Rather learned later than broken now: the next align distils the lessons again.
            fresh = new_guidelines(given.memory, learned.memory)
            why = f"the locked case {case.id} could not be checked: {unanswered}"
            learned = learned.replace(memory=_postponed(learned.memory, fresh, why))
            check = LockCheck(id=case.id, kept=True, guideline_ids=tuple(sorted(fresh)), reason=why)
        checks.append(check)
    return learned, tuple(checks), inquiry.usage + Usage(seconds={"locks": time.perf_counter() - started})


class _UnansweredError(Exception):
    """A question about a locked case got no answer; the words are the reason."""


def _postponed(memory: Memory, ids: Collection[str], why: str) -> Memory:
    """`memory` without these guidelines, and the lessons behind them pending."""
    waiting = {key for g in memory.guidelines if g.id in ids for key in g.supported_by}
    left = replace(memory, guidelines=tuple(g for g in memory.guidelines if g.id not in ids))
    waiting -= {key for g in left.guidelines for key in g.supported_by}
    return consolidate(with_states(left, dict.fromkeys(sorted(waiting), ("pending", why))))


async def _mended(
    given: Judge, learned: Judge, case: Case, inquiry: Inquiry, fault: str | None
) -> tuple[Judge, LockCheck]:
    """`learned` without the guidelines that break the locked case, found by halving the new ones.

    Raises _UnansweredError when a question about it had no answer, `fault` being that of the first.
    """
    if fault is not None:
        raise _UnansweredError(fault)
    label, why = learned.memory.label(case), f"{LOCK}{case.id}"
    fresh = sorted(new_guidelines(given.memory, learned.memory), key=lambda name: int(name[1:]))

    async def broken(out: Sequence[str]) -> bool:
        value, fault, _ = await inquiry.ask(learned.replace(memory=leave_out(learned.memory, out, why)), case)
        if fault is not None:
            raise _UnansweredError(fault)
        return not agrees(learned, case, value)

    if not fresh or await broken(fresh):
        reason = f"judged other than {label}, also without what is new: look at its examples, the model or the wording"
        return learned, LockCheck(id=case.id, kept=False, reason=reason)
    culprits: list[str] = []
    while len(culprits) < len(fresh) and await broken(culprits):
        rest = [name for name in fresh if name not in culprits]
        low, high = (
            0,
            len(rest),
        )  # with the first `low` of them in force it is judged right, with the first `high` wrong
        while high - low > 1:
            middle = (low + high) // 2
            if await broken([*culprits, *rest[middle:]]):
                high = middle
            else:
                low = middle
        culprits.append(rest[high - 1])
    learned = learned.replace(memory=leave_out(learned.memory, culprits, why))
    reason = f"{', '.join(culprits)} broke it" if culprits else ""
    return learned, LockCheck(id=case.id, kept=True, guideline_ids=tuple(culprits), reason=reason)
