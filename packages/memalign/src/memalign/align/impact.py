"""The impact of an align: which verdicts on past cases it changed, from the verdicts that are recorded anyway.

Each verdict is of a judge from which the case was hidden, so that no lesson is checked on the case that it comes from. No
model is asked for it: a case without two verdicts of the same model and instructions is not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from memalign.align.past_cases import agrees
from memalign.align.result import Impact, VerdictChange
from memalign.judge import Judge
from memalign.judge.spec import base_fingerprint_of
from memalign.memory import Case, Memory

if TYPE_CHECKING:
    from memalign.values import Value

__all__ = ["impact"]


def impact(before: Judge, after: Judge) -> Impact | None:
    """What changed on the cases of which `after` was asked since; None where none of them has a verdict of before.

    Args:
        before: The judge as it was given.
        after: The judge that is delivered, with the verdicts that it gave on cases hidden from it.
    """
    judged_by = base_fingerprint_of(after)
    fresh = {guideline.id for guideline in after.memory.guidelines}
    fresh -= {guideline.id for guideline in before.memory.guidelines}
    checked, changes = 0, []
    for case in after.memory.cases:
        new = _verdict(case, judged_by)
        old = _verdict_before(before.memory, case, judged_by)
        if new is None or old is None or after.memory.label(case) is None or _unasked(before.memory, case):
            continue
        checked += 1
        if old != new:
            changes.append(_change(after, case, old, new, fresh))
    return Impact(checked=checked, changes=tuple(changes)) if checked else None


def _verdict(case: Case, judged_by: str) -> Value | None:
    """The verdict recorded with the case, with the case hidden, of the judge of that fingerprint."""
    answers = case.answers
    return answers.verdict if answers is not None and answers.judge == judged_by else None


def _verdict_before(memory: Memory, case: Case, judged_by: str) -> Value | None:
    """What the judge had said of the case: of a case that an empty memory met only now, its verdict before learning."""
    known = memory.case(case.id)
    if known is not None:
        return _verdict(known, judged_by)
    verdict = case.pre_alignment
    return verdict.value if verdict is not None and not memory and verdict.judge == judged_by else None


def _unasked(memory: Memory, case: Case) -> bool:
    """Whether the case's answers are those of before: they are older than what was learned."""
    known = memory.case(case.id)
    return known is not None and known.answers == case.answers


def _change(after: Judge, case: Case, old: Value, new: Value, fresh: set[str]) -> VerdictChange:
    was_right, is_right = (agrees(after, case, value) for value in (old, new))
    effect: Literal["fixed", "broken", "moved"]
    effect = "moved" if was_right == is_right else "fixed" if is_right else "broken"
    shown = [name for name in (case.answers.guideline_ids if case.answers else ()) if name in fresh]
    return VerdictChange(
        id=case.id,
        label=after.memory.label(case),
        before=old,
        after=new,
        effect=effect,
        guideline_ids=tuple(shown) if len(shown) == 1 else (),  # of several, none can be named without more calls
    )
