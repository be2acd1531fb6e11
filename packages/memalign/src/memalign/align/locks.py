"""Locked cases: judged again, hidden from themselves, whenever a judge would become another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from msgspec import structs

from memalign.align.result import AlignResult, BrokenLock
from memalign.align.run import AlignRun
from memalign.align.taught_cases import agrees, judge_hidden
from memalign.errors import AccessDenied, ConfigurationError, MemalignError
from memalign.judge import Judge
from memalign.memory import Case, Outcome
from memalign.memory.forget import WHY
from memalign.types import FeedbackKey, Judgment

__all__ = [
    "broken_locks",
    "held_back",
    "with_lessons_unanswered",
    "with_lessons_waiting",
]

# No case is named: the reason is kept with other people's feedback, and may outlive the case.
WAITS = (
    "a locked case would be judged wrong, so nothing was learned; "
    "to learn it all the same: --force (force=True)"
)


QUOTED = 50
"""Pieces of feedback that wait with a provider's words at most: each is exposed to all of them."""


async def broken_locks(judge: Judge, run: AlignRun) -> tuple[BrokenLock, ...]:
    """Judge the locked cases, and return those that come out wrong or cannot be judged.

    Args:
        judge: The judge that is to be delivered.
        run: Counts what the judgments cost.
    """
    memory = judge.memory
    pairs = []
    for name in memory.locks:
        case = memory.case(name)
        if case is not None and memory.label(case) is not None:
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
        reason = f"could not be judged: {judgment}"
        return BrokenLock(id=case.id, label=label, reason=reason)
    names = dict.fromkeys(judgment.guideline_ids)
    for finding in judgment.findings:
        names[finding.guideline] = None
    return BrokenLock(
        id=case.id,
        label=label,
        value=judgment.value,
        guideline_ids=tuple(names),
    )


def with_lessons_waiting(
    judge: Judge, reason: str = WAITS, *, exposed_to: Sequence[FeedbackKey] = ()
) -> Judge:
    """Return a judge whose pending feedback waits for one reason.

    Args:
        judge: The judge.
        reason: The reason; without one, that a locked case would be broken.
        exposed_to: The feedback whose words the reason may repeat.
    """
    memory = judge.memory
    waiting = Outcome(kind="pending", reason=reason, exposed_to=tuple(exposed_to))
    outcomes = {annotation.key: waiting for annotation in memory.pending}
    return judge.replace(memory=memory.with_outcomes(outcomes))


def with_lessons_unanswered(judge: Judge, error: MemalignError) -> Judge:
    """Return a judge whose pending feedback waits because no model answered.

    A provider may send back words of what it was asked, so feedback that waits with its words is
    exposed to all the others. Where that would be too much, the error is only named.

    Args:
        judge: The judge, which has forgotten.
        error: Why no model answered.
    """
    reason = f"{WHY}: {error}"
    exposed = [annotation.key for annotation in judge.memory.pending]
    if isinstance(error, ConfigurationError) and not isinstance(error, AccessDenied):
        exposed = []  # the words are our own
    elif len(exposed) > QUOTED:
        reason = f"{WHY}: {type(error).__name__}"
        exposed = []
    return with_lessons_waiting(judge, reason, exposed_to=exposed)


def held_back(result: AlignResult) -> AlignResult:
    """Return the result of an align that commits nothing: the old judge, with feedback pending."""
    held = result.held or result.judge
    ledger = {str(entry.key): entry for entry in held.memory.ledger()}
    rows = []
    for row in result.rows:
        entry = ledger.get(row.key)
        if entry is not None:
            state = entry.state
            rows.append(structs.replace(row, state=state, reason=entry.reason))
        else:
            rows.append(row)
    return replace(result, judge=held, rows=tuple(rows), changed=False)
