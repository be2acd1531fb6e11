"""Impact: the verdicts on taught cases that an align changed, and by which new guidelines."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from memalign.align.result import Impact, VerdictChange
from memalign.align.run import AlignRun
from memalign.align.taught_cases import agrees, judge_hidden, taught_cases
from memalign.judge import Judge
from memalign.memory import Case
from memalign.types import Judgment

__all__ = ["impact"]


async def impact(after: Judge, count: int, run: AlignRun) -> Impact | None:
    """Judge taught cases by the judge before and after, with each case hidden from both.

    Args:
        after: The judge that learned.
        count: How many cases at most.
        run: Has the judge before, and counts what the judgments cost.

    Returns:
        What changed; None if the judge is the same, or no case has a label.
    """
    before = run.before
    cases = taught_cases(after)[:count]
    if not cases or before.memory.hash == after.memory.hash:
        return None
    pairs = [(before, case) for case in cases]
    pairs += [(after, case) for case in cases]
    with run.timed("impact"):
        judgments = await judge_hidden(pairs, run, "impact")
    failed = [judgment for judgment in judgments if isinstance(judgment, str)]
    if failed:
        run.notes.append(
            f"{len(failed)} of {len(judgments)} judgments for the impact failed: {failed[0]}"
        )
    old_ids = {guideline.id for guideline in before.memory.guidelines}
    olds = judgments[: len(cases)]
    news = judgments[len(cases) :]
    changes = []
    checked = 0
    for case, old, new in zip(cases, olds, news, strict=True):
        if isinstance(old, str) or isinstance(new, str):
            continue
        checked += 1
        if old.value == new.value:
            continue
        change = VerdictChange(
            id=case.id,
            label=after.memory.label(case),
            before=old.value,
            after=new.value,
            effect=_effect(after, case, old, new),
            guideline_ids=_speaking(new, beside=old_ids),
        )
        changes.append(change)
    return Impact(checked=checked, changes=tuple(changes))


def _effect(
    judge: Judge, case: Case, old: Judgment, new: Judgment
) -> Literal["fixed", "broken", "moved"]:
    was_right = agrees(judge, case, old)
    is_right = agrees(judge, case, new)
    if was_right == is_right:
        return "moved"
    if is_right:
        return "fixed"
    return "broken"


def _speaking(judgment: Judgment, *, beside: Collection[str]) -> tuple[str, ...]:
    """Return the guidelines, beside some, whose findings support the verdict."""
    names = []
    for finding in judgment.findings:
        name = finding.guideline
        if not name or name in beside:
            continue
        if finding.value in (None, judgment.value):
            names.append(name)
    return tuple(dict.fromkeys(names))
