"""Locked cases: judged again, hidden from themselves, whenever a judge would become another one."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from memalign.align.result import AlignResult, BrokenLock
from memalign.align.run import AlignRun
from memalign.align.taught_cases import agrees, judge_cases
from memalign.judge import Judge
from memalign.memory import Case, Outcome
from memalign.types import Judgment

__all__ = ["broken_locks", "held_back", "with_lessons_waiting"]

WAITS = "a locked case would be judged wrong, so nothing was learned; to learn it all the same: --force (force=True)"


async def broken_locks(judge: Judge, run: AlignRun) -> tuple[BrokenLock, ...]:
    """Return the locked cases that a judge gets wrong, and those that nobody could judge.

    Args:
        judge: The judge that is to be delivered.
        run: Counts what the judgments cost.
    """
    named = (judge.memory.case(name) for name in judge.memory.locks)
    locked = [case for case in named if case is not None and judge.memory.label(case) is not None]
    pairs = [(judge.without_case(case.example), case) for case in locked]
    with run.timed("locks"):
        judgments = await judge_cases(pairs, run, "locks")
    broken = []
    for case, judgment in zip(locked, judgments, strict=True):
        if isinstance(judgment, str) or not agrees(judge, case, judgment):
            broken.append(_broken(judge, case, judgment))
    return tuple(broken)


def _broken(judge: Judge, case: Case, judgment: Judgment | str) -> BrokenLock:
    label = judge.memory.label(case)
    if isinstance(judgment, str):
        return BrokenLock(id=case.id, label=label, reason=f"could not be judged: {judgment}")
    ids = tuple(
        dict.fromkeys(
            (*judgment.guideline_ids, *(finding.guideline for finding in judgment.findings))
        )
    )
    return BrokenLock(id=case.id, label=label, value=judgment.value, guideline_ids=ids)


def with_lessons_waiting(judge: Judge) -> Judge:
    """Return a judge whose pending feedback waits because a locked case would be broken."""
    # The reason names no case: it is kept with other people's feedback, and may outlive the case.
    keys = [annotation.key for annotation in judge.memory.pending]
    waiting = dict.fromkeys(keys, Outcome(kind="waiting", reason=WAITS))
    return judge.replace(memory=judge.memory.with_outcomes(waiting))


def held_back(result: AlignResult) -> AlignResult:
    """Return the result of an align of which nothing may be committed: the judge as it was, its feedback pending."""
    held = result.held or result.judge
    ledger = {str(entry.key): entry for entry in held.memory.ledger()}
    rows = []
    for reported in result.rows:
        row = reported
        entry = ledger.get(row.key)
        if entry is not None:
            row = msgspec.structs.replace(row, state=entry.state, reason=entry.reason)
        rows.append(row)
    return replace(result, judge=held, rows=tuple(rows), changed=False)
