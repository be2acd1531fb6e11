"""Locked cases: judged again, hidden from themselves, whenever a judge would become another one."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from memalign.align.result import AlignResult, BrokenLock
from memalign.align.run import AlignRun
from memalign.align.taught_cases import agrees, judge_hidden
from memalign.judge import Judge
from memalign.memory import Case, Outcome
from memalign.types import Judgment

__all__ = ["broken_locks", "held_back", "with_lessons_waiting"]

# No case is named: the reason is kept with other people's feedback, and may outlive the case.
WAITS = (
    "a locked case would be judged wrong, so nothing was learned; "
    "to learn it all the same: --force (force=True)"
)


async def broken_locks(judge: Judge, run: AlignRun) -> tuple[BrokenLock, ...]:
    """Judge the locked cases, and return those that come out wrong or cannot be judged.

    Args:
        judge: The judge that is to be delivered.
        run: Counts what the judgments cost.
    """
    pairs = []
    for name in judge.memory.locks:
        case = judge.memory.case(name)
        if case is not None and judge.memory.label(case) is not None:
            pairs.append((judge, case))
    with run.timed("locks"):
        judgments = await judge_hidden(pairs, run, "locks")
    broken = []
    for (_, case), judgment in zip(pairs, judgments, strict=True):
        if isinstance(judgment, str) or not agrees(judge, case, judgment):
            broken.append(_broken(judge, case, judgment))
    return tuple(broken)


def _broken(judge: Judge, case: Case, judgment: Judgment | str) -> BrokenLock:
    label = judge.memory.label(case)
    if isinstance(judgment, str):
        return BrokenLock(
            id=case.id, label=label, reason=f"could not be judged: {judgment}"
        )
    names = dict.fromkeys(judgment.guideline_ids)
    for finding in judgment.findings:
        names[finding.guideline] = None
    return BrokenLock(
        id=case.id, label=label, value=judgment.value, guideline_ids=tuple(names)
    )


def with_lessons_waiting(
    judge: Judge, reason: str = WAITS, *, quotes: bool = False
) -> Judge:
    """Return a judge whose pending feedback waits for one reason.

    Args:
        judge: The judge.
        reason: The reason; without one, that a locked case would be broken.
        quotes: Whether the reason may repeat words of any of the feedback, as errors do.
    """
    keys = tuple(annotation.key for annotation in judge.memory.pending)
    waiting = Outcome(kind="waiting", reason=reason, exposed_to=keys if quotes else ())
    return judge.replace(
        memory=judge.memory.with_outcomes(dict.fromkeys(keys, waiting))
    )


def held_back(result: AlignResult) -> AlignResult:
    """Return the result of an align that commits nothing: the old judge, with feedback pending."""
    held = result.held or result.judge
    ledger = {str(entry.key): entry for entry in held.memory.ledger()}
    rows = []
    for row in result.rows:
        entry = ledger.get(row.key)
        if entry is None:
            rows.append(row)
        else:
            rows.append(structs.replace(row, state=entry.state, reason=entry.reason))
    return replace(result, judge=held, rows=tuple(rows), changed=False)
