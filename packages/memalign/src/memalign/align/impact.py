"""Which verdicts on taught cases an align changed, and by which guideline: the case is hidden, its guidelines stay."""

from __future__ import annotations

from memalign.align.result import Impact, VerdictChange
from memalign.align.run import AlignRun
from memalign.align.taught_cases import agrees, judge_cases, taught_cases
from memalign.judge import Judge

__all__ = ["impact"]


async def impact(after: Judge, count: int, run: AlignRun) -> Impact | None:
    """What the align changed on at most `count` taught cases; None where nothing changed or no case has a label."""
    cases, before = taught_cases(after)[:count], run.before
    if not cases or before.memory.hash == after.memory.hash:
        return None
    with run.timed("impact"):
        pairs = [
            (judge.without_case(case.example), case) for judge in (before, after) for case in cases
        ]
        judgments = await judge_cases(pairs, run, "impact")
    earlier = {guideline.id for guideline in before.memory.guidelines}
    changes, checked = list[VerdictChange](), 0
    for case, old, new in zip(cases, judgments[: len(cases)], judgments[len(cases) :], strict=True):
        if isinstance(old, str) or isinstance(new, str):
            continue
        checked += 1
        if old.value != new.value:
            was_right, is_right = (agrees(after, case, judgment) for judgment in (old, new))
            speaking = (
                finding.guideline for finding in new.findings if finding.value in (None, new.value)
            )
            change = VerdictChange(
                id=case.id,
                label=after.memory.label(case),
                before=old.value,
                after=new.value,
                effect="moved" if was_right == is_right else "fixed" if is_right else "broken",
                guideline_ids=tuple(
                    dict.fromkeys(name for name in speaking if name and name not in earlier)
                ),
            )
            changes.append(change)
    if failed := [answer for answer in judgments if isinstance(answer, str)]:
        run.notes.append(
            f"{len(failed)} of {len(judgments)} judgments for the impact failed: {failed[0]}"
        )
    return Impact(checked=checked, changes=tuple(changes))
